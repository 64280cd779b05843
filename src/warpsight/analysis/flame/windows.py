"""The window of one iteration, for pictures of that iteration alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


def iteration_window(trace: StoredTrace, number: int, begin: int | None, end: int | None) -> tuple[int, int]:
    """Begin and end of an iteration, cut to the requested window.

    Raises:
        UsageError: when the trace has no iterations, or lacks this one.
    """
    from warpsight.analysis.steps.iterations import iterations

    table = iterations(trace).tables["iterations"]
    rows = [row for row in table.to_pylist() if row["number"] == number]  # one per process
    if not rows:
        most = max(table.column("number").to_pylist(), default=-1) + 1
        raise UsageError(
            f"{trace.path} has {most:,} iterations, from 0; there is no iteration {number}" if most
            else f"no iterations were found in {trace.path}"
        )  # fmt: skip
    first = min(row["start"] for row in rows)
    last = max(row["start"] + row["duration"] for row in rows)
    return max(first, begin) if begin is not None else first, min(last, end) if end is not None else last

"""Device work summed by host stack and name, for profile formats without a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpsight.formats.selection import Selection

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Function, file, line, kind.
Place = tuple[str, str, int, str]


@dataclass(frozen=True)
class Total:
    """Work of one process with one stack and name: count, ns, bytes and first start."""

    process: int
    stack: int
    kind: str
    name: str
    count: int
    time: int
    bytes: int
    first: int
    last: int


def placed(parts: Sequence[str]) -> str:
    """The start of a statement over `placed`: the rows of all `parts` with their own stack or their launch's, otherwise 0.

    Each part selects at least process, correlation and stack, all the same columns.
    """
    return f"""WITH work AS ({" UNION ALL ".join(parts)}),
      calls AS (SELECT process, correlation, any_value(stack) AS stack FROM (
        SELECT process, correlation, stack FROM launch_ids UNION ALL SELECT process, correlation, stack FROM api)
        WHERE correlation IS NOT NULL GROUP BY ALL),
      placed AS (SELECT w.* REPLACE (coalesce(w.stack, c.stack, 0) AS stack) FROM work w
        LEFT JOIN calls c ON c.process = w.process AND c.correlation = w.correlation)"""


def totals(trace: StoredTrace, selection: Selection) -> list[Total]:
    """Totals of kernels, copies and sets; the stack is their own or their launch's, 0 without one."""
    names = {"kernel": ("kernel", "coalesce(demangled, '?')", "0"), "memcpy": ("memcpy", "'Memcpy ' || kind", "bytes"),
             "memset": ("memset", "'Memset'", "bytes")}  # fmt: skip
    parts = [
        f"SELECT process, correlation, stack, '{label}' AS what, {name} AS leaf, start, "
        f"greatest(duration, 0) AS duration, {size} AS bytes FROM {table} "
        f"WHERE {selection.where(table)} AND duration IS NOT NULL"
        for table, (label, name, size) in names.items() if selection.wants(table)
    ]  # fmt: skip
    if not parts:
        return []
    rows = trace.sql(f"""{placed(parts)}
        SELECT process, stack, what, leaf, count(*), sum(duration)::BIGINT, sum(bytes)::BIGINT, min(start),
          max(start + duration)
        FROM placed GROUP BY ALL ORDER BY ALL""")
    return [Total(*row) for row in rows.fetchall()]


def unplaced(trace: StoredTrace) -> int:
    """The number of kernels without a time."""
    return int(trace.sql("SELECT count(*) FROM kernel_ids WHERE start IS NULL").fetchall()[0][0])


def wall_clock(trace: StoredTrace) -> int:
    """The offset from the trace's times to wall-clock time (ns since 1970); 0 if unknown."""
    rows = trace.sql("SELECT median(realtime - monotonic)::BIGINT FROM clock").fetchall()
    return int(rows[0][0] or 0)


class StackFrames:
    """The frames of stacks, looked up by stack id."""

    def __init__(self, trace: StoredTrace) -> None:
        """Read all frames and stacks."""
        self._frames: dict[int, Place] = {
            i: (function, file or "", line or 0, kind)
            for i, function, file, line, kind in trace.sql(
                "SELECT id, function, file, line, kind FROM frame"
            ).fetchall()
        }
        self._tree = {i: (p, f) for i, p, f in trace.sql("SELECT id, parent, frame FROM stack").fetchall()}

    def innermost_first(self, stack: int) -> list[Place]:
        """The frames of a stack, innermost first; empty for 0."""
        out, at = [], stack
        while at in self._tree:
            at, frame = self._tree[at]
            out.append(self._frames.get(frame, ("?", "", 0, "native")))
        return out

"""All rows of a timeline, and the data they share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.steps import iterations
from warpsight.analysis.timeline import devices, host
from warpsight.analysis.timeline.row import Row
from warpsight.model import calls as host_calls
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.selection import Rows, begin_of, end_of

if TYPE_CHECKING:
    from warpsight.analysis.steps.iterations import Iterations
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()


@dataclass(frozen=True)
class Scene:
    """The rows of a timeline from top to bottom.

    Attributes:
        begin: Start of the first thing, or of the requested time, ns.
        end: End of the last thing, or of the requested time.
        origin: 0 of the times that people see (:func:`warpsight.model.selection.begin_of`).
        names: Kind and text of each number of a name.
        calls: The calls that `Row.call` counts in.
        merged: Streams without a row.
        threads: Threads without a row.
    """

    begin: int
    end: int
    origin: int
    rows: tuple[Row, ...]
    names: tuple[tuple[str, str], ...]
    calls: Calls
    merged: int
    threads: int

    @cached_property
    def caller(self) -> dict[tuple[int, int], int]:
        """The number of the row that holds the calls of each (process, thread)."""
        found: dict[tuple[int, int], int] = {}
        for number, row in enumerate(self.rows):
            if row.role == "calls" and row.call is not None and len(row):
                first = int(row.call[:1][0])
                found[int(self.calls.process[first]), int(self.calls.thread[first])] = number
        return found

    def matching(self, pattern: str, role: str = "device") -> Column:
        """The slices of all rows of a role whose name matches a regular expression, as (row, begin, end), by start.

        Raises:
            re.error: for an invalid pattern.
        """
        found = re.compile(pattern, re.IGNORECASE)
        wanted = np.array([found.search(text) is not None for _, text in self.names], bool)
        parts = [np.zeros((0, 3), np.int64)]
        for number, row in enumerate(self.rows):
            if row.role == role and len(row):
                mine = np.flatnonzero(wanted[row.name[:]])
                parts.append(np.stack([np.full(len(mine), number), row.start[mine], row.end[mine]], axis=1))
        every = np.concatenate(parts)
        out: Column = every[np.argsort(every[:, 1], kind="stable")]
        return out


def scene(trace: StoredTrace, rows: Rows = _ALL) -> Scene:
    """The timeline of the selected rows; cached while the trace is open."""
    return trace.kept.get(("timeline", rows.key()), lambda: _scene(trace, rows))


def _scene(trace: StoredTrace, rows: Rows) -> Scene:
    work = device_work.load(trace, rows)
    names = NumberedLabels()
    on_devices, merged = devices.rows(trace, work, names)
    on_host, threads = host.rows(trace, rows, names, work.finish if rows.end is not None else end_of(trace))
    steps = [_steps(one, names, n) for n, one in enumerate(iterations.find(trace, rows, work))]
    every = [row for row in (*steps, *on_host, *on_devices) if len(row)]
    begin = min((int(row.start[0]) for row in every), default=work.begin)
    end = max((int(row.reach[-1]) for row in every), default=work.finish)
    begin = max(begin, rows.begin) if rows.begin is not None else begin
    end = min(end, rows.end) if rows.end is not None else end
    return Scene(begin, max(end, begin + 1), begin_of(trace), tuple(every), tuple(names.numbers),
                 host_calls.load(trace, api=True), merged, threads)  # fmt: skip


def _steps(one: Iterations, names: NumberedLabels, number: int) -> Row:
    """The iterations of a process, each named by its label or number."""
    texts = [label or f"iteration {place}" for place, label in enumerate(one.label)]
    kinds = np.where(one.outlier, "outlier", "step").tolist()
    code = np.array([names(kind, text) for kind, text in zip(kinds, texts, strict=True)], np.int32)
    key = f"steps{number or ''}"
    return Row(key, f"steps · process {one.process}" if number else "steps", "steps", key, one.start,
               one.start + one.duration, code)  # fmt: skip

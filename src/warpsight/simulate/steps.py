"""How long the iterations of a program take, as recorded and after a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times
from warpsight.analysis.steps.iterations import Iterations

Column = npt.NDArray[Any]


@dataclass(frozen=True)
class _Span:
    """Begin and end of everything that happened, ns."""

    begin: int
    end: int

    @property
    def length(self) -> int:
        """Time in between, ns."""
        return self.end - self.begin


def span(program: Program, times: Times) -> _Span:
    """From the first to the last moment; calls that never returned have no end."""
    graph = program.graph
    returned = times.returned
    if len(graph.calls.unreturned):
        returned = returned[~np.isin(graph.by_thread.call, graph.calls.unreturned)]
    begins = [int(column.min()) for column in (times.begin, times.start) if len(column)]
    ends = [int(column.max()) for column in (returned, times.end) if len(column)]
    return _Span(min(begins, default=0), max(ends, default=0))


def recorded(program: Program) -> Times:
    """The times of the recording."""
    graph = program.graph
    points = graph.time[: graph.base]
    return Times(points[0::2], points[1::2], graph.start, graph.end)


def durations(found: Iterations, times: Times) -> Column:
    """The duration of each iteration, ns: from the start of its first device work to the start of the next one's."""
    rows = found.rows
    if not len(rows):
        return np.zeros(0, np.int64)
    start = np.minimum.reduceat(times.start[rows], found.first)
    end = int(np.maximum.reduceat(times.end[rows], found.first)[-1])
    out: Column = np.diff(np.append(start, max(end, int(start[-1]))))
    return out


def counted(found: Iterations) -> Column:
    """The iterations that determine the step time: steady ones, without the last, whose pause is unknown."""
    chosen: Column = found.steady.copy()
    if not chosen.any():
        chosen[:] = True
    if int(chosen.sum()) > 1:
        chosen[np.flatnonzero(chosen)[-1]] = False
    return chosen

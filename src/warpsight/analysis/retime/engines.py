"""Copy engines: copies in one direction of a device never overlap, whatever their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.path import dependencies as path
from warpsight.analysis.retime.program import Program
from warpsight.model.work import COPY, numbered, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Directions served by one engine each: over the bus, to the device or from it.
_DIRECTIONS = ("HtoD", "DtoH")
#: The time between two copies of an engine (ns).
_GAP = 1_000


def with_copy_engines(trace: StoredTrace, program: Program) -> Program:
    """The program with each copy waiting for the previous copy in its direction, if no recorded copies overlap."""
    graph = program.graph
    rows = np.flatnonzero(graph.work.kind == COPY)
    if len(values_in(graph.queue[rows])) < 2:
        return program
    names, code = copy_names(trace, graph.work, rows)
    bus = np.array(
        [next((i for i, way in enumerate(_DIRECTIONS) if way in name), -1) for name in names], np.int64
    )
    device = np.array([-1 if queue.device is None else queue.device for queue in graph.queues], np.int64)
    way = bus[code]
    rows, way = rows[way >= 0], way[way >= 0]
    group, _ = numbered([device[graph.queue[rows]], way])
    order = rows[np.lexsort((graph.start[rows], group))]
    group = np.sort(group)
    one, two = order[:-1], order[1:]
    rest = graph.start[two] - graph.end[one]
    same = group[1:] == group[:-1]
    beside = values_in(group[1:][same & (rest < 0)])  # this device has several engines
    good = same & ~np.isin(group[1:], beside) & (graph.queue[one] != graph.queue[two])
    if not good.any():
        return program
    base = program.base
    lag = np.minimum(rest[good], _GAP)
    # Delay explained by the engine is not a delay of the copy's own.
    delay = program.delay.copy()
    delay[two[good]] = np.minimum(delay[two[good]], rest[good] - lag)
    return program.but(
        delay=delay, links=program.links.joined(base + one[good], base + two[good], lag, path.STREAM)
    )

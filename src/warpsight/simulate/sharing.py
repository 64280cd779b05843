"""Kernels of two groups that run at the same time share the multiprocessors, and slow each other down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times, solve
from warpsight.model.work import COMMUNICATION

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
#: Times that overlaps are found anew with the lengths that followed from the ones before.
_ROUNDS = 3


def slowed(trace: Trace, program: Program, moved: Column, lean: int) -> Program:
    """The program with kernels as slow as the overlap of the moved ones (a mask over device nodes) with the others makes them.

    A kernel wants a share of the multiprocessors: its blocks by their number, at most all. As long as both groups find room,
    nothing changes. Beyond that a kernel either goes slower in proportion (`lean` -1), or needs whole further waves of blocks
    (1); between the two otherwise.
    """
    blocks, units = _blocks(trace, program)
    share = np.minimum(blocks / units, 1.0)
    kernel = program.graph.kind <= COMMUNICATION
    base = program.duration
    changed = program
    for _ in range(_ROUNDS):
        times = solve(changed)
        duration = base.astype(float)
        for mine, others in ((moved & kernel, ~moved & kernel), (~moved & kernel, moved & kernel)):
            nodes = np.flatnonzero(mine)
            part = _overlapped(times, nodes, np.flatnonzero(others))
            taken = _mean(share[others], base[others])
            duration[nodes] *= 1 + part * (_slowdown(blocks[nodes], units, taken, lean) - 1)
        changed = program.but(duration=np.round(duration).astype(np.int64))
    return changed


def _blocks(trace: Trace, program: Program) -> tuple[Column, int]:
    """Blocks of each device node by its kernel's name (0: not known, takes no room), and multiprocessors of the device."""
    rows = trace.sql(
        "SELECT name_id, avg(grid_x::DOUBLE * grid_y * grid_z) FROM kernel WHERE grid_x > 0 GROUP BY name_id"
    ).fetchall()
    units = trace.sql("SELECT max(multiprocessors) FROM device").fetchall()[0][0]
    work = program.graph.work
    of_name = np.zeros(max([int(work.name_id.max(initial=0)), *(row[0] for row in rows)]) + 1)
    for number, blocks in rows:
        of_name[number] = blocks
    out = np.zeros(len(program))
    out[: len(work)] = of_name[work.name_id]
    return out, int(units or 1) if units else 1 << 30


def _overlapped(times: Times, nodes: Column, others: Column) -> Column:
    """The part of each node's time in which one of the others ran."""
    order = np.argsort(times.start[others], kind="stable")
    start, end = times.start[others][order], np.maximum.accumulate(times.end[others][order])
    start = np.maximum(start, np.r_[start[:1], end[:-1]])
    edges = np.stack([start, np.maximum(end, start)], 1).reshape(-1)
    sums = np.zeros(len(edges), np.int64)
    sums[1::2] = np.cumsum(np.maximum(end - start, 0))
    sums[2::2] = sums[1:-1:2]
    if not len(edges):
        return np.zeros(len(nodes))
    run = np.interp(times.end[nodes], edges, sums) - np.interp(times.start[nodes], edges, sums)
    out: Column = run / np.maximum(times.end[nodes] - times.start[nodes], 1)
    return out


def _mean(share: Column, weight: Column) -> float:
    return float(np.average(share, weights=np.maximum(weight, 1))) if len(share) else 0.0


def _slowdown(blocks: Column, units: int, taken: float, lean: int) -> Column:
    """How many times as long kernels take beside others that take a part of the multiprocessors."""
    own = np.minimum(blocks / units, 1.0)
    smooth = np.maximum(own + taken, 1.0)
    left = max(units * (1 - taken), 1.0) if taken < 1 else units / 2
    waves = np.ceil(blocks / left) / np.maximum(np.ceil(blocks / units), 1)
    waves = np.where(own >= 1, np.maximum(waves, smooth), smooth)
    out: Column = {-1: smooth, 0: (smooth + waves) / 2, 1: waves}[lean]
    return out

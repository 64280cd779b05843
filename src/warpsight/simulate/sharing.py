"""Kernels of two groups that run at the same time share the multiprocessors and slow each other down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.occupancy.limits import blocks_per_multiprocessor, limits
from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times, solve
from warpsight.model import intervals
from warpsight.model.work import COMMUNICATION

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Iterations: overlaps are recomputed with the lengths from the iteration before.
_ROUNDS = 4


def slowed(trace: StoredTrace, program: Program, moved: Column, lean: int) -> Program:
    """The program with kernels slowed by the overlap of the moved ones (a mask over device nodes) with the others.

    A kernel that begins on an idle device spreads its blocks over all multiprocessors. One that begins beside others takes what
    they leave, with as many blocks on each multiprocessor as fit. A kernel whose blocks no longer fit at once needs further
    waves, and a wave of few blocks takes less time, because they have memory and multiprocessors to themselves. `lean` -1 assumes
    that all kernels are packed; 1 assumes that they are spread, and that each wave takes as long as a full one.
    """
    room = _Room.of(trace, program)
    if lean == 1:
        room = replace(room, fitting=np.ones(len(program)))
    kernel = program.graph.kind <= COMMUNICATION
    base = program.duration
    changed = program
    for _ in range(_ROUNDS):
        times = solve(changed)
        factor = np.ones(len(program))
        for mine, others in ((moved & kernel, ~moved & kernel), (~moved & kernel, moved & kernel)):
            nodes, beside = np.flatnonzero(mine), np.flatnonzero(others)
            spread = room.spread[beside] > 0
            if lean < 1:
                spread &= (lean == 0) & ~_beside(times, beside, nodes)
            for among, taken in ((beside[spread], room.spread), (beside[~spread], room.packed)):
                part = overlapped(times, nodes, among)
                factor[nodes] += part * (room.slowdown(nodes, _mean(taken[among], base[among])) - 1)
        changed = program.but(duration=np.round(base * factor).astype(np.int64))
    return changed


@dataclass(frozen=True)
class _Room:
    """Each device node's use of the device: `spread` and `packed` are fractions of the multiprocessors, at most 1.

    `fitting`: blocks that run on a multiprocessor at a time.
    """

    waves: Column
    fitting: Column
    spread: Column
    packed: Column

    @classmethod
    def of(cls, trace: StoredTrace, program: Program) -> _Room:
        """Read blocks, threads and registers by kernel name."""
        rows = trace.sql(
            """SELECT name_id, avg(grid_x::DOUBLE * grid_y * grid_z), max(block_x::BIGINT * block_y * block_z),
               max(coalesce(registers, 0)), max(coalesce(shared_static, 0) + coalesce(shared_dynamic, 0))
               FROM kernel WHERE grid_x > 0 GROUP BY name_id"""
        ).fetchall()
        asked = "SELECT max(multiprocessors), any_value(compute_capability) FROM device"
        units, capability = trace.sql(asked).fetchall()[0]
        units = units or 1 << 30
        of_device = limits(capability)
        work = program.graph.work
        size = max([int(work.name_id.max(initial=0)), *(row[0] for row in rows)]) + 1
        blocks, fitting = np.zeros(size), np.ones(size)
        for number, count, threads, registers, shared in rows:
            blocks[number] = count
            if of_device is not None:
                fitting[number] = max(
                    blocks_per_multiprocessor(of_device, int(threads), registers, shared)[0], 1
                )
        waves, spread, packed = (np.zeros(len(program)) for _ in range(3))
        at_a_time = np.ones(len(program))
        at_a_time[: len(work)] = fitting[work.name_id]
        waves[: len(work)] = (blocks / (units * fitting))[work.name_id]
        spread[: len(work)] = np.minimum(blocks / units, 1)[work.name_id]
        packed[: len(work)] = np.minimum(np.ceil(blocks / fitting) / units, 1)[work.name_id]
        return cls(waves, at_a_time, spread, packed)

    def slowdown(self, nodes: Column, taken: float) -> Column:
        """The factor by which kernels slow down while others occupy a fraction of the multiprocessors."""
        if taken >= 1:
            return 1 + self.packed[nodes]
        tight = self.packed[nodes] + taken > 1
        waves, fitting = self.waves[nodes], self.fitting[nodes]
        before, after = _wave_time(waves, fitting), _wave_time(waves / (1 - taken), fitting)
        return np.where(tight, np.maximum(after / np.maximum(before, 1 / fitting), 1), 1.0)


def _wave_time(waves: Column, fitting: Column) -> Column:
    """The duration of waves, in full waves. The last takes as long as the blocks that share a multiprocessor in it.

    1.18 waves of four blocks a multiprocessor: 1.25, as the last one puts one block on some of them.
    """
    full = np.floor(waves + 1e-9)
    out: Column = full + np.ceil((waves - full) * fitting - 1e-9) / fitting
    return out


def _beside(times: Times, nodes: Column, others: Column) -> Column:
    """Which nodes begin while one of the others runs."""
    order = np.argsort(times.start[others], kind="stable")
    start, end = times.start[others][order], np.maximum.accumulate(times.end[others][order])
    at = np.searchsorted(start, times.start[nodes], "left") - 1
    out: Column = (at >= 0) & (times.start[nodes] < end[np.maximum(at, 0)]) if len(end) else at >= 0
    return out


def overlapped(times: Times, nodes: Column, others: Column) -> Column:
    """The part of each node's time that overlaps with one of the others."""
    start, end = times.start[nodes], times.end[nodes]
    run = intervals.coverage(intervals.union(times.start[others], times.end[others]), start, end)
    out: Column = run / np.maximum(end - start, 1)
    return out


def _mean(share: Column, weight: Column) -> float:
    return float(np.average(share, weights=np.maximum(weight, 1))) if len(share) else 0.0

"""Compute overlapping communication: both share multiprocessors and memory, and a kernel takes longer while a collective runs.

The recording tells how much longer: kernels of one name and shape that ran alone are compared with those that ran beside a
collective. A what-if that moves either one changes how long they overlap, and therefore how long they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times, solve
from warpsight.model import work as device_work
from warpsight.model.work import COMMUNICATION, KERNEL, numbered
from warpsight.simulate.sharing import overlapped

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: A kernel ran alone if at most this part of its time overlapped a collective, and overlapped one from that part on.
_ALONE, _BESIDE = 0.02, 0.5
#: Kernels of one name and shape that are needed of each to measure how much longer they take.
_ENOUGH = 3
#: Kernels slow down at most this many times: anything slower has another cause.
_MOST = 4.0
_ROUNDS = 4


@dataclass(frozen=True)
class _Contention:
    """How much longer the kernels of a recording took while collectives ran.

    Attributes:
        slope: For each device node how many times its time alone is added while a collective runs beside it; 0 for unknown.
        part: The part of its time that it ran beside a collective in the recording, 0 to 1.
    """

    slope: Column
    part: Column

    @property
    def usual(self) -> float:
        """The median slope of the kernels that overlapped a collective."""
        beside = self.slope[(self.part >= _BESIDE) & (self.slope > 0)]
        return float(np.median(beside)) if len(beside) else 0.0


def measured(trace: StoredTrace, program: Program, recorded: Times) -> _Contention | None:
    """The contention visible in a recording; None without collectives or with too little data."""
    work = program.graph.work
    count = len(work)
    if not (work.kind == COMMUNICATION).any():
        return None
    part = _beside(program, recorded)
    kernels = np.flatnonzero(work.kind == KERNEL)
    group = _alike(trace, work, kernels)
    length = program.duration[kernels]
    slope = np.zeros(len(program))
    known = []
    for rows in device_work.split(group, int(group.max(initial=-1)) + 1):
        alone, beside = rows[part[kernels[rows]] <= _ALONE], rows[part[kernels[rows]] >= _BESIDE]
        if len(alone) < _ENOUGH or len(beside) < _ENOUGH:
            continue
        base = max(float(np.median(length[alone])), 1.0)
        found = float(np.median((length[beside] / base - 1) / part[kernels[beside]]))
        slope[kernels[rows]] = np.clip(found, 0.0, _MOST - 1)
        known.append(len(rows))
    return _Contention(slope, np.concatenate([part, np.zeros(len(program) - count)])) if known else None


def applied(program: Program, base: Program, contention: _Contention) -> Program:
    """The program with its kernels slowed by the work that then runs at the same time."""
    if len(program) != len(base):
        return program
    alone = program.duration / (1 + contention.slope * contention.part)
    changed = program
    for _ in range(_ROUNDS):
        part = np.zeros(len(program))
        found = _beside(changed, solve(changed))
        part[: len(found)] = found
        longer = np.round(alone * (1 + contention.slope * part)).astype(np.int64)
        if np.array_equal(longer, changed.duration):
            break
        changed = program.but(duration=longer)
    return changed


def _beside(program: Program, times: Times) -> Column:
    """For each row of device work, the share of its time in which a collective of its device ran; 0 for collectives."""
    work = program.graph.work
    out = np.zeros(len(work))
    for _, rows in work.per_device():
        kernels, collectives = rows[work.kind[rows] == KERNEL], rows[work.kind[rows] == COMMUNICATION]
        if len(kernels) and len(collectives):
            out[kernels] = overlapped(times, kernels, collectives)
    return out


def _alike(trace: StoredTrace, work: device_work.Work, kernels: Column) -> Column:
    """Number of each kernel's name and launch shape."""
    rows, source = device_work.everything(trace).kernels
    place = kernels if work.source is None else work.source[kernels]
    shape = trace.columns("kernel", {"shape_id": 0})[0]["shape_id"][source[np.searchsorted(rows, place)]]
    group, _ = numbered([work.name_id[kernels], shape])
    return group

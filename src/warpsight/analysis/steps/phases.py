"""Phases of a step: forward, backward, optimiser, communication, data loading; device time and host time of each.

Each piece of device work gets its phase from the strongest available sign, in this order: its own name (communication, optimiser
kernels), the ranges and operators open at its launch (nearest first), the thread that launched it (torch's autograd threads),
the stack of its launch. Work without any sign is `unknown`. The result counts which sign decided: no guess goes unreported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ranges import open as ranges
from warpsight.analysis.steps import iterations
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, COPY, Work, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
PHASES = ("forward", "backward", "optimiser", "communication", "data loading", "unknown")
FORWARD, BACKWARD, OPTIMISER, COMMUNICATING, LOADING, UNKNOWN = range(len(PHASES))
#: The signs that can decide a phase.
SIGNS = ("kernel name", "range", "operator", "thread", "stack", "none")
_RANGES = (
    (
        LOADING,
        re.compile(
            r"data_?load|enumerate\(DataLoader\)|fetch|prefetch|next_?batch|collate|data_?time", re.IGNORECASE
        ),
    ),
    (
        OPTIMISER,
        re.compile(r"optimi[sz]er|zero_grad|clip_grad|adam(?!ax)|\bsgd\b|grad_?scaler", re.IGNORECASE),
    ),
    (BACKWARD, re.compile(r"backward|\bbwd|autograd::engine|\w+Backward\d*\b", re.IGNORECASE)),
    (COMMUNICATING, re.compile(r"nccl[:_]|all_?reduce|all_?gather|reduce_?scatter|c10d::", re.IGNORECASE)),
    (FORWARD, re.compile(r"forward|\bfwd|nn\.Module|prefill|decode", re.IGNORECASE)),
)
_KERNELS = (
    (
        OPTIMISER,
        re.compile(r"multi_tensor_apply|fused_?adam|FusedOptimizer|adam_kernel|lamb_stage", re.IGNORECASE),
    ),
)
_STACKS = (
    (LOADING, re.compile(r"utils/data/|__next__ \(.*dataloader", re.IGNORECASE)),
    (OPTIMISER, re.compile(r"torch/optim/|optimizer\.py|clip_grad")),
    (BACKWARD, re.compile(r"torch/autograd/|^backward |_tensor\.py")),
    (FORWARD, re.compile(r"^(?:forward|__call__|_call_impl)\b|nn/modules/")),
)


def phases(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Device time by phase, per process, and which signs decided the phases.

    Tables:
        phases: process, phase, work, time (summed device time), share, per_iteration (mean over the steady state, null without
            iterations).
        signs: phase, sign, work: which sign decided the phase.
    """
    work = device_work.load(trace, rows, cut=False)
    phase, sign = classify(trace, work)
    duration = work.end - work.start
    turn, turns = _turns(trace, rows, work)
    listed: list[dict[str, Any]] = []
    for process in values_in(work.process).tolist():
        mine = work.process == process
        whole = max(int(duration[mine].sum()), 1)
        for number, name in enumerate(PHASES):
            chosen = mine & (phase == number)
            if not chosen.any():
                continue
            time = int(duration[chosen].sum())
            steady = int(duration[chosen & turn].sum()) / turns[process] if turns.get(process) else None
            listed.append({"process": process, "phase": name, "work": int(chosen.sum()), "time": time,
                           "share": time / whole * 100, "per_iteration": steady})  # fmt: skip
    counts = np.bincount(phase * len(SIGNS) + sign, minlength=len(PHASES) * len(SIGNS)).reshape(
        len(PHASES), len(SIGNS)
    )
    signs = [
        {"phase": PHASES[p], "sign": SIGNS[s], "work": int(counts[p, s])}
        for p, s in np.argwhere(counts).tolist()
    ]
    tables = {
        "phases": table(
            "process:int32 phase:string work:int64 time:int64:ns share:float64:% per_iteration:float64:ns",
            listed,
        ),
        "signs": table("phase:string sign:string work:int64", signs),
    }
    return Result(tables, tuple(_findings(work, phase)))


def _turns(trace: StoredTrace, rows: Rows, work: Work) -> tuple[Column, dict[int, int]]:
    """Which rows belong to steady iterations, and the number of iterations per process."""
    inside, turns = np.zeros(len(work), bool), {}
    for loop in iterations.find(trace, rows, work):
        counts = np.diff(np.append(loop.first, len(loop.rows)))
        inside[loop.rows[int(loop.first[0]) :]] = np.repeat(loop.steady, counts)
        turns[loop.process] = int(loop.steady.sum())
    return inside, turns


def classify(trace: StoredTrace, work: Work) -> tuple[Column, Column]:
    """Phase and sign of each row of work, as indices into :data:`PHASES` and :data:`SIGNS`."""
    phase, sign = np.full(len(work), UNKNOWN), np.full(len(work), len(SIGNS) - 1)

    def set_phase(found: Column, by: int) -> None:
        new = (phase == UNKNOWN) & (found != UNKNOWN)
        phase[new], sign[new] = found[new], by

    names = names_of.texts(trace)
    inverse, (ids,) = device_work.numbered([work.name_id])
    by_name = np.array([_first(_KERNELS, names.get(int(i), "")) for i in ids], np.int64)
    set_phase(
        np.where(work.kind == COMMUNICATION, COMMUNICATING, by_name[inverse] if len(ids) else UNKNOWN), 0
    )
    for place, source in enumerate(("marker", "op"), 1):
        if trace.count(source):
            set_phase(_by_range(trace, work, source, names), place)
    set_phase(_by_thread(trace, work), 3)
    where, (stacks,) = device_work.numbered([work.stack])
    frames = trace.stacks(int(s) for s in stacks if s)
    by_stack = np.array([_of_stack(frames.get(int(s), ())) for s in stacks], np.int64)
    set_phase(by_stack[where] if len(stacks) else phase, 4)
    _between(work, phase, sign)
    return phase, sign


def _first(patterns: tuple[tuple[int, re.Pattern[str]], ...], text: str) -> int:
    return next((number for number, pattern in patterns if pattern.search(text)), UNKNOWN)


def _by_range(trace: StoredTrace, work: Work, source: str, names: Mapping[int, str]) -> Column:
    """The phase of the nearest range around the launch that has one."""
    found, place, _ = ranges.of_work(trace, work, source)
    ids, inverse = np.unique(found.name_id, return_inverse=True)
    texts = np.array([_first(_RANGES, names.get(int(i), "")) for i in ids], np.int64)
    own = texts[inverse] if len(ids) else np.zeros(0, np.int64)
    parent = found.parent.copy()
    left = np.flatnonzero((own == UNKNOWN) & (parent >= 0))
    while len(left):  # outwards, one level of all ranges at a time
        own[left] = own[parent[left]]
        parent[left] = parent[parent[left]]
        left = left[(own[left] == UNKNOWN) & (parent[left] >= 0)]
    return (
        np.where(place >= 0, own[np.maximum(place, 0)], UNKNOWN) if len(own) else np.full(len(work), UNKNOWN)
    )


def _by_thread(trace: StoredTrace, work: Work) -> Column:
    """Autograd's threads launch the backward pass."""
    named = [
        (process, number)
        for process, number, name in trace.rows("thread", "process", "thread", "name")
        if name and name.startswith(("pt_autograd", "autograd"))
    ]
    out = np.full(len(work), UNKNOWN)
    if not named:
        return out
    issued, call = calls.of_work(trace, work, api=True)
    thread = np.where(call >= 0, issued.thread[np.maximum(call, 0)], -1) if len(issued) else call
    for process, number in named:
        out[(work.process == process) & (thread == number)] = BACKWARD
    return out


def _of_stack(frames: tuple[str, ...]) -> int:
    """The innermost frame that names a phase."""
    return next((p for p in (_first(_STACKS, frame) for frame in frames[::-1]) if p != UNKNOWN), UNKNOWN)


def _between(work: Work, phase: Column, sign: Column) -> None:
    """Copies to the device outside of any phase feed the step: data loading, recognized by its kind alone."""
    chosen = (phase == UNKNOWN) & (work.kind == COPY)
    if (phase != UNKNOWN).any():
        phase[chosen] = LOADING
        sign[chosen] = 0


def _findings(work: Work, phase: Column) -> list[Finding]:
    unknown = int((phase == UNKNOWN).sum())
    if not unknown or not len(work):
        return []
    have = "has" if unknown == 1 else "have"
    text = f"{unknown:,} of {len(work):,} kernels, copies and fills {have} no phase: no range, operator or stack names one"
    return [Finding("note", text, {"rows": unknown})]

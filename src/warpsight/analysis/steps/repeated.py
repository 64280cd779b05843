"""The main loop in the repetition of a program's launches, where nothing announces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.steps import repetition
from warpsight.analysis.steps.turns import Turns
from warpsight.model import calls
from warpsight.model.calls import STREAM_WAIT
from warpsight.model.naming import api_names, kernel_names
from warpsight.model.naming import texts as names_of
from warpsight.model.work import NO_TIME, Work, distinct

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: A loop has at least this many turns.
LEAST = 3


def best(trace: StoredTrace, process: int, work: Work, launched: Column, when: Column) -> Turns | None:
    """The loop that the sequence of launches shows, with the host's waits as marks in it; None without one.

    A loop often waits for the device once per turn, where its kernels alone show shorter repetitions.
    """
    names = work.name_id[launched].astype(np.int64) * 4 + work.kind[launched]
    waits = _waits(trace, process)
    waits = waits[(waits >= (when[0] if len(when) else 0))]
    found = _between(trace, work, launched, when, names, waits)
    if found is not None and found.weak and (names == names[0]).all():
        # In a loop of one work alone, a few waits only look like parts of it.
        return _between(trace, work, launched, when, names, waits[:0])
    return found


def _between(
    trace: StoredTrace, work: Work, launched: Column, when: Column, names: Column, waits: Column
) -> Turns | None:
    """The loop in the sequence of some works by name, with waits as marks in it."""
    ended = np.maximum.accumulate(work.end[launched]) if len(launched) else launched
    gap = np.zeros(len(launched), np.int64)
    gap[1:] = np.maximum(work.start[launched][1:] - ended[:-1], 0)
    before = np.searchsorted(when, waits, side="right")  # a wait stands before this launch
    at = before + np.arange(len(before))
    own = np.ones(len(launched) + len(at), bool)
    own[at] = False
    sequence, pauses = np.full(len(own), -1, np.int64), np.zeros(len(own), np.int64)
    sequence[own], pauses[own] = names, gap
    found = repetition.find(sequence, pauses)
    if found is None:
        return None
    alike = np.full(len(own), -1, np.int64)
    alike[own] = _alike(trace, work.name_id[launched]) * 4 + work.kind[launched]
    found = repetition.halved(found, alike)
    rows = np.cumsum(own) - own  # launches before each place
    first = rows[found.begins]
    first = np.unique(
        first[first < len(launched)]
    )  # a turn that begins with a wait begins with the launch after it
    if len(first) < LEAST:
        return None
    last = int(found.begins[-1]) + found.period
    stop = len(launched) if last >= len(rows) else max(int(rows[last]), int(first[-1]) + 1)
    turn = np.searchsorted(first, np.arange(len(launched)), "right") - 1
    turn[stop:] = -1
    marked = len(np.unique(np.searchsorted(first, before, "right"))) if len(before) else 0
    size = int(np.median(np.diff(first)))
    source = f"repetition of {size:,} kernels and copies" if size > 1 else "repetition of one kernel or copy"
    return Turns(source, turn, [""] * len(first), announced=False, weak=marked * 2 < len(first))


def _alike(trace: StoredTrace, name: Column) -> Column:
    """A number for each name that kernels share which differ in template arguments only."""
    ids, place = distinct(name)
    texts = names_of.texts(trace, "name")
    known: dict[str, int] = {}
    bare = (kernel_names.short(texts.get(one) or "?").split("<")[0] for one in ids.tolist())
    return np.array([known.setdefault(text, len(known)) for text in bare], np.int64)[place]


def _waits(trace: StoredTrace, process: int) -> Column:
    """When the host began to wait for the device, ascending."""
    found, texts = trace.columns("sync", {"start": NO_TIME, "process": -1}, ["kind"])
    of_host = np.array([kind != STREAM_WAIT for kind in texts["kind"]] + [False])[found["kind"]]
    times = np.sort(found["start"][of_host & (found["process"] == process) & (found["start"] != NO_TIME)])
    if len(times):
        return times
    issued = calls.load(trace, api=True)
    held = np.array([api_names.waits(name) for name in issued.functions], bool)
    mine = (issued.process == process) & held[issued.function] if len(issued) else np.zeros(0, bool)
    return np.sort(issued.start[mine])

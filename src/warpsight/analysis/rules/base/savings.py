"""Savings of findings: the recording, or its median and slowest iterations, re-timed without each cause.

Findings of the account get the saving that re-timing predicts. Changes come with an upper bound of their own; the lower of the
two counts, because time that a change removes may come back as waiting for something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.account.classes import (
    BLOCKED_CALL,
    CLASSES,
    COMMUNICATION,
    COMPUTE,
    COPY,
    HOST,
    LAUNCH,
    OTHER_STREAM,
    UNKNOWN,
)
from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.account.pieces import MIGRATION, NO_CALL, SEEN_WAIT
from warpsight.analysis.base.result import Finding
from warpsight.analysis.path import dependencies
from warpsight.analysis.retime import without
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.program import POLL, Program
from warpsight.analysis.retime.solving import solve
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.rules.launches import SHORT
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.naming import kernel_names
from warpsight.model.naming import texts as names_of
from warpsight.model.naming.api_names import is_gpu_api
from warpsight.model.selection import Rows
from warpsight.model.work import COPY as COPIED
from warpsight.model.work import SET

Column = npt.NDArray[Any]
#: Maximum device work that is re-timed as a whole, and in one window of iterations.
_WHOLE, _WINDOW = 20_000, 10_000
#: Changes whose own bound is below this share of the time are not re-timed.
_WORTH = 0.01
#: Device work as a cause; re-timing that saves nearly all of it does so whether or not the host waits.
_OF_WORK, _MOST_OF = (CLASSES[COMPUTE], CLASSES[COMMUNICATION], CLASSES[COPY]), 0.9
#: Work that saves less than this share of its time is hidden behind something else; smaller savings would print as 0.0%.
_LITTLE_OF, _LEAST = 0.1, 0.0005
_LITTLE = "By itself this would gain almost nothing: {what} takes as long. Look at larger savings first."
_AS_LONG = "the host, or work beside it,"
_AS_LONG_IN_RANKS = "the host, work beside it, or a slow rank that the others wait for"
_WAITS = (dependencies.SYNC, dependencies.BLOCKING, POLL)
#: Causes of idle time before work whose start without them cannot be predicted.
_UNPREDICTABLE = (MIGRATION, NO_CALL, SEEN_WAIT)
#: A launch-bound program becomes shorter by this share without its launches.
_BOUND = 0.05
_CAUSES: dict[str, Callable[[Program], Program]] = {
    CLASSES[COMMUNICATION]: without.communication, CLASSES[COPY]: without.copies, CLASSES[HOST]: without.host_code,
    CLASSES[LAUNCH]: without.launches, CLASSES[OTHER_STREAM]: without.other_streams, CLASSES[UNKNOWN]: without.unexplained,
}  # fmt: skip


@dataclass(frozen=True)
class Window:
    """A program of part of the recording, and the recorded time it represents, ns."""

    program: Program
    stands_for: int


def with_savings(
    facts: Facts, found: Iterable[Finding], retimed: Callable[[], tuple[list[Window], str]]
) -> Iterator[Finding]:
    """The findings with their savings; `retimed` gives :func:`windows`."""
    for finding in found:
        bound = finding.saves_ns
        if (finding.kind is None) != (bound is not None) or (bound or facts.length) < _WORTH * facts.length:
            yield finding
            continue
        change = _cause(facts, finding) if finding.kind is not None else _lever(facts, finding)
        if change is None:
            yield finding
            continue
        parts, text = retimed()
        saved = _saved(parts, change)
        if saved is None or (bound is not None and saved >= bound):
            yield finding
            continue
        if finding.kind in _OF_WORK and (unknown := _not_known(facts, parts, finding.share_ns or 0, saved)):
            evidence = (*finding.evidence, f"what it would save is not known: {unknown}")
            yield replace(finding, evidence=evidence)
            continue
        part = saved / facts.length
        if finding.kind is None and part < (_BOUND if finding.rule == "launches/launch-bound" else _WORTH):
            continue  # the requested change has no effect
        much = f"{part:.1%}" if part >= _LEAST else "hardly"
        evidence = (*finding.evidence, f"without it the recording would be {much} shorter ({text})")
        little = finding.kind in _OF_WORK and saved < _LITTLE_OF * (finding.share_ns or 0)
        what = _AS_LONG_IN_RANKS if finding.kind == CLASSES[COMMUNICATION] else _AS_LONG
        advice = _LITTLE.format(what=what) if little else finding.advice
        yield replace(finding, saves_ns=saved, evidence=evidence, advice=advice)


def _not_known(facts: Facts, windows: list[Window], share: int, saved: int) -> str | None:
    """Why the savings for device work with this share cannot be determined, in words, or None.

    Re-timing knows no better than the trace: where the host's waits are not in it, or for as long as the work takes the device
    waits for something that is not, it keeps what it does not understand where it is.
    """
    if saved >= _MOST_OF * share:
        return None
    if (recorded := _recorded_of_host(facts, windows)) is not None:
        return recorded
    if saved < _LITTLE_OF * share and facts.account.time(UNKNOWN) >= share:
        return "the device waits at least as long for something that is not in the trace"
    if saved < _LITTLE_OF * share and sum(map(_waits_unseen, windows)) >= share:
        return "work beside it waits as long for something that is not in the trace, which may be this"
    return None


def _waits_unseen(window: Window) -> float:
    """For how long device work begins later than all that is known to keep it, in the time that a window stands for, ns."""
    graph = window.program.graph
    delayed = int(window.program.delay[: len(graph.work)].sum())
    return delayed * window.stands_for / max(_length(graph.start, graph.end), 1)


def _recorded_of_host(facts: Facts, windows: list[Window]) -> str | None:
    """What was recorded of the host, in words, if its waits may be missing; None if they are known.

    They may be missing if no wait is known, and every recorded call to a GPU interface, in the whole trace, is of a function that
    launched something.
    """
    if not windows or any(np.isin(one.program.links.kind, _WAITS).any() for one in windows):
        return None
    function = facts.calls.function
    launching = np.array([not is_gpu_api(name) for name in facts.calls.functions] + [False], bool)
    launching[function[facts.call[facts.call >= 0]]] = True
    if not launching[function].all():
        return None
    return (
        "of the host, only calls that launch were recorded, no waits"
        if any(len(one.program.graph.by_thread) for one in windows)
        else "no host call that launches or waits was recorded"
    )


def _lever(facts: Facts, finding: Finding) -> Callable[[Program], Program] | None:
    """The program after the change that a finding suggests; None for those with only their own bound."""
    if finding.rule == "launches/launch-bound":
        return lambda program: without.launching(program, SHORT)
    if finding.rule == "waits/run-dry":
        function = str(finding.values.get("function", ""))
        return lambda program: without.calls(program, function)
    if finding.rule == "copies/pageable":
        return lambda program: without.chosen_copies(program, _copies(facts, program, pageable=True))
    if finding.rule == "copies/synchronous":
        return lambda program: without.chosen_copies(program, _copies(facts, program, pageable=False))
    if finding.rule == "fills/synchronous":
        return lambda program: without.chosen_copies(program, np.flatnonzero(program.graph.work.kind == SET))
    return None


def _copies(facts: Facts, program: Program, *, pageable: bool) -> Column:
    """The copies of a program from or to pageable memory, or all others."""
    work = program.graph.work
    rows = np.flatnonzero(work.kind == COPIED)
    names, code = copy_names(facts.trace, work, rows)
    held = np.array([name.endswith(", pageable") for name in names], bool)
    found: Column = rows[held[code] == pageable]
    return found


def _saved(windows: list[Window], change: Callable[[Program], Program]) -> int | None:
    """How much shorter the recording would be, ns; None if nothing could be re-timed."""
    if not windows:
        return None
    saved = 0.0
    for window in windows:
        before = _length(window.program.graph.start, window.program.graph.end)
        times = solve(change(window.program))
        saved += window.stands_for * max(1 - _length(times.start, times.end) / max(before, 1), 0.0)
    return round(saved)


def _cause(facts: Facts, finding: Finding) -> Callable[[Program], Program] | None:
    name = finding.name or ""
    if finding.kind == CLASSES[COMPUTE]:
        # A bare name may match several kernels: use the account row with the finding's share.
        found = {
            entry.name
            for entry in facts.account.of(COMPUTE)
            if entry.time == finding.share_ns and kernel_names.bare(entry.name) == name
        }
        rows = names_of.texts(facts.trace).items()
        ids = np.array(
            [number for number, text in rows if kernel_names.family(text or "?") in found], np.int64
        )
        return (lambda program: without.kernels(program, ids)) if len(ids) else None
    if finding.kind == CLASSES[BLOCKED_CALL]:
        if facts.copies_unseen(name):
            return None  # the copies take time of their own
        return lambda program: without.calls(program, name)
    if (finding.kind == CLASSES[COPY] and name.endswith(", managed")) or name in _UNPREDICTABLE:
        return None  # the start of work without a launch call cannot be predicted
    return _CAUSES.get(finding.kind or "")


def _length(start: Column, end: Column) -> int:
    return int(end.max() - start.min()) if len(start) else 0


def windows(facts: Facts) -> tuple[list[Window], str]:
    """The parts to re-time, and how they were chosen, in words."""
    if not len(facts.work):
        return [], ""
    if len(facts.work) <= _WHOLE:
        return [Window(build(facts.trace, facts.rows), facts.length)], "re-timed"
    if not facts.iterations:
        return [], ""
    one = max(facts.iterations, key=lambda found: int(found.duration.sum()))
    steady = np.flatnonzero(one.steady)
    if len(steady) < 3:
        return [], ""
    inner = steady[1:-1]  # so that each has one before it and one after it
    lengths = one.duration[inner]
    usual = int(inner[np.argmin(np.abs(lengths - np.median(lengths)))])
    slowest = int(inner[np.argmax(lengths)])
    slow = int(one.duration[one.outlier].sum()) if one.outlier[slowest] else 0
    slow = min(slow, facts.length)
    parts = [Window(_around(facts, one, usual), facts.length - slow)]
    if slow:
        parts.append(Window(_around(facts, one, slowest), slow))
    return parts, "the median and slowest iterations re-timed" if slow else "the median iteration re-timed"


def _around(facts: Facts, found: Iterations, number: int) -> Program:
    """The program of an iteration and, if they are small, its neighbors, with the calls that launched its work."""
    first, last = number, number
    rows = found.rows_of(number)
    wider = np.concatenate([found.rows_of(i) for i in range(number - 1, number + 2)])
    if len(wider) <= _WINDOW:
        rows, first, last = wider, number - 1, number + 1
    begin, end = int(found.start[first]), int(found.start[last] + found.duration[last])
    if len(rows) > 2 * _WINDOW:
        end = int(found.work.start[rows[2 * _WINDOW]])
        rows = rows[: 2 * _WINDOW]
    call = facts.call_of(found.work)[rows]
    call = call[call >= 0]
    calls = facts.calls
    device = Rows(begin, end, facts.rows.devices, facts.rows.streams, facts.rows.processes)
    if not len(call):
        return build(facts.trace, device)
    host = Rows(int(calls.start[call].min()), int(calls.end[call].max()) + 1, processes=facts.rows.processes)
    return build(facts.trace, device, host)

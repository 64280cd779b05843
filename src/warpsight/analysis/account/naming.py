"""The names of host time: which annotation or function covers it.

Host time is named step by step. Each step takes the most specific name that covers nearly all of the time still unnamed, or else
the name that covers most of it. Annotations that people or frameworks wrote come before functions, the user's own functions
before a library's, and those before a framework's operators.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account import calls_held, launched_for, ranges_over, stacks_over
from warpsight.analysis.account.calls_held import Axis
from warpsight.analysis.account.classes import HOST
from warpsight.analysis.account.gaps import Gaps
from warpsight.analysis.account.pieces import Pieces
from warpsight.analysis.account.ranges_over import ANNOTATION, FUNCTION, OPERATOR, CutRanges
from warpsight.analysis.base.frames import is_library, shown
from warpsight.analysis.steps import loops
from warpsight.model.calls import Calls
from warpsight.model.naming.api_names import is_gpu_api

if TYPE_CHECKING:
    from collections.abc import Callable

    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Minimum shares for a name to cover nearly all of some time, most of it, and enough of it to be mentioned.
NEARLY, MOST, SOME = 0.9, 0.5, 0.1
#: A callee with this part of its caller's time is told apart from it by chance alone: the deeper one is the name. A chain of
#: such steps ends where less than nearly all of nearly all is left.
_STEP, _LEAST = 0.95, NEARLY * NEARLY
#: Maximum number of names given to host time; the rest stays unnamed.
_NAMES = 6
#: Annotations that only number the iterations: they say when, not what.
_PYTHON = re.compile(r"(.+)\((\d+)\): (.+)$")
_TURN = re.compile(r"^(ProfilerStep|step|iteration|iter|train_step|global_step)?[ _]?#*\d*$", re.IGNORECASE)
UNNAMED = "the host's own code"
#: The function that takes nearly all of some time, the one that takes most of it, and the shares of the latter and the former.
Places = tuple[str, str, float, float]
_NOWHERE: Places = "", "", 0.0, 0.0
#: No thread starts in a shared library: a library frame without a caller shows where the sample hit, not what the program was
#: doing.
_SHARED = re.compile(r"\.so(\.|$)")
#: Frames without a symbol are meaningless, as are placeholders for lost frames; frames of the kernel and of the recorder do not
#: show what the program was doing.
_NO_SYMBOL = re.compile(r"^0x[0-9a-f]+ |^\[(Max depth|Broken backtraces)\]|\[kernel|\[vdso|libToolsInjection")


@dataclass(frozen=True)
class HostTime:
    """Host time with one name.

    Attributes:
        name: The annotation or function; :data:`UNNAMED` for the rest.
        time: Host time it covers, ns, excluding time named earlier; summed over devices.
        function: The user's innermost function that covers nearly all of that time too, with its place; "" where none does.
        most: The user's innermost function that covers most of it, with its place; "" where that is `function`.
        most_share: The part of the time that `most` covers, 0 to 1.
        function_share: The part of the time that `function` covers, 0 to 1.
        pieces: Indices of the pieces it covers.
        parts: Where the name says little, for it is that of a range around all work: annotations in it and their time, ns.
    """

    name: str
    time: int
    function: str
    most: str
    most_share: float
    function_share: float
    pieces: Column
    parts: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> str:
        """The name with its location in the program, if known: `load (data.py:9)`, `batch, at load (data.py:9)`."""
        function = shown(self.function)
        if self.function.rpartition(" (")[0] == self.name or self.function == _frame(self.name):
            return function
        return f"{self.name}, at {function}" if self.function else self.name


def host_time(
    trace: StoredTrace, calls: Calls, gaps: Gaps, pieces: Pieces, launched: Column
) -> list[HostTime]:
    """All host time by name, largest first; the times add up to the host time of the account.

    `launched` is the call of each row of device work, -1 unknown.
    """
    rows = pieces.of(HOST)
    if not len(rows):
        return []
    call = gaps.call[pieces.gap[rows]]
    process, thread = calls.process[call], calls.thread[call]
    on = calls_held.axis(process, thread, int(pieces.begin[rows].min()), int(pieces.end[rows].max()))
    number = on.number(process, thread)
    begin, end = on.at(number, pieces.begin[rows]), on.at(number, pieces.end[rows])
    before = ranges_over.measure(begin, end)
    ranges = ranges_over.load(trace, on, before)
    masters = launched_for.by_ranges(trace, calls, on, ranges, number, begin, end, launched)
    if masters:
        ranges = ranges_over.load(trace, on, before, masters)
    if (
        ranges.level == FUNCTION
    ).any():  # has begin and end times; launch stacks only show what was running at each launch
        functions = _functions_in(ranges, begin, end)
    else:
        functions = _functions_at(trace, on, calls, pieces, rows, number, call)
    turns, around = _around_all_work(trace, ranges, calls, launched)
    out: list[HostTime] = []
    left = np.arange(len(rows))
    whole = int((end - begin).sum())
    while len(left) and len(out) < _NAMES:
        total = int((end - begin)[left].sum())
        if total < 0.02 * whole:
            break
        chosen = _announced(ranges, turns, begin[left], end[left], total)
        if chosen is None:
            break
        range_name, inside = chosen
        covered = left[inside]
        if ranges.level[range_name] == OPERATOR:
            held = ranges.over(begin[left], end[left])[0][range_name]
            if held < NEARLY * total and functions(left)[0]:
                break  # the enclosing function is more informative than the operator with the largest share
        time = int((end - begin)[covered].sum())
        found = functions(covered)
        text = ranges.names[range_name]
        parts: tuple[tuple[str, int], ...] = ()
        if turns[range_name]:  # any function is more informative
            text = (found[0] or found[1]).split(" (")[0] or text
        elif around[range_name] and found[0] and _within(ranges, range_name, functions, begin, end, found[0]):
            text = found[0].split(" (")[0]
        elif around[range_name]:
            parts = _parts(ranges, turns | around, begin[covered], end[covered], time)
        out.append(HostTime(text, time, *found, rows[covered], parts))
        left = left[~inside]
    if len(left):
        found = functions(left)
        places = found if found != _NOWHERE else _system_call(calls, on, begin[left], end[left])
        name = (places[0] or places[1]).split(" (")[0] or UNNAMED
        time = int((end - begin)[left].sum())
        out.append(HostTime(name, time, *places, rows[left]))
    return sorted(out, key=lambda one: -one.time)


def _system_call(calls: Calls, on: Axis, begin: Column, end: Column) -> Places:
    """The system or library function that most of some stretches were in, if nothing else is known."""
    other = np.array([not is_gpu_api(name) for name in calls.functions] + [False], bool)
    rows = np.flatnonzero(other[calls.function]) if len(calls) else np.zeros(0, np.int64)
    number = on.number(calls.process[rows], calls.thread[rows])
    rows, number = rows[number >= 0], number[number >= 0]
    before = ranges_over.measure(begin, end)
    covered = before(on.at(number, calls.end[rows])) - before(on.at(number, calls.start[rows]))
    time = np.bincount(calls.function[rows], weights=covered, minlength=len(other))
    most, total = int(np.argmax(time)), float((end - begin).sum())
    if time[most] < MOST * total:
        return _NOWHERE
    name, share = calls.functions[most], min(float(time[most]) / total, 1.0)
    return (name, "", 0.0, share) if share >= NEARLY else ("", name, share, 0.0)


def _around_all_work(
    trace: StoredTrace, ranges: CutRanges, calls: Calls, launched: Column
) -> tuple[Column, Column]:
    """Which names belong to iterations, and which to other ranges in which nearly all work is launched.

    Iterations are known by their wording, or because they count up. Threads that the framework launches from, as for backward,
    launch in them too.
    """
    turns = np.array([_TURN.match(name) is not None for name in ranges.names], bool)
    around = np.zeros(len(turns), bool)
    patterns = [ranges_over.pattern(name) for name in ranges.names]
    known = launched[launched >= 0]
    some = known[:: len(known) // 100_000 + 1]
    for loop in loops.load(trace) if len(some) else ():
        if loop.rank not in (loops.COUNTED, loops.REPEATED):
            continue
        mine = some[calls.process[some] == loop.process]
        at = np.searchsorted(loop.begin, calls.start[mine], "right") - 1
        held = (at >= 0) & (calls.start[mine] < loop.end[np.maximum(at, 0)])
        if len(mine) and int(held.sum()) >= NEARLY * len(mine):
            named = np.array([one == ranges_over.pattern(loop.label[0]) for one in patterns], bool)
            if loop.rank == loops.COUNTED:
                turns |= named
            else:
                around |= named
    return turns, around & ~turns


def _within(
    ranges: CutRanges,
    name: int,
    functions: Callable[[Column], Places],
    begin: Column,
    end: Column,
    function: str,
) -> bool:
    """Whether a function that covers what the ranges of a name cover is called in them, and not they in it."""
    own = [
        number
        for number, text in enumerate(ranges.names)
        if ranges.level[number] == FUNCTION and _frame(text) == function
    ]
    if own:
        _, length = ranges.over(begin, end)
        return bool(length[own].min() <= length[name])
    before = ranges_over.measure(*ranges.of(name))
    outside = np.flatnonzero((before(end) - before(begin)) * 2 < end - begin)
    known = {text.rpartition(":")[0] for text in functions(outside)[:2]} if len(outside) else set()
    return function.rpartition(":")[0] not in known


def _announced(
    ranges: CutRanges, turns: Column, begin: Column, end: Column, total: int
) -> tuple[int, Column] | None:
    """The name that ranges give to most of these stretches, and the stretches it mostly covers."""
    if not len(ranges.names):
        return None
    time, length = ranges.over(begin, end)
    library = np.array([is_library(name) for name in ranges.names], bool)
    groups = (
        (ranges.level == ANNOTATION) & ~turns,
        (ranges.level == FUNCTION) & ~library,
        (ranges.level == FUNCTION) & library,
        ranges.level == OPERATOR,
    )
    # An iteration says when, not what, so its name is used only where no other range covers the time.
    tries = [(least, group) for least in (NEARLY, MOST, SOME) for group in groups]
    for least, group in (*tries, (NEARLY, turns)):
        names = np.flatnonzero(group & (time >= least * total))
        if not len(names):
            continue
        near = names[time[names] >= NEARLY * time[names].max()]
        name = int(near[np.argmin(length[near])])
        before = ranges_over.measure(*ranges.of(name))
        inside: Column = (before(end) - before(begin)) * 2 >= end - begin
        if inside.any():
            return name, inside
    return None


def _parts(
    ranges: CutRanges, left_out: Column, begin: Column, end: Column, total: int
) -> tuple[tuple[str, int], ...]:
    """Annotations that cover some of these stretches, and the time of each, the largest first; without those inside another."""
    time, _ = ranges.over(begin, end)
    some = np.flatnonzero((ranges.level == ANNOTATION) & ~left_out & (time >= SOME * total))
    out: list[tuple[str, int]] = []
    taken: tuple[Column, Column] = begin[:0], end[:0]
    for name in some[np.argsort(-time[some], kind="stable")].tolist():
        own = ranges.of(name)
        before = ranges_over.once(*taken)
        if int((before(own[1]) - before(own[0])).sum()) * 2 < int((own[1] - own[0]).sum()):
            out.append((ranges.names[name], int(time[name])))
            taken = np.append(taken[0], own[0]), np.append(taken[1], own[1])
    return tuple(out)


def _functions_in(ranges: CutRanges, begin: Column, end: Column) -> Callable[[Column], Places]:
    """A function that names the user's functions covering some stretches, according to ranges."""
    library = np.array([is_library(name) for name in ranges.names], bool)

    def named(chosen: Column) -> Places:
        time, length = ranges.over(begin[chosen], end[chosen])
        total = float((end - begin)[chosen].sum())
        texts = [_frame(name) for name in ranges.names]
        known = ranges.level == FUNCTION
        return _innermost((known & ~library, known & library), time, total, -length, texts.__getitem__)

    return named


def _frame(text: str) -> str:
    """Convert a Python profiler's `file.py(7): load` to the form of stack frames, `load (file.py:7)`."""
    found = _PYTHON.match(text)
    return f"{found[3]} ({found[1]}:{found[2]})" if found else text


def _innermost(
    groups: tuple[Column, ...], time: Column, total: float, depth: Column, text: Callable[[int], str]
) -> Places:
    """Of the first group with a dominant name: the deepest one that covers nearly all of it, and the largest one.

    Functions that call each other and hold about nine tenths each would be chosen by chance, so the name is the last of a chain
    in which each holds nearly all that its caller holds:

        share    0.98  0.92  0.89  0.87  0.41
        function main  decay factor draw sqrt      the name is draw, whichever of the middle three reaches nine tenths
    """
    for group in groups:
        most = np.flatnonzero(group & (time >= MOST * total))
        if not len(most):
            continue
        most = most[np.lexsort((-most, depth[most]))]
        inner, outer = int(most[-1]), -1
        for one in most.tolist():
            follows = outer >= 0 and time[one] >= max(_STEP * time[outer], _LEAST * total)
            outer = one if follows or time[one] >= NEARLY * total else outer
        part = float(time[outer]) / total if outer >= 0 else 0.0
        if inner == outer:
            return text(outer), "", 0.0, part
        return text(outer) if outer >= 0 else "", text(inner), float(time[inner]) / total, part
    return _NOWHERE


def _functions_at(
    trace: StoredTrace, on: Axis, calls: Calls, pieces: Pieces, rows: Column, number: Column, call: Column
) -> Callable[[Column], Places]:
    """A function that names, from stacks, the user's functions during some pieces."""
    if not trace.count("stack"):
        return lambda chosen: _NOWHERE
    tree = stacks_over.functions(trace)
    masters = launched_for.by_samples(trace, on)

    def named(chosen: Column) -> Places:
        some = chosen[np.argsort(-pieces.length_of(rows[chosen]), kind="stable")[:200_000]]
        found = stacks_over.over(
            trace,
            on,
            calls,
            number[some],
            pieces.begin[rows[some]],
            pieces.end[rows[some]],
            call[some],
            masters,
        )
        return _places(trace, tree, found) if len(found.node) else _NOWHERE

    return named


def _places(trace: StoredTrace, tree: stacks_over.FunctionTree, found: stacks_over.StackedTime) -> Places:
    """The innermost function that covers nearly all of the time, and the largest one: the user's own, if there are any."""
    total = float(found.time.sum())
    shared = np.array([_SHARED.search(text) is not None for text in tree.files], bool)
    lone = (tree.depth[found.node] == 1) & shared[tree.function[found.node]]
    time, depth = stacks_over.by_function(tree, replace(found, node=np.where(lone, 0, found.node)))
    own = np.array([not is_library(text) and not is_library(name)
                    for name, text in zip(tree.names, tree.files, strict=True)], bool)  # fmt: skip
    known = np.array([name != stacks_over.NO_FRAME and not _NO_SYMBOL.search(f"{name} {text}")
                      for name, text in zip(tree.names, tree.files, strict=True)], bool)  # fmt: skip
    return _innermost(
        (own & known, ~own & known), time, total, depth, lambda one: _with_line(trace, tree, found, one)
    )


def _with_line(
    trace: StoredTrace, tree: stacks_over.FunctionTree, found: stacks_over.StackedTime, function: int
) -> str:
    """The function with its file and the line that most of the time was spent at, as `name (file:line)`."""
    weight: dict[str, float] = {}
    here = f"{tree.names[function]} ({tree.files[function]}"
    order = np.argsort(-found.time)[:512]
    texts = trace.stacks(set(found.stack[order].tolist()) - {0})
    for stack, time in zip(found.stack[order].tolist(), found.time[order].tolist(), strict=True):
        for text in reversed(texts.get(stack, ())):
            if text == tree.names[function] or text.startswith(here):
                weight[text] = weight.get(text, 0.0) + time
                break
    if not weight:
        return f"{tree.names[function]} ({tree.files[function]})"
    return max(weight, key=lambda text: weight[text])

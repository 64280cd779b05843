"""The main loop among the loops that a program announced.

A turn lasts from its start to the next turn's. A loop is the main loop when most of the device work is launched in its turns:
marks and frameworks' own steps first, then names that count up, then a range that recurs. Of nested ranges the outermost is the
loop: a layer is not an iteration, however often it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.steps import loops, repeated
from warpsight.analysis.steps.loops import COUNTED, FRAMEWORK, MARKED, REPEATED, Loop
from warpsight.analysis.steps.turns import Turns
from warpsight.model.work import COMMUNICATION, Work, blocks

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Minimum share of the device time launched in iterations: of marks and frameworks' steps, of ranges, of a single range.
_MARKED, _RANGES, _ALONE = 0.2, 0.5, 0.8
#: Iterations required of a range whose name does not identify it as an iteration.
LEAST = 3
#: Ranges are rhythmic if this share of them is followed by as many launches as the one a period later, and less than that share
#: by the most common number.
_RHYTHM, _MOSTLY_ALIKE = 0.9, 0.8
#: Strength of the evidence for a loop of ranges whose name is one for iterations; without such a name it is 1.
_NAMED = 2.0
#: Minimum number of iterations that are numbered one by one: fewer may be the stages of a program.
_ONE_BY_ONE = 6
#: Minimum number of requests that several threads take; how far the number of a kernel that each one runs may differ from it, and
#: the minimum share of the device's time in that kernel.
_REQUESTS, _SAME_NUMBER, _MUCH = 8, 0.1, 0.1
#: Two iterations are comparable if one launches this share of what the other does.
_COMPARABLE = 0.3
#: The range that torch puts around an optimizer's step.
_OPTIMIZER = "Optimizer.step#"
#: Minimum share of a loop's iterations with as many inner ranges as the median one.
_ALIKE = 0.6


#: Strength of the evidence for a loop (greater is better); the loop; where its iterations begin among the launches, and where the
#: last one ends; how many iterations have launches.
Candidate = tuple[tuple[float, ...], Loop, Column, int]


def candidates(
    trace: StoredTrace, process: int, work: Work, launched: Column, when: Column, threads: Column
) -> list[Candidate]:
    """The announced loops of a process that can be its main loop.

    Args:
        trace: The trace.
        process: The process.
        work: The device work.
        launched: Rows of `work` in the order of their launches.
        when: The moment of each launch.
        threads: The threads that launch.
    """
    if not len(launched):
        return []
    out: list[Candidate] = []
    before = _time_before(work, launched)
    for loop in _of(trace, process):
        if loop.rank > FRAMEWORK and loop.thread not in threads:
            continue
        edges = _turns(loop, when)
        if np.count_nonzero(np.diff(edges)) < 2:
            continue
        rank = _rank(trace, loop, edges, when, before)
        if rank is not None:
            out.append((rank, loop, edges, int(np.count_nonzero(np.diff(edges)))))
    return [one for one in out if not any(_goes_around(other, one, work, launched) for other in out)]


def _goes_around(outer: Candidate, inner: Candidate, work: Work, launched: Column) -> bool:
    """Whether a loop is the one around another that would be preferred for its name alone, as requests are around tokens.

    Most of the time is then in the turns that hold what the outer loop does besides, one for each of its turns:

        decode_token    | 1 | 2 | 3 | 4, load, prefill  | 5 | 6 | 7 | 8, load, prefill
        answer          |                    answer     |                    answer
    """
    (rank, loop, edges, filled), around = inner, outer[1]
    if rank[0] != _NAMED or outer[0][0] >= _NAMED or loop.rank != REPEATED or outer[3] < _ONE_BY_ONE:
        return False
    if filled < 2 * outer[3] or not _inside(loop, around):
        return False
    number = len(repeated.much_larger(work, launched, np.unique(edges)))
    return _RHYTHM * (outer[3] - 1) <= number <= outer[3]


def best(among: list[Candidate], when: Column, waits: Column, least: int = LEAST) -> Turns | None:
    """The main loop, or None if no candidate has `least` turns (or two turns and a name that marks them).

    `waits` are the moments, ascending, at which the host began to wait for the device: ranges with a wait each are turns.
    """
    chosen: Candidate | None = None
    for one in among:
        rank, loop, _, filled = one
        if (
            least < LEAST and loop.rank == REPEATED and len(set(loop.label)) > 1
        ):  # two of a kind, not two turns
            continue
        if (filled >= least or rank[0] > 1) and (chosen is None or rank > chosen[0]):
            chosen = one
    if chosen is None:
        return None
    _, loop, edges, _ = chosen
    waited = np.diff(np.searchsorted(waits, loop.begin)) > 0
    anyhow = loop.rank == REPEATED and not loop.named and not (waited.mean() >= _RHYTHM if len(waited) else 0)
    grouped = _groups(loop, when) or _periods(loop, edges, when) if anyhow else None
    turns = grouped or Turns(loop.source, _numbers(edges, len(when)), loop.label)
    return replace(turns, anyhow=anyhow)


def _numbers(edges: Column, launches: int) -> Column:
    """The iteration of each launch, -1 outside of all."""
    numbers = np.append(np.arange(-1, len(edges) - 1), -1)
    return np.repeat(numbers, np.diff(edges, prepend=0, append=launches))


def _groups(loop: Loop, when: Column) -> Turns | None:
    """The loop around ranges that occur several times per iteration, as layers do; None if they occur once.

    Between two layers nothing is launched; between the last layer of a turn and the first of the next there is what the turn
    begins and ends with. Where within that the next turn begins nobody says: after the longest pause.
    """
    first, last = np.searchsorted(when, loop.begin, "left"), np.searchsorted(when, loop.end, "left")
    between = first[1:] > last[:-1]
    breaks = np.flatnonzero(between)
    if not len(breaks) or len(breaks) + 1 > len(loop) / 2:
        return None
    sizes = np.diff(np.concatenate([[-1], breaks, [len(loop) - 1]]))
    if float((sizes == np.median(sizes)).mean()) < _ALIKE:
        return None
    begin = [0 if not first[0] else int(np.argmax(np.diff(when[: first[0] + 1]))) + 1 if first[0] > 1 else 0]
    for one in breaks.tolist():
        pauses = np.diff(when[max(last[one] - 1, 0) : first[one + 1] + 1])
        begin.append(max(last[one] - 1, 0) + int(np.argmax(pauses)) + 1)
    turn = np.searchsorted(np.array(begin), np.arange(len(when)), "right") - 1
    size = int(np.median(sizes))
    return Turns(f"{loop.source}, {size} in a turn", turn, [""] * len(begin), announced=False)


def _periods(loop: Loop, edges: Column, when: Column) -> Turns | None:
    """The loop around ranges after which other work follows in a rhythm, as micro-batches do; None where all are alike.

    Work in the ranges says nothing: every second turn may print how far it is. A turn begins after the longest pause of the
    rhythm.
    """
    launches = edges[1:] - _range_ends(loop, when, edges)
    if not len(launches) or np.unique(launches, return_counts=True)[1].max() >= _MOSTLY_ALIKE * len(launches):
        return None
    for period in range(2, len(launches) // 3 + 1):
        if (launches[period:] == launches[:-period]).mean() < _RHYTHM:
            continue
        # The pause before each range, in the turn's rhythm: the longest, usually, is where a turn ends.
        pause = np.append(0, when[edges[1:-1]] - when[edges[1:-1] - 1])
        begin = int(np.argmax([np.median(pause[place::period]) for place in range(period)]))
        first = np.append([0] if begin else [], edges[begin:-1:period]).astype(np.int64)
        turn = np.searchsorted(first, np.arange(len(when)), "right") - 1
        turn[edges[-1] :] = -1
        return Turns(f"{loop.source}, {period} in a turn", turn, [""] * len(first), announced=False)
    return None


def single(trace: StoredTrace, process: int, work: Work, launched: Column, when: Column) -> Turns | None:
    """A range in which nearly all work was launched, as a loop of one iteration: a recording of a single step."""
    if not len(launched):
        return None
    few = [loop for loop in _of(trace, process) if len(loop) <= 2]
    if not few:
        return None
    chosen: tuple[tuple[float, ...], Loop, Column] | None = None
    before = _time_before(work, launched)
    for loop in few:
        edges = np.searchsorted(when, [loop.begin[0], loop.end[0]], "left")
        share = float(before[edges[1]] - before[edges[0]]) / max(float(before[-1]), 1.0)
        least = _RANGES if loop.rank <= FRAMEWORK else _ALONE
        rank = (-loop.rank, share, -float(loop.end[0] - max(loop.begin[0], when[0])))
        if share >= least and (chosen is None or rank > chosen[0]):
            chosen = rank, loop, edges
    if chosen is None:
        return None
    _, loop, edges = chosen
    sure = loop.rank <= FRAMEWORK
    return Turns(
        loop.source, _numbers(edges, len(when)), loop.label[:1], sure=sure, anyhow=not (sure or loop.named)
    )


def in_one_pass(trace: StoredTrace, process: int, turns: Turns, when: Column) -> bool:
    """Whether nearly all turns begin in one range that is a model's pass: then they are its layers."""
    if not (turns.anyhow or turns.weak):
        return False
    number, first = np.unique(turns.of_launch, return_index=True)
    begin = when[first[number >= 0]]
    return any(
        len(loop) == 1
        and loop.process == process
        and loops.PASS.search(loop.label[0]) is not None
        and float(((begin >= loop.begin[0]) & (begin < loop.end[0])).mean()) >= _RHYTHM
        for loop in loops.load(trace)
    )


def shared(
    trace: StoredTrace, process: int, work: Work, launched: Column, when: Column, threads: Column
) -> Turns | None:
    """Requests that threads of a server take as they are free, while other threads launch their work; None without such.

    As many times as there are requests, within a tenth, some kernel runs that takes much of the device's time. Requests overlap,
    so which launches belong to which is not known: each has those from its begin to the next one's, and one at least.
    """
    if not len(launched):
        return None
    rows = launched[work.kind[launched] < COMMUNICATION]
    _, code = np.unique(work.name_id[rows], return_inverse=True)
    count = np.bincount(code)
    time = np.bincount(code, weights=work.end[rows] - work.start[rows])
    count = count[time >= _MUCH * time.sum()]
    chosen: tuple[tuple[int, int], Loop] | None = None
    for loop, taking in loops.shared(trace):
        number = len(loop)
        if loop.process != process or number < _REQUESTS or taking & set(threads.tolist()):
            continue
        if not (np.abs(count - number) <= _SAME_NUMBER * number).any():
            continue
        rank = number, int(loop.end[-1] - loop.begin[0])
        if chosen is None or rank > chosen[0]:
            chosen = rank, loop
    if chosen is None:
        return None
    loop = chosen[1]
    place = np.arange(len(loop))
    first = np.maximum.accumulate(np.searchsorted(when, loop.begin, "left") - place) + place
    edges = np.minimum(np.append(first, len(when)), len(when))
    return Turns(loop.source, _numbers(edges, len(when)), loop.label, announced=False, uneven=True)


def batches_of_one_step(trace: StoredTrace, process: int, step: Turns, fetches: Turns) -> bool:
    """Whether batches were fetched for one step of torch.profiler, as gradient accumulation does.

    One optimizer step uses all of them, or there are two of which one has little work: a loop's last fetch gets none.
    """
    if not (step.sure and fetches.announced and "enumerate(DataLoader)" in fetches.source):
        return False
    size = np.unique(fetches.of_launch[fetches.of_launch >= 0], return_counts=True)[1]
    little = len(size) < LEAST and bool(2 * size.min() < size.max())
    return little or loops.count(trace, process, _OPTIMIZER) == 1


def _time_before(work: Work, launched: Column) -> Column:
    """The cumulative device time of the launches before each one, and the total, ns.

    Collectives count only where there is nothing else: a range around a collective is a part of a turn, though most of the time
    may be in collectives.
    """
    out = np.zeros(len(launched) + 1, np.int64)
    for hidden in (COMMUNICATION, None):
        for block in blocks(len(launched)):
            rows = launched[block]
            time = work.end[rows] - work.start[rows]
            if hidden is not None:
                time[work.kind[rows] == hidden] = 0
            out[1:][block] = time
        if out.any():
            break
    return np.cumsum(out, out=out)


def _of(trace: StoredTrace, process: int) -> Iterator[Loop]:
    """The loops of a process, excluding parts of a model and everything inside them."""
    mine = [loop for loop in loops.load(trace) if loop.process == process and len(loop)]
    parts = [loop for loop in mine if loop.part]
    return (
        loop for loop in mine
        if loop.rank <= FRAMEWORK or not (loop.part or any(_inside(loop, part) for part in parts))
    )  # fmt: skip


def _inside(loop: Loop, part: Loop) -> bool:
    """Whether most iterations of a loop are inside a part of a model."""
    if loop.thread != part.thread:
        return False
    at = np.searchsorted(part.begin, loop.begin, "right") - 1
    return bool(((at >= 0) & (loop.end <= part.end[np.maximum(at, 0)])).mean() >= _RANGES)


def _turns(loop: Loop, when: Column) -> Column:
    """The first launch of each turn, and the end of the last: turns last until the next begins.

    The last one ends with its range or, where ranges hold less than half of the work, is as long as the longest of the others.
    """
    # Launches are many and turns are few: look up the turns among the launches, not the launches among the turns.
    edges = np.append(np.searchsorted(when, loop.begin, "left"), len(when))
    last = int(loop.end[-1])
    if loop.rank != MARKED and len(loop) > 1:
        within = _range_ends(loop, when, edges) - edges[:-1]
        if float(within.sum()) < 0.5 * float(edges[-1] - edges[0]):
            last = max(last, int(loop.begin[-1]) + int(np.diff(loop.begin).max()))
    cut: Column = np.minimum(edges, np.searchsorted(when, last, "left"))
    return cut


def _range_ends(loop: Loop, when: Column, edges: Column) -> Column:
    """Where the range of each iteration ends among the iteration's launches."""
    found: Column = np.clip(np.searchsorted(when, loop.end, "left"), edges[:-1], edges[1:])
    return found


def _rank(
    trace: StoredTrace, loop: Loop, edges: Column, when: Column, before: Column
) -> tuple[float, ...] | None:
    """How strongly the evidence supports a loop (greater is better), None if it cannot be the main one."""
    total = max(float(before[-1]), 1.0)
    if loop.rank <= FRAMEWORK:
        share = float(before[edges[-1]] - before[edges[0]]) / total
        steps = loop.rank == MARKED or "ProfilerStep" in loop.source
        return (3.0 + steps, float(loop.rank == MARKED), share) if share >= _MARKED else None
    # If an iteration has no marker of its own, the range that contains its work counts, not one that overlaps it.
    held = before[_range_ends(loop, when, edges)] - before[edges[:-1]]
    own = float(held.sum()) / total
    count = np.diff(edges)
    filled = int(np.count_nonzero(count))
    if own < _RANGES or not (_numbered(loop) or _regular(count) or _regular_around(trace, loop, edges, when)):
        return None
    if loop.named and filled >= 2:
        return (_NAMED, float(loop.rank == COUNTED), round(own, 1), -float(filled))
    # Without a telling name, many iterations are required, and the outermost loop wins.
    return (1.0, float(filled >= 3), float(loop.rank == COUNTED), round(own, 1), -float(filled))


def _numbered(loop: Loop) -> bool:
    """Whether names number the iterations one by one: then they may launch any amount of work."""
    if loop.rank != COUNTED or len(loop) < _ONE_BY_ONE:
        return False
    last = [int(loops.NUMBER.findall(text)[-1]) for text in loop.label]
    return bool((np.diff(last) == 1).all())


def _regular(count: Column) -> bool:
    """Whether most iterations, with this many launches each, launch about as much as the median one.

    Of fewer than four, two have to be comparable: else they are stages, one of which does the work.
    """
    count = count[count > 0]
    if len(count) < 4:
        return len(count) < 2 or bool(np.count_nonzero(count >= _COMPARABLE * count.max()) > 1)
    middle = float(np.median(count))
    return bool((np.abs(count - middle) <= 0.3 * middle).mean() >= 0.5)


def _regular_around(trace: StoredTrace, loop: Loop, edges: Column, when: Column) -> bool:
    """Whether turns differ only in how often a range inside of them comes, as sequences of different lengths make them.

    A range inside that announces turns itself is a loop of its own, and its turns are the iterations.
    """
    for inner in loops.load(trace):
        announces = inner.named or (inner.rank != REPEATED and not inner.part)
        if announces or inner.process != loop.process or len(inner) <= len(loop) or not _inside(inner, loop):
            continue
        starts = _turns(inner, when)
        size = _range_ends(inner, when, starts) - starts[:-1]
        if not _regular(size):
            continue
        turn = np.searchsorted(edges, starts[:-1], "right") - 1
        known = (turn >= 0) & (turn < len(loop))
        rest = np.diff(edges) - np.bincount(turn[known], size[known], len(loop))
        if np.count_nonzero(rest > 0) > len(loop) / 2 and _regular(rest):
            return True
    return False

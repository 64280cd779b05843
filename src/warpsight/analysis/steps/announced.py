"""The main loop among the loops that a program announced.

A turn lasts from its begin to the next turn's. A loop is the main loop when most of the device work is launched in its turns:
marks and frameworks' own steps first, then names that count up, then a range that comes again and again. Of ranges that lie
inside each other the outermost is the loop: a layer is not an iteration, however often it is passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.steps import loops
from warpsight.analysis.steps.loops import COUNTED, FRAMEWORK, MARKED, REPEATED, Loop
from warpsight.analysis.steps.turns import Turns
from warpsight.model.work import COMMUNICATION, Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
#: Share of the device time that turns must have launched: of marks and frameworks' steps, of ranges, of a single range.
_MARKED, _RANGES, _ALONE = 0.2, 0.5, 0.8
#: Turns that a range needs whose name does not say that it is a turn.
LEAST = 3
#: Share of the turns of a loop that hold as many of the ranges inside as the middle one.
_ALIKE = 0.6


#: What speaks for a loop, greater is better; the loop; the turn of each launch; how many turns have launches.
Candidate = tuple[tuple[float, ...], Loop, Column, int]


def candidates(
    trace: Trace, process: int, work: Work, launched: Column, when: Column, threads: Column
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
    time = _judged_time(work, launched)
    total = max(float(time.sum()), 1.0)
    for loop in _of(trace, process):
        if loop.rank > FRAMEWORK and loop.thread not in threads:
            continue
        turn = _turns(loop, when)
        inside = turn >= 0
        filled = int(np.count_nonzero(np.bincount(turn[inside], minlength=1)))
        if filled < 2:
            continue
        rank = _rank(loop, turn, when, time, float(time[inside].sum()) / total, total, filled)
        if rank is not None:
            out.append((rank, loop, turn, filled))
    return out


def best(among: list[Candidate], when: Column, least: int = LEAST) -> Turns | None:
    """The main loop, None where no candidate has `least` turns, or two and a name that says that they are turns."""
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
    _, loop, turn, _ = chosen
    grouped = _groups(loop, when) if loop.rank == REPEATED and not loop.named else None
    return grouped or Turns(loop.source, turn, loop.label)


def _groups(loop: Loop, when: Column) -> Turns | None:
    """The loop around ranges that come several times in each turn, as layers do; None where they come once.

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


def single(trace: Trace, process: int, work: Work, launched: Column, when: Column) -> Turns | None:
    """A range in which nearly all work was launched, as the only turn of a loop: a recording of one step."""
    if not len(launched):
        return None
    chosen: tuple[tuple[float, ...], Loop, Column] | None = None
    time = _judged_time(work, launched)
    for loop in _of(trace, process):
        if len(loop) > 2:
            continue
        inside = (when >= loop.begin[0]) & (when < loop.end[0])
        share = float(time[inside].sum()) / max(float(time.sum()), 1.0)
        least = _RANGES if loop.rank <= FRAMEWORK else _ALONE
        rank = (-loop.rank, share, -float(loop.end[0] - max(loop.begin[0], when[0])))
        if share >= least and (chosen is None or rank > chosen[0]):
            chosen = rank, loop, np.where(inside, 0, -1)
    return (
        None
        if chosen is None
        else Turns(chosen[1].source, chosen[2], chosen[1].label[:1], sure=chosen[1].rank <= FRAMEWORK)
    )


def _judged_time(work: Work, launched: Column) -> Column:
    """How much each launch counts: its device time, that of collectives only where there is nothing else.

    A range around a collective is a part of a turn, though most of the time may be in collectives.
    """
    time = (work.end - work.start)[launched].astype(float)
    own = np.where(work.kind[launched] == COMMUNICATION, 0.0, time)
    return own if own.any() else time


def _of(trace: Trace, process: int) -> Iterator[Loop]:
    """The loops of a process, without parts of a model and what lies inside of them."""
    mine = [loop for loop in loops.load(trace) if loop.process == process and len(loop)]
    parts = [loop for loop in mine if loop.part]
    return (
        loop for loop in mine
        if loop.rank <= FRAMEWORK or not (loop.part or any(_inside(loop, part) for part in parts))
    )  # fmt: skip


def _inside(loop: Loop, part: Loop) -> bool:
    """Whether most turns of a loop lie inside a part of a model."""
    if loop.thread != part.thread:
        return False
    at = np.searchsorted(part.begin, loop.begin, "right") - 1
    return bool(((at >= 0) & (loop.end <= part.end[np.maximum(at, 0)])).mean() >= _RANGES)


def _turns(loop: Loop, when: Column) -> Column:
    """The turn of each launch: turns last until the next begins, the last one as long as the longest of the others."""
    # Launches are many and turns are few: look up the turns among the launches, not the launches among the turns.
    first = np.searchsorted(when, loop.begin, "left")
    turn = np.repeat(np.arange(-1, len(loop)), np.diff(first, prepend=0, append=len(when)))
    last = int(loop.end[-1])
    if loop.rank != MARKED:
        within = when < loop.end[np.maximum(turn, 0)]
        if float((within & (turn >= 0)).sum()) < 0.5 * float((turn >= 0).sum()) and len(loop) > 1:
            last = max(last, int(loop.begin[-1]) + int(np.diff(loop.begin).max()))
    return np.where((turn >= 0) & (when < last), turn, -1)


def _rank(
    loop: Loop, turn: Column, when: Column, time: Column, share: float, total: float, filled: int
) -> tuple[float, ...] | None:
    """How much speaks for a loop, None where it cannot be the main one; greater is better."""
    if loop.rank <= FRAMEWORK:
        steps = loop.rank == MARKED or "ProfilerStep" in loop.source
        return (3.0 + steps, float(loop.rank == MARKED), share) if share >= _MARKED else None
    # The turn of a loop that has no mark of its own is a range that holds its work, not one that stands beside it.
    held = (turn >= 0) & (when < loop.end[np.maximum(turn, 0)])
    own = float(time[held].sum()) / total
    if own < _RANGES or not _regular(turn, filled):
        return None
    if loop.named and filled >= 2:
        return (2.0, float(loop.rank == COUNTED), round(own, 1), -float(filled))
    # Without a name that says so, many turns are needed, and the outermost loop is the one.
    return (1.0, float(filled >= 3), float(loop.rank == COUNTED), round(own, 1), -float(filled))


def _regular(turn: Column, filled: int) -> bool:
    """Whether most turns launch about as much as the middle one."""
    if filled < 4:
        return True
    count = np.bincount(turn[turn >= 0])
    count = count[count > 0]
    middle = float(np.median(count))
    return bool((np.abs(count - middle) <= 0.3 * middle).mean() >= 0.5)

"""The iterations of a program's main loop, found by its annotations or by repeated launches.

An iteration is one turn of a loop on the launching thread. A turn's device work is what was launched in it, joined by id; work
whose launch is not in the trace goes with the work before it on its stream. On the device an iteration lasts from the start of
its first work to the start of the next one's first (the last one: to the end of its work), so iterations tile the time and a
pause belongs to the turn before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.analysis.base import recorder, words
from warpsight.analysis.base.result import Finding, Result, in_order
from warpsight.analysis.base.tables import table
from warpsight.analysis.steps import announced, repeated
from warpsight.analysis.steps.turns import Turns
from warpsight.model import calls, intervals
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, Work, distinct

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
#: An iteration this many times the median is an outlier, if it is also far outside the spread.
OUTLIER, OUTLIER_SPREADS = 1.3, 5.0
#: Iterations found by repetition can stand out if their numbers of launches differ by at most this share, and there are at least
#: this many launches per iteration and this many iterations: shorter repetition may be anything.
_SAME, _LEAST_WORK, _LEAST_TURNS = 0.1, 3, 8
#: Iterations with less work than that form a loop if this share of the steady time consists of usual iterations.
_MADE_OF = 0.5
#: Lengths differ by nature where the steady state leaves out this share, and of what it holds that share is unusual, and a row of
#: such at the start no less likely than this, or that share of what is left out is usual. Less may be left out of turns that
#: alternate: then so many are unusual.
_MANY_LEFT, _VARIED, _CHANCE, _ALTERNATING = 0.2, 0.25, 0.001, 0.4
_NEVER = np.iinfo(np.int64).max
#: Iterations with more than one piece of work are not a coincidence if there are this many.
_SINGLE, _OFTEN = 2, 50
#: Minimum share that iterations of a single piece of work have of everything from the first to the last.
_ALL_ONE = 0.9
#: Minimum share of the device time or of the span for a loop found by repetition; for one of single pieces of work, of the span.
_PART_OF = 0.05


@dataclass(frozen=True)
class Iterations:
    """Iterations of one process as columns; times in ns.

    Attributes:
        start: Start of the first device work of each.
        duration: Time to the start of the next.
        first: Index of the first row of each in `work` (rows sorted by launch); rows up to the next belong to it.
        rows: Indices into `work` in the order that `first` counts in.
        steady: Belongs to the steady state: neither warm-up nor the loop's end.
        outlier: Took far longer or shorter than the others of the steady state.
        source: How they were found, in words.
        label: Text of each iteration, "" where the source gives none.
    """

    process: int
    source: str
    start: Column
    duration: Column
    first: Column
    rows: Column
    steady: Column
    outlier: Column
    label: list[str]
    work: Work

    def __len__(self) -> int:
        return len(self.start)

    @property
    def median(self) -> int:
        """The median length of the steady state, ns.

        The last iteration, which has no pause after it, counts only if it is the only one.
        """
        chosen = self.steady.copy()
        if int(chosen.sum()) > 1:
            chosen[-1] = False
        lengths = self.duration[chosen] if chosen.any() else self.duration
        return int(np.median(lengths)) if len(lengths) else 0

    def rows_of(self, number: int) -> Column:
        """Indices into `work` of one iteration's device work."""
        stop = int(self.first[number + 1]) if number + 1 < len(self.first) else len(self.rows)
        return self.rows[int(self.first[number]) : stop]

    def window(self) -> tuple[int, int] | None:
        """Begin and end of the steady state, ns; None without one."""
        chosen = np.flatnonzero(self.steady)
        if not len(chosen):
            return None
        return int(self.start[chosen[0]]), int(self.start[chosen[-1]] + self.duration[chosen[-1]])


def find(
    trace: StoredTrace, rows: Rows = _ALL, work: Work | None = None, *, repetition: bool = True
) -> list[Iterations]:
    """The iterations of every process; results for one work are kept while the trace is open.

    Without `repetition`, only loops that the program announced count, which takes a tenth of the time.
    """
    among = device_work.load(trace, rows, cut=False) if work is None else work
    # The work is kept with the results found in it, so that its identity cannot be reused.
    return trace.kept.get(
        ("iterations", id(among), repetition), lambda: (among, _found(trace, among, repetition))
    )[1]


def _found(trace: StoredTrace, work: Work, repetition: bool) -> list[Iterations]:
    issued, call = calls.of_work(trace, work, api=True)
    known = call >= 0
    when = work.start
    if len(issued):
        when = issued.start[call]
        lost = np.flatnonzero(~known)
        when[lost] = work.start[lost]
    out = []
    for process in device_work.values_in(work.process).tolist():
        mine = np.flatnonzero(work.process == process)
        launched, when = _in_order(trace, work, mine, known, when)
        launching = call[mine][known[mine]]
        threads = device_work.values_in(issued.thread[launching]) if len(issued) else launched[:0]
        moments = when[launched]
        turns = _main_loop(trace, process, work, launched, moments, threads, repetition)
        if turns is None:
            continue
        made = _made(trace, process, turns, work, mine, launched, when)
        if turns.announced or not _by_chance(made):
            out.append(made)
    return out


def _main_loop(
    trace: StoredTrace,
    process: int,
    work: Work,
    launched: Column,
    moments: Column,
    threads: Column,
    repetition: bool,
) -> Turns | None:
    """The main loop of a process among its launches, which begin at these moments on these threads."""
    loops = announced.candidates(trace, process, work, launched, moments, threads)
    begun, _ = repeated.waits(trace, process)
    turns = announced.best(loops, moments, begun)
    if not repetition:
        return None if turns is None or announced.in_one_pass(trace, process, turns, moments) else turns
    turns = (
        turns
        or announced.shared(trace, process, work, launched, moments, threads)
        or repeated.best(trace, process, work, launched, moments)
        or announced.best(loops, moments, begun, 2)
    )
    if turns is None or turns.weak or turns.anyhow:
        uneven = repeated.uneven(trace, process, work, launched, moments)
        if uneven is not None and (turns is None or len(uneven.label) < len(turns.label)):
            turns = uneven
    if turns is not None and not turns.announced:
        names = work.name_id[launched].astype(np.int64) * 4 + work.kind[launched]
        turns = repeated.passes(turns, names) or repeated.around_inner(turns, work, launched, names)
    if turns is not None and _are_parts(trace, process, turns, work, launched, moments):
        turns = None
    single = announced.single(trace, process, work, launched, moments)
    if single is not None and (
        turns is None
        or _inside_one(single, turns)
        or announced.batches_of_one_step(trace, process, single, turns)
    ):
        # A range around the whole program is an iteration only if its name says so.
        turns = None if single.anyhow else single
    return turns


def _are_parts(
    trace: StoredTrace, process: int, turns: Turns, work: Work, launched: Column, moments: Column
) -> bool:
    """Whether turns are the layers of a model and not those of a loop."""
    if announced.in_one_pass(trace, process, turns, moments):
        return True
    return not turns.announced and (
        repeated.parts_of_a_module(trace, process, turns, moments)
        or repeated.layers_of_one_pass(trace, process, turns, work, launched, moments)
    )


def _inside_one(single: Turns, turns: Turns) -> bool:
    """Whether turns are parts of a single one.

    One step of the framework's own is one iteration, whatever repeats inside of it. A range with another name may as well be
    around the whole loop: what repeats in it are its parts where that may be layers.
    """
    if turns.announced:
        return False
    return single.sure or (turns.weak and (not single.anyhow or repeated.may_be_layers(turns)))


def _in_order(
    trace: StoredTrace, work: Work, mine: Column, known: Column, when: Column
) -> tuple[Column, Column]:
    """The rows of a process in launch order, and the time of each row's launch.

    Streams run in order: a launch that was lost was between its neighbors on the stream, and after a wait that had ended when its
    work began. Where most were lost the device's times stand for them. Work that came before all known launches of its stream is
    left out.
    """
    launched, there = mine, np.count_nonzero(known[mine])
    if there in (0, len(mine)):
        pass
    elif 2 * there < len(mine):
        launched = mine[
            known[mine] | (work.kind[mine] <= COMMUNICATION)
        ]  # no call launches the migration of pages
    else:
        when, launched = when.copy(), mine[known[mine]]
        waited = np.sort(repeated.waits(trace, int(work.process[mine[0]]))[1])
        for _, rows in work.per_queue():
            rows = rows[work.process[rows] == work.process[mine[0]]]
            last = np.maximum.accumulate(np.where(known[rows], np.arange(len(rows)), -1))
            lost = np.flatnonzero((last >= 0) & ~known[rows])
            when[rows[lost]] = when[rows[last[lost]]]
            _after_waits(when, rows, lost, known, work, waited)
            launched = np.append(launched, rows[lost])
        if len(launched) > there:
            launched = np.sort(launched)
    moments = when[launched]
    if not intervals.ascending(moments):
        launched = launched[np.argsort(moments, kind="stable")]
    return launched, when


def _after_waits(when: Column, rows: Column, lost: Column, known: Column, work: Work, waited: Column) -> None:
    """Put the lost launches of a stream after the waits that ended while the stream had nothing to do before their work.

    `rows` is the stream's work in order, `lost` are places in it, `waited` the ends of waits, ascending.
    """
    at = np.searchsorted(waited, work.start[rows[lost]], "right") - 1
    later, ended = lost[at >= 0], waited[at[at >= 0]]
    idle = work.end[rows[later - 1]] <= ended
    moment = when[rows]
    moment[later[idle]] = np.maximum(moment[later[idle]], ended[idle])
    following = np.minimum.accumulate(np.where(known[rows], when[rows], _NEVER)[::-1])[::-1]
    when[rows[lost]] = np.minimum(np.maximum.accumulate(moment), following - 1)[lost]


def _by_chance(found: Iterations) -> bool:
    """Whether work that merely looks alike was taken for a loop: few works a turn, and most of the time is in no usual turn.

    Ninety small copies before and after one long kernel are not iterations of that kernel, nor are they where they come first.
    Nor are eight copies, four kernels and four copies twelve turns of a copy.
    """
    of_steady = found.steady[np.searchsorted(found.first, np.arange(len(found.rows)), "right") - 1]
    rows = found.rows[of_steady]
    work, mine = found.work, found.work.process == found.process
    time = int((work.end - work.start)[mine].sum())
    span = int(work.end[mine].max() - work.start[mine].min())
    size = float(np.median(np.diff(np.append(found.first, len(found.rows)))))
    steady_time = int((work.end - work.start)[rows].sum())
    short = int(found.duration[found.steady].sum()) < _PART_OF * span
    if short and (size < _SINGLE or steady_time < _PART_OF * time):
        return True
    steady = found.duration[found.steady]
    if size < _SINGLE:
        alike = np.bincount(distinct(work.name_id[rows] * 4 + work.kind[rows])[1])
        if int(alike.max()) < _ALL_ONE * len(rows):
            return True
    few = size < _SINGLE or (size < _LEAST_WORK and len(steady) < _OFTEN)
    return few and len(steady) * float(np.median(steady)) < _MADE_OF * float(steady.sum())


def _made(
    trace: StoredTrace, process: int, turns: Turns, work: Work, mine: Column, launched: Column, when: Column
) -> Iterations:
    """Build iterations; `launched` are the rows with a numbered launch, in order, among all rows `mine`."""
    turn = np.full(len(work), -1, np.int32)
    turn[launched] = turns.of_launch
    if len(launched) < len(mine):
        _carried_on(turn, work, mine, launched)
    rows = mine[turn[mine] >= 0]
    rows = rows[np.argsort(turn[rows], kind="stable")].astype(np.int32 if len(work) < 1 << 31 else np.int64)
    numbers = turn[rows]
    first = np.append(0, np.flatnonzero(numbers[1:] != numbers[:-1]) + 1)
    numbers = numbers[first]
    start = np.maximum.accumulate(np.minimum.reduceat(work.start[rows], first))
    end = int(np.maximum.reduceat(work.end[rows], first)[-1])
    duration = np.diff(np.append(start, max(end, int(start[-1]))))
    if 4 * np.count_nonzero(duration == 0) > len(duration):  # turns overtake each other on the device
        start, duration = _on_host(launched, when, turn, numbers)
    steady = np.ones(len(duration), bool) if turns.uneven else steady_state(duration)
    label = [turns.label[i] for i in numbers.tolist()]
    # The recorder's own time is reported separately, and does not make an iteration slow.
    outlier = steady & outliers(duration - _recorder_time(trace, process, start, duration), steady)
    if (
        not turns.announced
    ):  # a turn with other work in it may hold the end of one loop and the start of the next
        size = np.diff(np.append(first, len(rows)))
        usual = float(np.median(size))
        outlier &= np.abs(size - usual) <= _SAME * usual
        outlier &= (usual >= _LEAST_WORK) & (len(start) >= _LEAST_TURNS)
        outlier &= _like_a_neighbor(work.name_id[rows] * 4 + work.kind[rows], first, np.flatnonzero(outlier))
    return Iterations(process, turns.source, start, duration, first, rows, steady, outlier, label, work)


def _like_a_neighbor(names: Column, first: Column, chosen: Column) -> Column:
    """Turns, of some, that do nearly the same work as the turn before or after them; `names` are those of all work in order.

    A turn that holds the end of one loop and the start of the next does not:

        a b a b a b | a b a b a b | a b a c d c | d c d c d c
    """
    out = np.zeros(len(first), bool)
    if not len(chosen):
        return out
    size = np.diff(np.append(first, len(names)))
    width = int(names.max()) + 1

    def counted(turns: Column) -> tuple[Column, Column]:
        length = size[turns]
        place = np.repeat(np.arange(len(turns)), length)
        row = np.arange(len(place)) + np.repeat(first[turns] - np.cumsum(length) + length, length)
        return np.unique(place * width + names[row], return_counts=True)

    key, count = counted(chosen)
    for neighbor in (chosen - 1, chosen + 1):
        neighbor = np.where((neighbor < 0) | (neighbor >= len(first)), 2 * chosen - neighbor, neighbor)
        other_key, other_count = counted(neighbor)
        shared, one, two = np.intersect1d(key, other_key, assume_unique=True, return_indices=True)
        both = np.bincount(shared // width, np.minimum(count[one], other_count[two]), len(chosen))
        out[chosen[both >= (1 - _SAME) * np.maximum(size[chosen], size[neighbor])]] = True
    return out


def _on_host(launched: Column, when: Column, turn: Column, numbers: Column) -> tuple[Column, Column]:
    """Start and length of iterations by their launches; the last one ends with its last launch."""
    mine = launched[turn[launched] >= 0]
    moments = when[mine]
    first = np.searchsorted(turn[mine], numbers)
    start = moments[np.minimum(first, len(moments) - 1)]
    return start, np.diff(np.append(start, moments[-1]))


def _recorder_time(trace: StoredTrace, process: int, start: Column, duration: Column) -> Column:
    """Time in each iteration (ns) during which the recorder is known to have held up a thread of the process."""
    if not trace.count("overhead"):
        return np.zeros(len(start), np.int64)
    columns, _, rows = recorder.stretches(trace)
    rows = rows[columns["process"][rows] == process]
    held = intervals.union(columns["start"][rows], columns["start"][rows] + columns["duration"][rows])
    taken: Column = intervals.coverage(held, start, start + duration)
    return taken


def _carried_on(turn: Column, work: Work, mine: Column, launched: Column) -> None:
    """Assign rows without a launch to the iteration of the row before them on their stream."""
    has = np.zeros(len(work), bool)
    has[launched] = True
    for _, rows in work.per_queue():
        if not len(rows) or work.process[rows[0]] != work.process[mine[0]]:
            continue
        last = np.maximum.accumulate(np.where(has[rows], np.arange(len(rows)), -1))
        carried = np.where(last >= 0, turn[rows[np.maximum(last, 0)]], -1)
        turn[rows] = np.where(has[rows], turn[rows], carried)


def steady_state(duration: Column) -> Column:
    """Which iterations belong to the steady state, without warm-up and a cut-off end.

    The steady state begins at the first iteration from which on two of three are within 25% of the median of the second half, and
    ends with the last such iteration: a slow iteration in the middle belongs to it. Where that leaves out most of the second
    half, or where many inside are not near the median or many outside are, lengths differ by nature (sequences, requests), and no
    iteration is more typical than another. Of two lengths, the one that more iterations have, both before and after the others,
    is the usual one.
    """
    usual = float(np.median(duration[len(duration) // 2 :]))
    steady = _steady(duration, usual)
    left = np.flatnonzero(~steady)
    inner = np.flatnonzero(steady)
    if len(left) > len(inner):  # a few slow ones late in a short loop are not its steady state
        other = float(np.median(duration[left]))
        alike = left[np.abs(duration[left] - other) <= 0.25 * other]
        if len(alike) > len(inner) and alike[0] < inner[0] and alike[-1] > inner[-1]:
            return _steady(duration, other)
    return steady


def _steady(duration: Column, usual: float) -> Column:
    """The steady state of iterations, given their usual length."""
    count = len(duration)
    near = np.abs(duration - usual) <= 0.25 * usual
    steady = np.zeros(count, bool)
    places = np.flatnonzero(near)
    if len(places) < 2:
        return ~steady
    following = np.concatenate([np.cumsum(near[::-1])[::-1], np.zeros(3, np.int64)])
    left = np.minimum(3, count - places)
    good = places[(following[places] - following[places + 3]) * 3 >= 2 * left]
    if not len(good):
        return ~steady
    steady[good[0] : places[-1] + 1] = True
    if _by_nature(near, steady, int(good[0])) or 2 * int(steady[count // 2 :].sum()) < count - count // 2:
        steady[:] = True
    return steady


def _by_nature(near: Column, steady: Column, first: int) -> bool:
    """Whether a steady state excludes iterations by chance: those it contains vary as much as the others."""
    if steady.all():
        return False
    many = np.count_nonzero(~steady) >= _MANY_LEFT * len(steady)
    unusual = float((~near[steady]).mean())
    by_chance = unusual >= (_VARIED if many else _ALTERNATING) and unusual**first >= _CHANCE
    return bool(by_chance or (many and float(near[~steady].mean()) >= _VARIED))


def outliers(duration: Column, among: Column) -> Column:
    """Iterations far from the median of the steady ones: by a factor, and by their own spread (median deviation)."""
    if int(among.sum()) < 3:  # the usual length is unknown
        return np.zeros(len(duration), bool)
    usual = float(np.median(duration[among]))
    spread = 1.4826 * float(np.median(np.abs(duration[among] - usual)))
    far = np.abs(duration - usual) > max(OUTLIER_SPREADS * spread, (OUTLIER - 1) * usual)
    return far


def iterations(trace: StoredTrace, rows: Rows = _ALL, work: Work | None = None) -> Result:
    """The iterations of the main loop, its steady state, spread and outliers.

    Tables:
        summary: per process: source, iterations, steady, mean, median, std, min, max of the steady ones, outliers.
        iterations: process, number, label, start, duration, busy (union of device work), work, steady, outlier.
    """
    found = find(trace, rows, work)
    summary: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for one in found:
        steady = one.duration[one.steady]
        summary.append({
            "process": one.process, "source": one.source, "iterations": len(one), "steady": len(steady),
            "mean": float(steady.mean()), "median": float(np.median(steady)), "std": float(steady.std()),
            "min": int(steady.min()), "max": int(steady.max()), "outliers": int(one.outlier.sum()),
        })  # fmt: skip
        findings += slow(one)
    if not found:
        text = "no iterations: no ranges or steps repeat, and neither does the sequence of kernels"
        findings.append(Finding("note", text))
    tables = {
        "summary": table(
            "process:int32 source:string iterations:int64 steady:int64 mean:float64:ns median:float64:ns std:float64:ns "
            "min:int64:ns max:int64:ns outliers:int64",
            summary,
        ),
        "iterations": _listed(found),
    }
    return Result(tables, in_order(findings))


def _listed(found: list[Iterations]) -> pa.Table:
    """One row per iteration; a loop of single kernels has as many iterations as kernels, so this uses columns, not rows."""
    columns = (
        "process:int32 number:int64 label:string start:int64:ns duration:int64:ns busy:int64:ns work:int64 steady:bool "
        "outlier:bool"
    )
    parts = [
        table(columns, {
            "process": np.full(len(one), one.process), "number": np.arange(len(one)),
            "label": [text or None for text in one.label], "start": one.start, "duration": one.duration, "busy": busy(one),
            "work": np.diff(np.append(one.first, len(one.rows))), "steady": one.steady, "outlier": one.outlier,
        })
        for one in found
    ]  # fmt: skip
    return pa.concat_tables(parts) if parts else table(columns, [])


def busy(one: Iterations) -> Column:
    """The part of each iteration during which the process has device work, ns."""
    mine = one.work.process == one.process
    whole = intervals.union(one.work.start[mine], one.work.end[mine])
    edges = np.append(one.start, one.start[-1] + one.duration[-1])
    busy: Column = np.diff(intervals.measure(whole, edges))
    return busy


def slow(one: Iterations) -> list[Finding]:
    """The iterations that took longer than the steady state explains, as one finding."""
    if not one.outlier.any():
        return []
    usual = float(one.median)
    late = np.flatnonzero(one.outlier & (one.duration > usual))
    if not len(late) or usual <= 0:
        return []
    late = late[np.argsort(-one.duration[late], kind="stable")]
    cost = int((one.duration[late] - usual).sum())
    worst = int(late[0])
    # A name shared by all iterations distinguishes none of them.
    named = one.label.count(one.label[worst]) == 1
    name = one.label[worst] if named and one.label[worst] else f"iteration {worst}"
    times = one.duration[worst] / usual
    text = f"{name} took {words.duration(one.duration[worst])}, {times:.1f} times the usual {words.duration(usual)}"
    if len(late) > 1:
        text += f"; {len(late):,} of {int(one.steady.sum()):,} iterations stand out"
    values = {"iterations": len(late), "usual": usual, "worst": int(one.duration[worst]), "number": worst,
              "label": one.label[worst], "process": one.process}  # fmt: skip
    return [Finding("warning", text, values, rule="iterations/outlier", saves_ns=cost)]

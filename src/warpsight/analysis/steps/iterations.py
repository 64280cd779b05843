"""The iterations of a program's main loop: found in what it announced, else in the repetition of its kernels.

An iteration is the device work launched in one turn of the loop. It lasts from the begin of its first work to the begin of the
next iteration's first (the last one: to the end of its work), so iterations tile the time and a pause belongs to the turn before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result, in_order
from warpsight.analysis.base.tables import table
from warpsight.analysis.steps import announcements, repetition
from warpsight.analysis.steps.announcements import LEAST, Announced
from warpsight.model import calls, intervals
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_ALL = Rows()
#: An iteration this many times from the median is an outlier, if it is also far outside of the spread.
OUTLIER, OUTLIER_SPREADS = 1.3, 5.0
#: A loop counts when its turns cover this share of the time with device work.
_COVERED = 0.3


@dataclass(frozen=True)
class Iterations:
    """Iterations of one process as columns; times in ns.

    Attributes:
        start: Begin of the first device work of each.
        duration: Time to the begin of the next.
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


def find(trace: Trace, rows: Rows = _ALL, work: Work | None = None) -> list[Iterations]:
    """The iterations of every process that has some; what was found in one work is kept while the trace is open."""
    among = device_work.load(trace, rows, cut=False) if work is None else work
    # The work is kept beside what was found in it, so that nothing else can have its identity.
    return trace.kept.get(("iterations", id(among)), lambda: (among, _found(trace, among)))[1]


def _found(trace: Trace, work: Work) -> list[Iterations]:
    issued, call = calls.of_work(trace, work, api=True)
    when = np.where(call >= 0, issued.start[np.maximum(call, 0)], work.start) if len(issued) else work.start
    announced = announcements.load(trace)
    out = []
    for process in device_work.distinct(work.process)[0].tolist():
        mine = np.flatnonzero(work.process == process)
        if (when[mine][1:] < when[mine][:-1]).any():
            mine = mine[np.argsort(when[mine], kind="stable")]
        waits = _waits(trace, process)
        one = _announced(announced, process, work, mine, when) or _repeated(
            work, process, mine, when[mine], waits
        )
        if one is not None:
            out.append(one)
    return out


# -- what the program announced


def _announced(
    announced: Sequence[Announced], process: int, work: Work, mine: Column, when: Column
) -> Iterations | None:
    """The best of the loops that ranges, profiler steps and `ws.step()` tell of."""
    best: tuple[tuple[int, float], Iterations] | None = None
    times = when[mine]
    for source, label, begin, end in (loop for one in announced for loop in one.loops(process)):
        first = np.searchsorted(times, begin, side="left")
        last = np.searchsorted(times, end, side="left")
        filled = last > first
        if int(filled.sum()) < LEAST:
            continue
        begin, first = begin[filled], first[filled]
        texts = [text for text, good in zip(label, filled.tolist(), strict=True) if good]
        rows = mine[: int(last[filled][-1])]
        made = _made(process, source, texts, work, rows, first)
        covered = float(made.duration.sum()) / max(work.finish - work.begin, 1)
        named = "step" in source or bool(announcements.STEP_NAMES.search(source))
        rank = (int(covered >= _COVERED) + int(named), covered)
        if covered >= _COVERED / 3 and (best is None or rank > best[0]):
            best = rank, made
    return None if best is None else best[1]


# -- what repeats by itself


def _waits(trace: Trace, process: int) -> Column:
    """When the host began to wait: a loop often waits once per turn, where its kernels alone show shorter repetitions."""
    found = trace.sql(f"""SELECT start FROM sync WHERE process = {process} AND kind <> 'stream wait event'
                          ORDER BY start""").fetchnumpy()["start"]  # fmt: skip
    times: Column = np.ma.getdata(found)
    return times


def _repeated(work: Work, process: int, mine: Column, when: Column, waits: Column) -> Iterations | None:
    """The loop that the sequence of device work shows, with the host's waits as marks in it."""
    names = work.name_id[mine].astype(np.int64) * 4 + work.kind[mine]
    ended = np.maximum.accumulate(work.end[mine]) if len(mine) else mine
    gap = np.zeros(len(mine), np.int64)
    gap[1:] = np.maximum(work.start[mine][1:] - ended[:-1], 0)
    before = np.searchsorted(when, waits, side="right")  # a wait stands before this row
    at = before + np.arange(len(before))
    own = np.ones(len(mine) + len(at), bool)
    own[at] = False
    sequence, pauses = np.full(len(own), -1, np.int64), np.zeros(len(own), np.int64)
    sequence[own], pauses[own] = names, gap
    found = repetition.find(sequence, pauses)
    if found is None:
        return None
    rows = np.cumsum(own) - own  # rows before each place
    first, last = rows[found.begins], int(found.begins[-1]) + found.period
    first = first[
        np.r_[True, first[1:] > first[:-1]]
    ]  # a turn that begins with a wait begins with the row after it
    first = first[first < len(mine)]
    if len(first) < LEAST:
        return None
    stop = len(mine) if last >= len(rows) else int(rows[last])
    stop = max(stop, int(first[-1]) + 1)
    period = int(np.median(np.diff(first)))
    source = f"repetition of {period:,} kernels and copies"
    return _made(process, source, [""] * len(first), work, mine[:stop], first)


def _made(process: int, source: str, label: list[str], work: Work, rows: Column, first: Column) -> Iterations:
    start = np.minimum.reduceat(work.start[rows], first)
    start = np.maximum.accumulate(start)
    end = int(work.end[rows[int(first[-1]) :]].max())
    duration = np.diff(np.append(start, max(end, int(start[-1]))))
    steady = steady_state(duration)
    outlier = steady & outliers(duration, steady)
    return Iterations(process, source, start, duration, first, rows, steady, outlier, label, work)


def steady_state(duration: Column) -> Column:
    """Which iterations belong to the steady state: warm-up at the begin and a broken-off end do not.

    The steady state begins at the first iteration from which on two of three are within 25 % of the median of the second half,
    and ends with the last such iteration: a slow iteration in the middle belongs to it.
    """
    count = len(duration)
    usual = float(np.median(duration[count // 2 :]))
    near = np.abs(duration - usual) <= 0.25 * usual
    steady = np.zeros(count, bool)
    places = np.flatnonzero(near)
    if len(places) < 2:
        return ~steady
    for place in places.tolist():
        if near[place : place + 3].sum() * 3 >= 2 * len(near[place : place + 3]):
            steady[place : places[-1] + 1] = True
            return steady
    return ~steady


def outliers(duration: Column, among: Column) -> Column:
    """Iterations far from the median of the steady ones: by a factor, and by their own spread (median deviation)."""
    usual = float(np.median(duration[among]))
    spread = 1.4826 * float(np.median(np.abs(duration[among] - usual)))
    far = np.abs(duration - usual) > max(OUTLIER_SPREADS * spread, (OUTLIER - 1) * usual)
    return far


def iterations(trace: Trace, rows: Rows = _ALL, work: Work | None = None) -> Result:
    """The iterations of the main loop, which of them are the steady state, their spread, and which stand out.

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
    """A row per iteration; a loop of single kernels has as many iterations as kernels, so this is columns, not rows."""
    columns = (
        "process:int32 number:int64 label:string start:int64:ns duration:int64:ns busy:int64:ns work:int64 steady:bool "
        "outlier:bool"
    )
    parts = [
        table(columns, {
            "process": np.full(len(one), one.process), "number": np.arange(len(one)),
            "label": [text or None for text in one.label], "start": one.start, "duration": one.duration, "busy": _busy(one),
            "work": np.diff(np.append(one.first, len(one.rows))), "steady": one.steady, "outlier": one.outlier,
        })
        for one in found
    ]  # fmt: skip
    return pa.concat_tables(parts) if parts else table(columns, [])


def _busy(one: Iterations) -> Column:
    """Time with device work of the process in each iteration."""
    mine = one.work.process == one.process
    whole = intervals.union(one.work.start[mine], one.work.end[mine])
    edges = np.append(one.start, one.start[-1] + one.duration[-1])
    busy: Column = np.diff(intervals.measure(whole, edges))
    return busy


def slow(one: Iterations) -> list[Finding]:
    """The iterations that took longer than the steady state explains, as one finding."""
    usual = float(np.median(one.duration[one.steady]))
    late = np.flatnonzero(one.outlier & (one.duration > usual))
    if not len(late):
        return []
    if len(late) > max(0.1 * int(one.steady.sum()), 1):  # not outliers, but a loop with two kinds of turns
        return []
    late = late[np.argsort(-one.duration[late], kind="stable")]
    cost = int((one.duration[late] - usual).sum())
    worst = int(late[0])
    name = one.label[worst] or f"iteration {worst}"
    times = one.duration[worst] / usual
    text = (
        f"{name} took {words.duration(one.duration[worst])}, {times:.1f} times the usual {words.duration(usual)}"
        + (f"; {len(late)} of {int(one.steady.sum())} iterations stand out" if len(late) > 1 else "")
    )
    values = {"iterations": len(late), "usual": usual, "worst": int(one.duration[worst]), "number": worst,
              "label": one.label[worst], "process": one.process}  # fmt: skip
    return [Finding("warning", text, values, rule="iterations/outlier", saves_ns=cost)]

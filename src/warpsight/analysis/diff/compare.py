"""`diff`: two recordings compared by iteration, kernel, role, stack, range, operator and sequence, with a test of noise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.diff import sequence, statistics
from warpsight.analysis.diff.sides import GROUPINGS, Side
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_ALL = Rows()
#: Kernels align by name when those found on both sides hold this share of the time of either; else by role.
SHARED = 0.2
_COLUMNS = (
    "name:string before:float64:ns after:float64:ns change:float64:ns ratio:float64 count_before:float64 count_after:float64 "
    "p:float64 verdict:string"
)


@dataclass(frozen=True)
class Difference:
    """What a comparison found: one sentence, whether it is more than noise, tables and notes."""

    headline: str
    verdict: str
    result: Result


def compare(before: Trace, after: Trace, rows_before: Rows = _ALL, rows_after: Rows = _ALL) -> Difference:
    """Compare two recordings per iteration of their steady state (as wholes where either has no iterations).

    Tables:
        summary: per measure (iteration, busy, idle, device time, work) before, after, change, ratio, p and verdict.
        kernel, role, stack, range, operator: per label the device time per iteration, the largest changes first.
        sequence: stretches of the typical iteration that were added, removed or replaced.
        pairs: kernels with different names in the same place of the sequence.

    `p` is of the Mann–Whitney test on per-iteration values, adjusted for the number of rows. A verdict is `slower`, `faster`,
    `new`, `gone`, `same` (no more than noise), or `untested` where the noise of a run is not known.
    """
    sides = Side(before, rows_before), Side(after, rows_after)
    tested = all(side.repeated for side in sides)
    tables: dict[str, Any] = {
        "summary": table(_COLUMNS.replace("name:", "measure:"), _summary(sides, tested))
    }
    by_name = _shared(sides)
    for grouping in GROUPINGS:
        rows = _grouped(sides, grouping, tested)
        if rows:
            tables[grouping] = table(_COLUMNS, rows)
    stretches, pairs = sequence.steps(*sides, "kernel" if by_name >= SHARED else "role")
    tables["sequence"] = _sequence(sides, stretches)
    tables["pairs"] = table("before:string after:string count:int64",
                            [{"before": a, "after": b, "count": n} for a, b, n in pairs])  # fmt: skip
    findings = tuple(_notes(sides, by_name, tested))
    verdict, headline = _headline(sides, tested)
    return Difference(headline, verdict, Result(tables, findings))


def _summary(sides: tuple[Side, Side], tested: bool) -> list[dict[str, Any]]:
    measures: dict[str, list[Column]] = {
        "iteration" if tested else "recording": [side.durations for side in sides]
    }
    measures["device busy"] = [side.busy for side in sides]
    measures["device idle"] = [np.maximum(side.durations - side.busy, 0) for side in sides]
    total, count = [], []
    for side in sides:
        time, number = side.per_turn(np.zeros(len(side.work), np.int64), 1)
        total.append(time[0])
        count.append(number[0])
    measures["device time"] = total
    values = [(name, one, two) for name, (one, two) in measures.items()]
    p = (
        statistics.adjusted(np.array([statistics.mann_whitney(a, b) for _, a, b in values]))
        if tested
        else None
    )
    out = [
        {"measure": name, **_row(a, b, None if p is None else float(p[i])), "count_before": float(count[0].mean()),
         "count_after": float(count[1].mean())} for i, (name, a, b) in enumerate(values)
    ]  # fmt: skip
    return out


def _row(before: Column, after: Column, p: float | None) -> dict[str, Any]:
    one, two = float(before.mean()) if len(before) else 0.0, float(after.mean()) if len(after) else 0.0
    ratio = two / one if one else None
    return {
        "before": one,
        "after": two,
        "change": two - one,
        "ratio": ratio,
        "p": p,
        "verdict": _verdict(one, two, p),
    }


def _verdict(before: float, after: float, p: float | None) -> str:
    if not before and after:
        return "new"
    if before and not after:
        return "gone"
    if p is None:
        return "untested"
    if p >= statistics.LEVEL or abs(after - before) < statistics.LEAST_CHANGE * before:
        return "same"
    return "slower" if after > before else "faster"


def _grouped(sides: tuple[Side, Side], grouping: str, tested: bool) -> list[dict[str, Any]]:
    labels = [side.labels(grouping) for side in sides]
    texts = list(dict.fromkeys([*labels[0][1], *labels[1][1]]))
    if not texts:
        return []
    number = {text: i for i, text in enumerate(texts)}
    matrices = []
    for side, (place, own) in zip(sides, labels, strict=True):
        onto = np.append(np.array([number[text] for text in own], np.int64), -1)
        matrices.append(side.per_turn(onto[place], len(texts)))
    (time, count), (time_after, count_after) = matrices
    p = np.ones(len(texts))
    if tested:
        p = statistics.adjusted(
            np.array([statistics.mann_whitney(a, b) for a, b in zip(time, time_after, strict=True)])
        )
    rows = [
        {"name": text, **_row(time[i], time_after[i], float(p[i]) if tested else None),
         "count_before": float(count[i].mean()), "count_after": float(count_after[i].mean())} for i, text in enumerate(texts)
    ]  # fmt: skip
    rows = [row for row in rows if row["before"] or row["after"]]
    rows.sort(key=lambda row: -abs(row["change"]))
    return rows


def _shared(sides: tuple[Side, Side]) -> float:
    """The share of device time in kernels whose names both sides have; the smaller of the two sides."""
    shares = []
    labels = [side.labels("kernel") for side in sides]
    both = set(labels[0][1]) & set(labels[1][1]) - {"copies", "fills"}
    for side, (place, texts) in zip(sides, labels, strict=True):
        if not texts:
            return 1.0
        total = np.bincount(place, side.work.end - side.work.start, minlength=len(texts))
        shares.append(
            sum(float(total[i]) for i, text in enumerate(texts) if text in both) / max(float(total.sum()), 1)
        )
    return min(shares)


def _sequence(sides: tuple[Side, Side], stretches: list[sequence.Step]) -> Any:
    columns = (
        "change:string place:int64 kernels_before:int64 kernels_after:int64 before:int64:ns after:int64:ns "
        "what_before:string what_after:string"
    )
    typical = [sequence.typical(sides[0]), sequence.turned(*sides)]
    labels = [side.labels("kernel") for side in sides]

    def told(which: int, part: tuple[int, int]) -> str | None:
        place, texts = labels[which]
        names = [texts[i] for i in place[typical[which][part[0] : part[1]]].tolist()]
        return ", ".join(dict.fromkeys(names[:20])) or None

    ordered = sorted(stretches, key=lambda one: -abs(one.time_after - one.time_before))
    rows = [
        {"change": one.change, "place": one.before[0], "kernels_before": one.before[1] - one.before[0],
         "kernels_after": one.after[1] - one.after[0], "before": one.time_before, "after": one.time_after,
         "what_before": told(0, one.before), "what_after": told(1, one.after)} for one in ordered
    ]  # fmt: skip
    return table(columns, rows)


def _headline(sides: tuple[Side, Side], tested: bool) -> tuple[str, str]:
    one, two = (float(np.median(side.durations)) for side in sides)
    what = "per iteration (medians)" if tested else "from the first to the last device work"
    spans = f"{words.duration(one)} → {words.duration(two)} {what}"
    if not one or not two:
        return "untested", f"one of the recordings has no device work: {spans}"
    change = two / one - 1
    how = f"{abs(change):.1%} {'slower' if change > 0 else 'faster'}"
    if not tested:
        return (
            "untested",
            f"the second is {how}: {spans}; without iterations on both sides noise cannot be told from change",
        )
    p = statistics.mann_whitney(sides[0].durations, sides[1].durations)
    interval = statistics.ratio_interval(sides[0].durations, sides[1].durations)
    bounds = f", 95 % interval of the ratio {interval[0]:.3f} to {interval[1]:.3f}" if interval else ""
    evidence = f"Mann–Whitney p = {p:.2g}{bounds}, {len(sides[0].durations)} and {len(sides[1].durations)} iterations"
    if p >= statistics.LEVEL or abs(change) < statistics.LEAST_CHANGE:
        return "same", f"no change beyond the runs' own noise: {spans}; {evidence}"
    return (
        "slower" if change > 0 else "faster"
    ), f"the second is {how}, more than noise: {spans}; {evidence}"


def _notes(sides: tuple[Side, Side], by_name: float, tested: bool) -> list[Finding]:
    out = []
    if by_name < SHARED:
        text = (
            f"kernels with names that both have are {by_name:.0%} of the device time, so kernels are aligned by role "
            "(matrix product, attention, …), and `pairs` tells which took whose place"
        )
        out.append(Finding("note", text, {"shared": by_name}))
    sources = {
        ", ".join(re.sub(r"\d[\d,]*", "#", loop.source) for loop in side.loops) or "none" for side in sides
    }
    if tested and len(sources) > 1:
        text = f"the iterations of the two were found differently ({'; '.join(sorted(sources))}): they may not be the same loop"
        out.append(Finding("note", text))
    for which, side in zip(("first", "second"), sides, strict=True):
        if not side.repeated:
            out.append(Finding("note", f"the {which} has no iterations that repeat: its noise is not known"))
        if len(sequence.typical(side)) > sequence.MOST:
            text = f"the first {sequence.MOST:,} of an iteration's work are aligned by sequence"
            out.append(Finding("note", text))
    return out

"""Why a rank comes last: the part of its account that exceeds the other ranks', in the steps that it delays."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import CLASSES, COMMUNICATION, COMPUTE, HOST, UNKNOWN
from warpsight.analysis.account.naming import UNNAMED
from warpsight.analysis.base import words
from warpsight.cluster.job import Job
from warpsight.cluster.steps import Steps
from warpsight.model.naming import kernel_names

Column = NDArray[Any]
#: Kernels share one slowdown if this share of their time is at least this much slower by about the same factor.
_UNIFORM, _SLOWER = 0.7, 1.04
#: A device's clock is low if it is below the other ranks' by this factor.
_LOW_CLOCK = 0.97
#: The share that counts as most; counts within this difference are equal; times beyond this factor are longer.
_MOST, _ALIKE, _LONGER = 0.5, 0.02, 1.1


_LINE = re.compile(r":\d+\)$")


@dataclass(frozen=True)
class Cause:
    """The activity on which a rank spends more time than the others.

    Attributes:
        kind: Class of the account, throttled or imbalance.
        name: Kernel, function or call.
        text: The cause, phrased as the end of a sentence about the rank.
        excess: Extra time compared with a typical other rank in those steps, ns.
        evidence: Further lines.
        advice: What to do.
    """

    kind: str
    name: str
    text: str
    excess: int
    evidence: tuple[str, ...] = ()
    advice: str = ""


def cause(job: Job, steps: Steps, rank: int, chosen: Column) -> Cause | None:
    """Why a rank (by its place) comes last in some steps; None if its account does not exceed the others'."""
    sums = [_sums(job, steps, place, chosen) for place in range(len(job.summaries))]
    mine = sums[rank]
    others = [one for place, one in enumerate(sums) if place != rank]
    excess = {
        key: time - float(np.median([one.get(key, (0, 0))[0] for one in others]))
        for key, (time, _) in mine.items()
    }
    by_class: dict[int, float] = {}
    for (kind, _), time in excess.items():
        by_class[kind] = by_class.get(kind, 0.0) + time
    by_class.pop(COMMUNICATION, None)
    if not by_class or max(by_class.values()) <= 0:
        return None
    known = {kind: time for kind, time in by_class.items() if kind != UNKNOWN}
    kind = max(known or by_class, key=lambda one: by_class[one])
    if by_class[kind] <= 0:
        kind = max(by_class, key=lambda one: by_class[one])
    count = int(chosen.sum())

    def of_class(kind: int) -> Cause:
        name = max((key for key in excess if key[0] == kind), key=lambda key: excess[key])[1]
        more = max(int(excess[kind, name]), 1)
        if kind == COMPUTE:
            return _compute(job, rank, name, int(by_class[kind]), mine, others, count)
        if kind == HOST:
            name = _host_place(
                job, steps, rank, chosen, (mine[kind, name][0], more, int(by_class[kind]), name)
            )
        return _idle(kind, name, more, int(by_class[kind]), count)

    found = of_class(kind)
    also = [
        of_class(one).text
        for one, time in by_class.items()
        if one not in (kind, UNKNOWN) and time >= _MOST * by_class[kind]
    ]
    return replace(found, evidence=(*(f"besides, {text}" for text in also), *found.evidence))


def _host_place(job: Job, steps: Steps, rank: int, chosen: Column, named: tuple[int, int, int, str]) -> str:
    """What a rank's host runs that the others' do not: the most specific place that accounts for most of its extra time.

    `named` is what the account has most of: its time, how much of that is more than the others', how much of the whole class is,
    and its name. Places are those on the stacks of samples, which all contain the program's entry; that one has as much on
    every rank beside the additional time, so the least time among those with most of the excess belongs to the most specific.
    """
    time, more, whole, name = named
    sums = [_at_places(job, steps, place, chosen) for place in range(len(job.summaries))]
    mine, others = sums[rank], [one for place, one in enumerate(sums) if place != rank]
    excess = {
        place: length - float(np.median([one.get(place, 0.0) for one in others]))
        for place, length in mine.items()
    }
    total = excess.pop("", 0.0)
    good = [place for place in excess if excess[place] >= _MOST * total]
    if not len(job.summaries[rank].host_places):
        return name
    if total <= 0 or not good:
        return _LINE.sub(")", name)  # the line has most of the whole recording's time
    best = min(good, key=lambda place: (mine[place], ", at " not in place, place))
    if more >= _MOST * whole and time * total <= mine[best] * whole:
        return name  # a range that is as specific, and was named by people
    return best


def _at_places(job: Job, steps: Steps, place: int, chosen: Column) -> dict[str, float]:
    """Host time of one rank in the chosen steps by place on its stacks, ns."""
    rows = job.summaries[place].host_places
    step = steps.stretches[place][rows["interval"].to_numpy()]
    rows = rows.filter(np.append(chosen, not len(chosen))[np.minimum(step, len(chosen))])
    sums = rows.group_by("place").aggregate([("time", "sum")]).to_pylist()
    return {row["place"]: row["time_sum"] for row in sums}


_Sums = dict[tuple[int, str], tuple[int, int]]


def _sums(job: Job, steps: Steps, place: int, chosen: Column) -> _Sums:
    """Time and count of each class and name in the chosen steps of one rank."""
    account = job.summaries[place].account
    step = steps.stretches[place][account["interval"].to_numpy()]
    inside = np.append(chosen, not len(chosen))[np.minimum(step, len(chosen))]
    rows = account.filter(inside)
    sums = rows.group_by(["class", "name"]).aggregate([("time", "sum"), ("count", "sum")]).to_pylist()
    return {(row["class"], row["name"]): (row["time_sum"], row["count_sum"]) for row in sums}


def _idle(kind: int, name: str, more: int, in_class: int, steps: int) -> Cause:
    each = (
        f"{words.duration(in_class / max(steps, 1))} more a step"
        if steps > 1
        else f"{words.duration(in_class)} more"
    )
    if kind == HOST:
        what = "code that no sample or range names" if name == UNNAMED else name
        text = f"its device idles {each} while its host runs {what}"
        advice = ("Look at what this rank's host does there that the others' does not: its part of the data, a slow disk or "
                  "network mount, a busy or throttled CPU, logging on one rank.")  # fmt: skip
    elif CLASSES[kind] == "blocked_call":
        text = f"its host is held {each} in {name}"
        advice = "Find out why this call takes longer on this rank: memory pressure, a copy or synchronization only it does."
    elif CLASSES[kind] == "launch":
        text = f"launching work takes it {each} ({name})"
        advice = "Its CPU is slower or shared: check clocks, NUMA binding and other processes on that host."
    else:
        text = f"it spends {each} in {CLASSES[kind].replace('_', ' ')} ({name})"
        advice = "Look at this rank's own recording: warpsight analyze."
    return Cause(CLASSES[kind], name, text, max(in_class, more), (), advice)


def _compute(
    job: Job, rank: int, name: str, in_class: int, mine: _Sums, others: Sequence[_Sums], steps: int
) -> Cause:
    """The reason: more work, one slower kernel, or a slower device."""
    per_step = words.duration(in_class / max(steps, 1)) + (" a step" if steps > 1 else "")
    factor, share, lines = _slowdown(job, rank)
    clock, usual = _clocks(job, rank)
    own, reasons = job.summaries[rank].about, job.summaries[rank].about.throttled
    if factor >= _SLOWER and share >= _UNIFORM:
        low = clock is not None and usual is not None and clock < _LOW_CLOCK * usual
        why = f": its clock ran at {clock:,.0f} MHz, the others' at {usual:,.0f} MHz" if low else ""
        why += f", held down by {reasons[0][0]}" if low and reasons else ""
        text = f"all its kernels take {factor:.2f} times as long as on the other ranks ({per_step}){why}"
        return Cause("throttled", own.device, text, in_class, lines,
                     "Check the clock, temperature and power limit of this GPU (nvidia-smi -q -d PERFORMANCE,CLOCK,POWER) and "
                     "whether another process uses it.")  # fmt: skip
    key = (COMPUTE, name)
    count = mine[key][1]
    usual_count = float(np.median([one.get(key, (0, 0))[1] for one in others]))
    if not usual_count and (instead := _instead(mine, others)):
        text = f"it computes {per_step} more in other kernels: {kernel_names.short(name)} where the others run {instead}"
        advice = ("It launches as many kernels and those of one name take as long: compare the ranks' precision (TF32), memory "
                  "layout, shapes and library versions.")  # fmt: skip
        return Cause("kernels", name, text, in_class, lines, advice)
    if count > 1.02 * usual_count:
        text = (f"it computes {per_step} more: {count:,} times {kernel_names.short(name)}, the others "
                f"{usual_count:,.0f} times")  # fmt: skip
        advice = "It has more work: balance sequence lengths, experts or shards between the ranks."
        return Cause("imbalance", name, text, in_class, lines, advice)
    ratio = mine[key][0] / max(float(np.median([one.get(key, (0, 0))[0] for one in others])), 1.0)
    text = (
        f"{kernel_names.short(name)} takes {ratio:.2f} times as long as on the other ranks ({per_step} more)"
    )
    return Cause(
        "compute",
        name,
        text,
        in_class,
        lines,
        "Compare its shapes with those on the other ranks: here the kernel has more to do.",
    )


def _instead(mine: _Sums, others: Sequence[_Sums]) -> str:
    """The kernel that the others run in place of a rank's own, "" where it does not launch as many, or has more data.

    More data makes kernels of one name, which all ranks launch equally often, longer; another precision or layout does not.
    """
    usual = {
        name: tuple(float(np.median([one.get((COMPUTE, name), (0, 0))[i] for one in others])) for i in (0, 1))
        for name in {name for one in others for kind, name in one if kind == COMPUTE}
    }
    own = {name: sums for (kind, name), sums in mine.items() if kind == COMPUTE}
    launched, theirs = sum(count for _, count in own.values()), sum(count for _, count in usual.values())
    common = [
        name
        for name in own.keys() & usual.keys()
        if abs(own[name][1] - usual[name][1]) <= _ALIKE * usual[name][1]
    ]
    length, their_length = sum(own[name][0] for name in common), sum(usual[name][0] for name in common)
    if abs(launched - theirs) > _ALIKE * theirs or length > _LONGER * their_length:
        return ""
    less = {name: time - own.get(name, (0, 0))[0] for name, (time, _) in usual.items() if name not in own}
    return kernel_names.short(max(less, key=lambda name: less[name])) if less else ""


def _slowdown(job: Job, rank: int) -> tuple[float, float, tuple[str, ...]]:
    """How much slower its kernels are than the other ranks', as a factor; the share of their time affected; and examples.

    Only kernels that it ran as often as the others count: a name that it launches more often may stand for other shapes.
    """
    tables = [one.kernels.to_pylist() for one in job.summaries]
    own = {row["name"]: row for row in tables[rank]}
    usual: dict[str, list[dict[str, Any]]] = {}
    for place, rows in enumerate(tables):
        for row in rows if place != rank else ():
            usual.setdefault(row["name"], []).append(row)
    pairs, every = [], 0.0
    for name, rows in usual.items():
        count, median, total = (
            float(np.median([row[c] for row in rows])) for c in ("count", "median", "total")
        )
        every += total
        if name in own and abs(own[name]["count"] - count) <= 0.02 * count:
            pairs.append((own[name]["median"] / max(median, 1.0), total, name))
    if sum(total for _, total, _ in pairs) < 0.5 * every or not pairs:
        return 1.0, 0.0, ()
    ratio, weight = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs], float)
    order = np.argsort(ratio)
    factor = float(ratio[order][np.searchsorted(np.cumsum(weight[order]), weight.sum() / 2)])
    near = (ratio > 1 + 0.5 * (factor - 1)) & (ratio < 1 + 2 * max(factor - 1, 0.01))
    lines = tuple(f"{kernel_names.short(name)}: {own[name]['median'] / 1e3:,.1f} µs, {ratio:.2f} times the others'"
                  for ratio, _, name in sorted(pairs, key=lambda p: -p[1])[:2])  # fmt: skip
    return factor, float(weight[near].sum() / max(weight.sum(), 1.0)), lines


def _clocks(job: Job, rank: int) -> tuple[float | None, float | None]:
    clocks = [one.about.sm_clock for one in job.summaries]
    others = [clock for place, clock in enumerate(clocks) if place != rank and clock is not None]
    return clocks[rank], float(np.median(others)) if others else None

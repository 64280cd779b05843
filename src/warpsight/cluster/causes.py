"""Why a rank comes last: the part of its account that exceeds the other ranks', in the steps that it delays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.classes import CLASSES, COMMUNICATION, COMPUTE, HOST, UNKNOWN
from warpsight.analysis.account.naming import UNNAMED
from warpsight.analysis.base import words
from warpsight.cluster.job import Job
from warpsight.cluster.steps import Steps

Column = NDArray[Any]
#: Kernels run at one speed of a rank where this share of their time is that much slower by about the same factor.
_UNIFORM, _SLOWER = 0.7, 1.04
#: A device's clock is low where it is below the other ranks' by this factor.
_LOW_CLOCK = 0.97


@dataclass(frozen=True)
class Cause:
    """The activity on which a rank spends more time than the others.

    Attributes:
        kind: Class of the account, throttled or imbalance.
        name: Kernel, function or call.
        text: The cause as the rest of a sentence about the rank.
        excess: Time that it has more than the usual other rank in those steps, ns.
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
    name = max((key for key in excess if key[0] == kind), key=lambda key: excess[key])[1]
    more = max(int(excess[kind, name]), 1)
    count = int(chosen.sum())
    if kind == COMPUTE:
        return _compute(job, rank, name, int(by_class[kind]), mine, others, count)
    return _idle(kind, name, more, int(by_class[kind]), count)


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
    if count > 1.02 * usual_count:
        text = f"it computes {per_step} more: {count:,} times {_short(name)}, the others {usual_count:,.0f} times"
        advice = "It has more work: balance sequence lengths, experts or shards between the ranks."
        return Cause("imbalance", name, text, in_class, lines, advice)
    ratio = mine[key][0] / max(float(np.median([one.get(key, (0, 0))[0] for one in others])), 1.0)
    text = f"{_short(name)} takes {ratio:.2f} times as long as on the other ranks ({per_step} more)"
    return Cause(
        "compute",
        name,
        text,
        in_class,
        lines,
        "Compare its shapes with the other ranks': the kernel has more to do.",
    )


def _short(name: str) -> str:
    """A kernel's name without arguments, template arguments and the path to it."""
    return name.removeprefix("void ").split("<")[0].split("(")[0] or name


def _slowdown(job: Job, rank: int) -> tuple[float, float, tuple[str, ...]]:
    """By which factor its kernels are slower than the other ranks', which share of their time is about that, and examples.

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
    lines = tuple(f"{_short(name)}: {own[name]['median'] / 1e3:,.1f} µs, {ratio:.2f} times the others'"
                  for ratio, _, name in sorted(pairs, key=lambda p: -p[1])[:2])  # fmt: skip
    return factor, float(weight[near].sum() / max(weight.sum(), 1.0)), lines


def _clocks(job: Job, rank: int) -> tuple[float | None, float | None]:
    clocks = [one.about.sm_clock for one in job.summaries]
    others = [clock for place, clock in enumerate(clocks) if place != rank and clock is not None]
    return clocks[rank], float(np.median(others)) if others else None

"""The verdict on a job: what breaks or delays it, which rank, why, since when, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.account.classes import COMMUNICATION, COMPUTE, COPY
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result, in_order
from warpsight.analysis.base.tables import table
from warpsight.cluster.bandwidth import bandwidth
from warpsight.cluster.blame import blame
from warpsight.cluster.causes import cause
from warpsight.cluster.clocks.rank_clocks import ASSUMED
from warpsight.cluster.exchange import slow_links, traffic
from warpsight.cluster.hang import hang
from warpsight.cluster.job import Job
from warpsight.cluster.load import MovingLoad, busy, moving_load
from warpsight.cluster.matching import Mismatch
from warpsight.cluster.steps import Steps, steps
from warpsight.cluster.unmet import unmet
from warpsight.cluster.waiting import GroupOperations, Waiting

Column = NDArray[Any]
#: A rank is named if the others wait for it for this share of the time, and then ranks above expected waiting; exposed
#: communication and bubbles are reported from these shares on.
_WORTH, _EXPOSED, _BUBBLE = 0.02, 0.15, 0.05
#: Wall clocks kept by NTP agree far better than this (ns).
_OTHER_WINDOW = 2_000_000_000
#: A stage sets the pace if it works this share of the time longer than the others.
_MORE_WORK = 0.02
#: One rank is the straggler if it causes this share of all waiting; otherwise the load is uneven.
_ONE = 0.5
#: Load that moves from rank to rank also counts as a fault from this share of the time on: kernels' jitter is smaller.
_MOVING = 0.05
#: Load belongs to one rank in some steps if it has this share of it.
_LONE = 0.7
_RANKS = """rank:int32 host:string device:string span:int64:ns compute:int64:ns copy:int64:ns transfer:int64:ns
    waited_for_others:int64:ns idle:int64:ns made_others_wait:int64:ns clock:string clock_offset:int64:ns
    clock_bound:float64:ns"""


@dataclass(frozen=True)
class JobVerdict:
    """The verdict on a job's recordings.

    Attributes:
        headline: One sentence: what to look at first.
        summary: One sentence: ranks, time, steps, clocks.
        findings: All findings, the most important first.
        ranks: A row per rank: its time by what it was spent on.
        collectives: A row per group, operation and size.
        length: The judged time, ns: from the first collective of the first step (or the end of the warm-up) to the end of the
            last step, where there are steps.
        steps: How many steps there are.
    """

    headline: str
    summary: str
    findings: tuple[Finding, ...]
    ranks: pa.Table
    collectives: pa.Table
    length: int
    steps: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        result = Result({"ranks": self.ranks, "collectives": self.collectives}, self.findings).to_json()
        return {
            "headline": self.headline,
            "summary": self.summary,
            "length": self.length,
            "steps": self.steps,
            **result,
        }


def judge(job: Job) -> JobVerdict:
    """Judge a job: hang dumps first, then operations that differ between ranks, then stragglers."""
    found: list[Finding] = list(hang(job.dumps)) if job.dumps else []
    waiting = Waiting(job)
    listed = steps(waiting)
    length = max(listed.length, 1) if len(listed) > 3 else job.length if job.summaries else 1
    found += [_mismatch(job, one) for one in job.mismatches if not waiting.groups[one.group].astray]
    found += [_astray(met) for met in waiting.groups if met.astray]
    found += unmet(job)
    found += _gaps(job)
    worked = busy(waiting, listed)
    found += _stragglers(waiting, listed, worked, length)
    found += _pipelines(waiting, listed, worked, length)
    found += slow_links(traffic(waiting), {one.about.rank: one.about.host for one in job.summaries})
    if not any(one.severity == "error" for one in found):  # time after a hang or mismatch is not transfer
        found += _exposed(waiting, length)
    found += _shared(job)
    found += _clock_notes(job)
    ordered = _ordered(found, length)
    return JobVerdict(_headline(job, ordered, length), _summary(job, listed), ordered, _ranks(waiting), bandwidth(waiting),
                      length, len(listed))  # fmt: skip


def _ordered(found: list[Finding], length: int) -> tuple[Finding, ...]:
    """Errors first, in the order found (the first names the cause), then faults of single ranks and links, then the usual order.

    What the job is built to wait for (a pipeline's bubbles, communication that nothing hides) may cost more than a fault, but
    nobody is to blame for it.
    """
    errors = [one for one in found if one.severity == "error"]
    rest = in_order([one for one in found if one.severity != "error"])
    faults = [one for one in rest if (one.saves_ns or 0) >= _WORTH * length and _is_fault(one)]
    return (*errors, *faults, *(one for one in rest if one not in faults))


def _is_fault(one: Finding) -> bool:
    return (
        one.rule in ("cluster/straggler", "cluster/slow-link")
        or "cause" in one.values
        or bool(one.values.get("moving"))
    )


def _headline(job: Job, found: tuple[Finding, ...], length: int) -> str:
    first = next((one for one in found if one.severity == "error" or one.saves_ns), None)
    if first is None:
        if not job.groups:
            return "nothing that several ranks did together was recorded"
        if any(one.rule == "cluster/astray" for one in found):
            return "who waited for whom is not known: the ranks' collectives do not match in time"
        return "no rank holds the others up"
    if first.saves_ns and first.severity != "error":
        return f"{first.text} ({min(first.saves_ns / length, 1):.0%} of the time)"
    return first.text


def _summary(job: Job, listed: Steps) -> str:
    if not job.summaries:
        return f"{len(job.dumps)} dumps of PyTorch's flight recorder, no traces"
    hosts = len({one.about.host for one in job.summaries if one.about.host})
    where = f" on {hosts} host{'s' if hosts > 1 else ''}" if hosts else ""
    count = len(job.summaries)
    text = f"{count} rank{'s' if count > 1 else ''}{where}, {words.duration(job.length)}"
    if len(listed):
        text += f", {len(listed):,} steps ({listed.source})"
    worst = job.clocks.worst
    if len(job.clocks.clocks) > 1:
        text += ", clocks not measured" if worst is None else f", clocks within {words.duration(worst)}"
    return text


def _rank_name(job: Job, place: int) -> str:
    """A rank with its host and device, if known."""
    about = job.summaries[place].about
    several = len({one.about.host for one in job.summaries}) > 1
    where = ", ".join(text for text in (about.host if several else "", about.device.split(" (")[0]) if text)
    return f"rank {about.rank}" + (f" ({where})" if where else "")


def _mismatch(job: Job, one: Mismatch) -> Finding:
    group = job.groups[one.group]
    text = f"mismatched collective: number {one.row + 1:,} of group {group.key!r}: {one.text}"
    ranks = [job.summaries[place].about.rank for place in one.ranks]
    return Finding("error", text, {"group": group.key, "number": one.row, "kind": one.kind, "ranks": ranks}, "cluster/mismatch",
                   None, (), "All ranks of a group must call the same collectives with the same sizes in the same order: look "
                   "for a branch that depends on the rank or on its data.")  # fmt: skip


def _astray(met: GroupOperations) -> Finding:
    """Operations that were matched by their place, and cannot be the same."""
    text = (f"group {met.group.key!r}: {met.astray:,} of {len(met.rows):,} operations are over on one rank before another begins "
            "them: the recordings are incomplete, so operations cannot be matched")  # fmt: skip
    return Finding("loss", text, {"group": met.group.key, "operations": met.astray}, "cluster/astray")


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:12])) + (", …" if len(ranks) > 12 else "")


def _gaps(job: Job) -> list[Finding]:
    """What is missing from the answer."""
    out = []
    for path, reason in job.failed:
        out.append(Finding("loss", f"{path} could not be used: {reason}", {"path": path}, "cluster/unread"))
    if job.missing and job.summaries:
        text = (f"{len(job.missing)} of {job.world_size} ranks have no readable recording ({_listed(job.missing)}): "
                "waiting for them looks like slow transfer")  # fmt: skip
        out.append(Finding("loss", text, {"ranks": job.missing}, "cluster/missing"))
    for path, claimed, rank in job.renumbered:
        text = f"two recordings claim rank {claimed}; {path} is called rank {rank} here"
        out.append(Finding("loss", text, {"rank": rank, "claimed": claimed, "path": path}, "cluster/rank"))
    if len(job.world_sizes) > 1:
        said = "; ".join(
            f"{size} say{'s' if len(ranks) == 1 else ''} {'rank' if len(ranks) == 1 else 'ranks'} {_listed(ranks)}"
            for size, ranks in job.world_sizes.items()
        )
        text = f"the recordings disagree on how many ranks the job has ({said}): some may be of another job"
        out.append(Finding("loss", text, {"sizes": list(job.world_sizes)}, "cluster/world-size"))
    alone = [one.about.rank for one in job.summaries if not len(one.collectives)]
    if alone and len(alone) < len(job.summaries):
        text = (f"{'rank' if len(alone) == 1 else 'ranks'} {_listed(alone)} recorded no collectives: nothing shows whether the "
                "others waited for it")  # fmt: skip
        out.append(Finding("loss", text, {"ranks": alone}, "cluster/alone"))
    for one in job.summaries:
        if one.about.lost:
            text = f"rank {one.about.rank}: {one.about.lost:,} rows are missing ({one.about.damage})"
            out.append(Finding("loss", text, {"rank": one.about.rank}, "cluster/lost"))
    for group in job.groups:
        absent = [i for i in range(len(group.ranks)) if (group.row[:, i] < 0).any()]
        partial = [job.summaries[group.ranks[i]].about.rank for i in absent]
        if partial and len(group):
            count = int((~group.complete).sum())
            text = f"group {group.key!r}: {count:,} of {len(group):,} operations are not in the recordings of all ranks"
            out.append(Finding("note", text, {"group": group.key, "ranks": partial}, "cluster/partial"))
    return out


def _per_step(waiting: Waiting, listed: Steps) -> Column:
    """What each rank (row) cost in each step (column), ns of the mean other rank's time."""
    out = np.zeros((len(waiting.job.summaries), max(len(listed), 1)))
    for met, blamed in zip(waiting.groups, blame(waiting), strict=True):
        own = np.flatnonzero((blamed > 0) & listed.judges(met.entry))
        # Starts decide, not ends: a step's last collective may end a little after the step's end on this clock.
        step = np.minimum(np.searchsorted(listed.end, met.entry[own], "left"), out.shape[1] - 1)
        np.add.at(out, (np.array(met.group.ranks)[met.last[own]], step), blamed[own])
    return out


def _stragglers(waiting: Waiting, listed: Steps, worked: Column, length: int) -> list[Finding]:
    job = waiting.job
    if len(job.summaries) < 2 or not waiting.groups:
        return []
    cost = _per_step(waiting, listed)
    total = cost.sum(1)
    worth = _WORTH * length
    whole = float(total.sum())
    named = [place for place in np.argsort(-total).tolist() if total[place] >= max(worth, 0.1 * whole)][:3]
    moving = moving_load(worked)
    if moving is not None and (moving.cost < _MOVING * length or moving.by_rank.max() >= _LONE * moving.cost):
        moving = None
    if (named and total[named[0]] < _ONE * whole and len(job.summaries) > 2) or (
        moving is not None and not named
    ):
        return [_imbalance(waiting, cost, whole, length, moving)]
    found = [
        _straggler(waiting, listed, cost, place, length)
        for place in named
        if total[place] >= 0.3 * total[named[0]]
    ]
    return found if moving is None else [*found, _imbalance(waiting, cost, whole, length, moving)]


def _straggler(waiting: Waiting, listed: Steps, cost: Column, place: int, length: int) -> Finding:
    job = waiting.job
    own = cost[place]
    chosen, when = _costly_steps(own)
    found = cause(job, listed, place, chosen)
    total = int(own.sum())
    text = f"straggler: {_rank_name(job, place)} makes the others wait {words.duration(total)}"
    text += f", {when}" if when else ""
    text += f": {found.text}" if found is not None else ""
    evidence = list(found.evidence if found else ())
    waited = waiting.caused[:, place].copy()
    waited[place] = 0
    longest = int(np.argmax(waited))
    evidence.insert(
        0, f"rank {job.summaries[longest].about.rank} waited {words.duration(int(waited[longest]))} for it"
    )
    bound = job.clocks.bound(longest, place) or 0.0
    if bound * int(chosen.sum()) > 0.1 * total:
        evidence.insert(1, f"the clocks of the two are known to {words.duration(bound)}")
    about = job.summaries[place].about
    values = {"rank": about.rank, "host": about.host, "device": about.device, "cost": total,
              "first_step": int(np.flatnonzero(chosen)[0]) if chosen.any() else None, "steps": int(chosen.sum()),
              "cause": found.kind if found else None, "name": found.name if found else None,
              "excess": found.excess if found else None}  # fmt: skip
    return Finding("warning", text, values, "cluster/straggler", min(total, length), tuple(evidence),
                   found.advice if found else "Look at this rank's own recording: warpsight analyze.", None,
                   found.name if found else None)  # fmt: skip


def _costly_steps(own: Column) -> tuple[Column, str]:
    """The steps in which a rank costs time, and when that is, in words; "" where it is always."""
    count = len(own)
    if count < 4:
        return own > 0, ""
    heavy = own > max(0.25 * float(own.max()), 0.0)
    share = float(own[heavy].sum() / max(own.sum(), 1.0))
    if heavy.sum() <= 0.3 * count and share >= 0.6:
        listed = np.flatnonzero(heavy)
        shown = ", ".join(str(i + 1) for i in listed[:6].tolist()) + (", …" if len(listed) > 6 else "")
        return heavy, f"in {len(listed):,} of {count:,} steps ({shown})"
    before = np.cumsum(own)
    cuts = np.arange(2, count - 1)
    early, late = before[cuts - 1] / cuts, (before[-1] - before[cuts - 1]) / (count - cuts)
    gain = (late - early) ** 2 * cuts * (count - cuts)
    best = int(cuts[np.argmax(gain)])
    if early[best - 2] < 0.25 * late[best - 2]:
        return np.arange(count) >= best, f"since step {best + 1:,} of {count:,}"
    return own > 0.1 * float(np.median(own[own > 0])) if (own > 0).any() else own > 0, ""


def _imbalance(
    waiting: Waiting, cost: Column, whole: float, length: int, moving: MovingLoad | None
) -> Finding:
    job = waiting.job
    computed = np.array([_time(waiting, place, COMPUTE) for place in range(len(job.summaries))], float)
    most, usual = int(np.argmax(computed)), float(np.median(computed))
    evidence = [
        f"rank {job.summaries[most].about.rank} computes most, {computed[most] / max(usual, 1):.2f} times the median"
    ]
    if moving is None:
        ranks = len(set(cost.argmax(0)[cost.max(0) > 0].tolist()))
        text = (f"load imbalance: ranks wait {words.duration(whole)} for whichever is last, {ranks} different ranks of "
                f"{len(job.summaries)} in turn")  # fmt: skip
    else:
        ranks, whole = int(np.count_nonzero(moving.by_rank)), max(whole, moving.cost)
        text = (f"load imbalance: the busiest rank of a step works {words.duration(moving.cost)} longer overall than the others, "
                f"{ranks} different ranks of {len(job.summaries)} in turn")  # fmt: skip
        evidence.insert(0, f"in the usual step it works {moving.factor:.2f} times as long as they do")
    values = {"cost": int(whole), "ranks": ranks, "moving": moving.cost if moving is not None else 0}
    return Finding("warning", text, values, "cluster/imbalance", min(int(whole), length),
                   tuple(evidence), "Give each rank the same work in each step: bucket by sequence length, balance experts, or "
                   "even out the data loaders.")  # fmt: skip


def _time(waiting: Waiting, place: int, *kinds: int) -> int:
    account = waiting.job.summaries[place].account
    kind, time = account["class"].to_numpy(), account["time"].to_numpy()
    return int(time[np.isin(kind, kinds)].sum())


def _pipelines(waiting: Waiting, listed: Steps, worked: Column, length: int) -> list[Finding]:
    """Time in sends and receives for work that another stage had not finished; its share of the judged time is saved."""
    job = waiting.job
    if len(listed) > 3:
        waited, judged = _paired_per_step(waiting, listed), length * len(job.summaries)
    else:
        waited = waiting.paired_wait[:, None]
        judged = sum(one.about.end - one.about.begin for one in job.summaries)
    share = float(waited.sum()) / max(judged, 1)
    if share < _BUBBLE:
        return []
    each = waited.sum(1)
    worst = int(np.argmax(each))
    text = f"pipeline bubbles: ranks wait {share:.0%} of their time in sends and receives for another stage"
    evidence = [
        f"rank {one.about.rank}: {words.duration(int(each[i]))}" for i, one in enumerate(job.summaries)
    ][:6]
    values: dict[str, Any] = {"share": share, "rank": job.summaries[worst].about.rank}
    advice, name = (
        "Use more micro-batches per step, an interleaved schedule, or stages of equal length.",
        None,
    )
    place = int(np.maximum(worked - np.median(worked, axis=0), 0).sum(1).argmax())
    steps = _pacing(listed, worked, place, each)
    found = cause(job, listed, place, steps[0]) if steps is not None else None
    if steps is None or found is None:
        text += f", {_rank_name(job, worst)} most"
    else:
        when = f", {steps[1]}" if steps[1] else ""
        text += f"; the stage of {_rank_name(job, place)} sets the pace{when}: {found.text}"
        values |= {"rank": job.summaries[place].about.rank, "cause": found.kind, "name": found.name}
        advice, name = found.advice or advice, found.name
    return [
        Finding(
            "warning",
            text,
            values,
            "cluster/bubble",
            int(share * length),
            tuple(evidence),
            advice,
            None,
            name,
        )
    ]


def _paired_per_step(waiting: Waiting, listed: Steps) -> Column:
    """Exposed waiting of each rank (row) in sends and receives in each step (column), ns."""
    out = np.zeros((len(waiting.job.summaries), len(listed)), np.int64)
    for met in waiting.groups:
        own = np.flatnonzero(met.paired & listed.judges(met.entry))
        step = np.minimum(np.searchsorted(listed.end, met.entry[own], "left"), len(listed) - 1)
        for column, rank in enumerate(met.group.ranks):
            np.add.at(out[rank], step, met.exposed[own, column])
    return out


def _pacing(listed: Steps, worked: Column, place: int, waited: Column) -> tuple[Column, str] | None:
    """The steps in which a stage works longer than the others, and when those are, in words.

    None unless it waits less than they do, by half of what it works longer at least and twice of it at most.
    """
    if len(worked) < 2 or not len(listed):
        return None
    others = np.arange(len(worked)) != place
    own = np.maximum(worked[place] - np.median(worked[others], axis=0), 0)
    usual = float(np.median(waited[others]))
    if own.sum() < max(_MORE_WORK * listed.length, 0.5 * (usual - waited[place])):
        return None
    return _costly_steps(own) if usual - waited[place] >= 0.5 * own.sum() else None


def _exposed(waiting: Waiting, length: int) -> list[Finding]:
    """Moving bytes while nothing computes: waiting for late ranks aside; its share of the judged time is saved."""
    job = waiting.job
    spans = sum(one.about.end - one.about.begin for one in job.summaries)
    exposed = sum(_time(waiting, place, COMMUNICATION) for place in range(len(job.summaries)))
    waited = int(waiting.caused.sum() + waiting.paired_wait.sum())
    moving = max(exposed - waited, 0)
    if not spans or moving < _EXPOSED * spans:
        return []
    share, values = f"{moving / spans:.0%} of the ranks' time", {"share": moving / spans, "waiting": waited}
    saves = int(moving / spans * length)
    if job.missing or any(met.astray for met in waiting.groups):
        whom = "a rank without a recording" if job.missing else "each other"
        text = f"exposed communication: {share} moves bytes, or waits for {whom}, while nothing computes"
        return [Finding("warning", text, values, "cluster/exposed", saves, (),
                        "To tell which of the two it is, record all ranks, with all their collectives.")]  # fmt: skip
    text = f"exposed communication: {share} moves bytes while nothing computes"
    return [Finding("warning", text, values, "cluster/exposed", saves, (), "Overlap it with computation (smaller buckets, "
                    "prefetch), send less (gradient accumulation, lower precision), or use faster links.")]  # fmt: skip


def _shared(job: Job) -> list[Finding]:
    """Ranks that take turns on one GPU."""
    users: dict[str, list[int]] = {}
    for one in job.summaries:
        if one.about.gpu:
            users.setdefault(one.about.gpu, []).append(one.about.rank)
    out = []
    for gpu, ranks in users.items():
        if len(ranks) > 1:
            text = (f"ranks {_listed(ranks)} share one GPU: it runs them in turn, so kernels, and collectives that wait, are "
                    "longer than they would be alone, and who holds up whom is not certain")  # fmt: skip
            out.append(Finding("note", text, {"gpu": gpu, "ranks": ranks}, "cluster/shared"))
    return out


def _clock_notes(job: Job) -> list[Finding]:
    out = []
    for clock in job.clocks.clocks if job.summaries else ():
        ranks = ", ".join(str(job.summaries[rank].about.rank) for rank in clock.ranks[:8])
        if clock.bound is None:
            how = "assumed to be the others'" if clock.source == ASSUMED else "taken from its wall clock"
            text = f"the clock of rank {ranks} is {how}, and its error is unknown: who waited for whom is not known"
            out.append(Finding("note", text, {"clock": clock.name}, "cluster/clock"))
        if abs(clock.besides_wall or 0) > _OTHER_WINDOW:
            text = (f"by its wall clock, rank {ranks} is {words.duration(abs(clock.besides_wall or 0))} away from what its "
                    "collectives say: that clock is wrong, or it recorded another part of the job")  # fmt: skip
            out.append(Finding("loss", text, {"clock": clock.name}, "cluster/window"))
        left_out = sum(one.left_out for one in clock.chain)
        if left_out:
            text = f"{left_out} collectives contradict the clock of rank {ranks} and were left out of it"
            out.append(Finding("note", text, {"clock": clock.name}, "cluster/clock"))
    return out


def _ranks(waiting: Waiting) -> pa.Table:
    job = waiting.job
    rows = []
    for place, one in enumerate(job.summaries):
        about, clock = one.about, job.clocks.clocks[job.clocks.of[place]]
        span = about.end - about.begin
        exposed = _time(waiting, place, COMMUNICATION)
        waited = int(waiting.caused[place].sum() + waiting.paired_wait[place])
        compute, copy = _time(waiting, place, COMPUTE), _time(waiting, place, COPY)
        made = waiting.caused[:, place].sum() - waiting.caused[place, place]
        begin = np.array([about.begin])
        rows.append({
            "rank": about.rank, "host": about.host or None, "device": about.device or None, "span": span, "compute": compute,
            "copy": copy, "transfer": max(exposed - waited, 0), "waited_for_others": waited,
            "idle": max(span - compute - copy - exposed, 0), "made_others_wait": int(made), "clock": clock.source,
            "clock_offset": int((clock.corrected(begin) - begin)[0]), "clock_bound": clock.bound,
        })  # fmt: skip
    return table(_RANKS, rows)

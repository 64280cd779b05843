"""Advice on barriers and on the launch: balance, occupancy, blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.analysis.occupancy.limits import blocks_per_multiprocessor, limits
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.block_lengths import replayed
from warpsight.sass.why.advice.finding import Advice, KernelFacts, listed

_WARP = 32
_MANY_WAVES = 8
_BALANCE = (
    "Give all multiprocessors work until the end: more blocks, of equal length or the longest first, "
    "or blocks that fetch work."
)
#: Into how many parts the estimate splits a block; how near a measured share of busy multiprocessors is to that of equal blocks.
_PARTS, _EQUAL = 4, 0.1
#: Above this share of cycles with an issue, more warps do not help; below this share of busy multiprocessors, idle ones matter.
_ISSUING, _BUSY = 0.6, 0.85


def balance(evidence: KernelFacts) -> list[Advice]:
    """Waits at barriers of the block."""
    parts = evidence.matching(
        lambda part: part.reason == "barrier" or evidence.instruction(part.cause).operation == "BAR"
    )
    if not parts:
        return []
    barriers = {part.cause for part in parts}
    uneven = max((_uneven(evidence, index) for index in barriers), default=0.0)
    share = sum(part.samples for part in parts) / evidence.total
    if uneven > 0.1 * evidence.total:
        why = (
            f"{share:.0%} of the samples wait at barriers, and {uneven / evidence.total:.0%} are in front of one in code that "
            "not all warps run."
        )
        title = "Balance the warps: let all of them take part in the work in front of the barrier."
        return listed(evidence.ends("balance", title, why, parts))
    why = f"{share:.0%} of the samples wait at barriers for the block's slowest warp."
    title = "Split the barrier (arrive early, wait late), use smaller blocks, or barriers of fewer warps."
    return listed(evidence.ends("split-barrier", title, why, parts))


def _uneven(evidence: KernelFacts, barrier: int) -> float:
    """Samples in blocks before a barrier that some warps bypass, without the barrier's own waits."""
    graph = evidence.code.graph
    home = graph.block_of[barrier]
    seen, waiting = {home}, list(graph.blocks[home].predecessors)
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        block = graph.blocks[here]
        if any(evidence.instruction(at).operation == "BAR" for at in range(block.first, block.last + 1)):
            continue
        waiting += block.predecessors
    around = {number for number in seen if not graph.dominates(number, home)}
    return float(
        sum(row.samples for row in evidence.samples.rows
            if graph.block_of[row.index] in around and row.reason != "barrier")
    )  # fmt: skip


def occupancy(evidence: KernelFacts) -> list[Advice]:
    """More warps per multiprocessor, if warps mostly wait: what limits them, or that the launch has too few."""
    launch = evidence.launch
    limit = limits(launch.capability)
    if limit is None or not launch.threads or not launch.blocks or evidence.issue_bound > _ISSUING:
        return []
    most, by = blocks_per_multiprocessor(limit, launch.threads, launch.registers, launch.shared)
    given = -(-launch.blocks // max(launch.multiprocessors, 1))
    warps, room = -(-launch.threads // _WARP), limit.threads // _WARP
    now = min(most, given) * warps
    then = min(max(2 * now, estimates.SCHEDULERS), room)
    if not now or then <= now:
        return []
    issue = evidence.samples.issued / evidence.total
    alone = evidence.samples.issued / max(evidence.total - evidence.passed_over, 1)
    speedup = min(estimates.with_warps(alone, now, then), evidence.traffic.room)
    if given <= most:
        title = f"Split the work among more warps: {then} instead of {now} on a multiprocessor."
        held = f"the grid has {launch.blocks:,} blocks of {launch.threads} threads"
        if most <= given:
            held += f", and no more fit (limited by {_limit_text(by)})"
    else:
        title = f"Make room for {then} warps on a multiprocessor: fewer {_limit_text(by)}."
        held = (
            f"limited by {_limit_text(by)} ({launch.registers} registers a thread, "
            f"{launch.shared:,} bytes of shared memory a block)"
        )
    why = f"A multiprocessor runs {now} of {room} warps at a time: {held}. A warp issues in {issue:.0%} of its samples."
    return [Advice("occupancy", title, why, float(evidence.samples.stalled), speedup)]


def _limit_text(by: str) -> str:
    return by.replace("shared", "shared memory").replace("+", " and ")


def idle_multiprocessors(evidence: KernelFacts) -> list[Advice]:
    """Multiprocessors without warps while the kernel runs, measured: samples come only from those with warps."""
    busy = evidence.launch.busy
    draining = sum(row.samples for row in evidence.samples.rows if row.reason == "drain")
    if (
        busy is None
        or not 0 < busy < _BUSY
        or draining > evidence.total / 2
        or evidence.lengths.work is not None
    ):
        return []  # where warps mostly drain, memory goes on without them
    why = f"On average {busy:.0%} of the {evidence.launch.multiprocessors} multiprocessors had warps while the kernel ran"
    if evidence.launch.blocks:
        why += f"; the grid has {evidence.launch.blocks:,} blocks"
    waves = _waves(evidence, 1)
    if waves is not None and abs(waves.busy - busy) < _EQUAL:  # so blocks are of equal length
        return listed(_smaller_blocks(evidence, why + "."))
    # Where all warps are ready, samples get lost. Blocks differ at most by all of the code that not all of them must run.
    idle = min(1 - busy, evidence.lengths.unknown)
    return [Advice("balance-blocks", _BALANCE, why + ".", 0.0, 1 / (1 - idle))]


def unequal_blocks(evidence: KernelFacts) -> list[Advice]:
    """Blocks whose number decides how much they do: the last ones run alone."""
    launch, work = evidence.launch, evidence.lengths.work
    limit = limits(launch.capability)
    if work is None or limit is None or not launch.multiprocessors:
        return []
    per, _ = blocks_per_multiprocessor(limit, launch.threads, launch.registers, launch.shared)
    if not per:
        return []
    alone = evidence.samples.issued / max(evidence.total - evidence.passed_over, 1)
    machine = (launch.multiprocessors, per, alone, -(-launch.threads // _WARP))
    now = replayed(work, *machine)
    then = min(replayed(np.ones(len(work)), *machine), replayed(np.sort(work)[::-1], *machine))
    why = (
        f"The block's number decides how much it does: {work.min():.2f} to {work.max():.2f} of the average. A replay of the "
        f"{len(work):,} blocks takes {now / then:.2f} times as long as equal ones, or the longest first."
    )
    return [Advice("balance-blocks", _BALANCE, why, 0.0, max(now / then, 1.0))]


def blocks(evidence: KernelFacts) -> list[Advice]:
    """Grids whose size leaves multiprocessors idle: too few blocks, or a partial last wave."""
    launch = evidence.launch
    waves = _waves(evidence, 1)
    if waves is None or launch.busy is not None:
        return []
    if launch.blocks < launch.multiprocessors:
        why = f"{launch.blocks} blocks run on {launch.multiprocessors} multiprocessors; the others are idle."
        speedup = launch.multiprocessors / launch.blocks
        return [Advice("blocks", "Launch more, smaller blocks.", why, 0.0, speedup)]
    if waves.number <= 1 or waves.number > _MANY_WAVES or not waves.number % 1:
        return []
    why = f"The grid's {launch.blocks:,} blocks make {waves.number:.2f} waves of {waves.at_once:,}: the last leaves places empty."
    return listed(_smaller_blocks(evidence, why))


def _smaller_blocks(evidence: KernelFacts, why: str) -> Advice | None:
    """Advice against a partial last wave; the estimate is for blocks with a quarter of the threads."""
    now = _waves(evidence, 1)
    parts = min(_PARTS, max(evidence.launch.threads // _WARP, 1))
    then = _waves(evidence, parts)
    if now is None or then is None:
        return None
    title = (
        "Use smaller blocks, a grid that fills its last wave, or blocks that fetch work (persistent kernel)."
    )
    return Advice("tail", title, why, 0.0, max(now.time / then.time, 1.0))


@dataclass(frozen=True)
class _Waves:
    """How a grid of equal blocks runs.

    Attributes:
        number: of waves; at_once: blocks that run at a time.
        time: in any unit; busy: the share of it in which a multiprocessor has warps, on average.
    """

    number: float
    at_once: int
    time: float
    busy: float


def _waves(evidence: KernelFacts, parts: int) -> _Waves | None:
    """The waves of the kernel's grid if each block were split; in the last wave, fewer warps per multiprocessor run faster."""
    launch = evidence.launch
    limit = limits(launch.capability)
    if limit is None or not (launch.threads and launch.multiprocessors and launch.blocks):
        return None
    threads, grid = launch.threads // parts, launch.blocks * parts
    per, _ = blocks_per_multiprocessor(limit, threads, launch.registers, launch.shared // parts)
    if not per:
        return None
    alone = evidence.samples.issued / max(evidence.total - evidence.passed_over, 1)
    warps = -(-threads // _WARP)
    at_once = per * launch.multiprocessors
    whole, rest = divmod(grid, at_once)
    full = per * warps / estimates.throughput(alone, per * warps)
    most = -(-rest // launch.multiprocessors)
    last = most * warps / estimates.throughput(alone, most * warps) if rest else 0.0
    time = whole * full + last
    having = min(rest / launch.multiprocessors, 1.0)
    return _Waves(grid / at_once, at_once, time, (whole * full + having * last) / time)

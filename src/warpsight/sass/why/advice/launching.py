"""Advice on barriers and on how the kernel is launched: balance, occupancy, blocks."""

from __future__ import annotations

from warpsight.analysis.occupancy.limits import blocks_per_multiprocessor, limits
from warpsight.sass.why.advice import estimates
from warpsight.sass.why.advice.finding import Advice, Evidence

_WARP = 32
_MANY_WAVES = 8


def balance(evidence: Evidence) -> list[Advice]:
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
        why = f"{share:.0%} of the samples wait at barriers, and {uneven / evidence.total:.0%} are in front of one in code that not all warps run."
        title = "Balance the warps: let all of them take part in the work in front of the barrier."
        return _one(evidence.ends("balance", title, why, parts))
    why = f"{share:.0%} of the samples wait at barriers for the block's slowest warp."
    title = "Split the barrier (arrive early, wait late), use smaller blocks, or barriers of fewer warps."
    return _one(evidence.ends("split-barrier", title, why, parts))


def _uneven(evidence: Evidence, barrier: int) -> float:
    """Samples in blocks that lead to a barrier but that some warps go around, without the barrier's own waits."""
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


def occupancy(evidence: Evidence) -> list[Advice]:
    """More warps on a multiprocessor: what registers or shared memory keep out."""
    launch = evidence.launch
    limit = limits(launch.capability)
    if limit is None or not launch.threads:
        return []
    now, by = blocks_per_multiprocessor(limit, launch.threads, launch.registers, launch.shared)
    free, _ = blocks_per_multiprocessor(limit, launch.threads, 0, 0)
    warps = -(-launch.threads // _WARP)
    if not now or free <= now or launch.blocks <= now * max(launch.multiprocessors, 1):
        return []
    then = min(now * 2, free)
    issue = evidence.samples.issued / evidence.total if evidence.total else 0.0
    speedup = estimates.with_warps(issue, now * warps, then * warps)
    by = "registers" if "registers" in by else "shared memory"
    amount = f"{launch.registers} registers a thread" if by == "registers" else f"{launch.shared:,} bytes of shared memory a block"
    why = f"{now * warps} of {limit.threads // _WARP} warps fit on a multiprocessor, limited by {amount}; a warp issues in {issue:.0%} of its samples."
    return [
        Advice("occupancy", f"Use fewer {by} a {'thread' if by == 'registers' else 'block'}, so that {then * warps} warps fit.",
               why, float(evidence.samples.stalled), speedup)
    ]  # fmt: skip


def blocks(evidence: Evidence) -> list[Advice]:
    """Grids that leave multiprocessors idle: too few blocks, or a last wave that is not full."""
    launch = evidence.launch
    limit = limits(launch.capability)
    if limit is None or not launch.threads or not launch.multiprocessors or not launch.blocks:
        return []
    per, _ = blocks_per_multiprocessor(limit, launch.threads, launch.registers, launch.shared)
    if not per:
        return []
    if launch.blocks < launch.multiprocessors:
        why = f"{launch.blocks} blocks run on {launch.multiprocessors} multiprocessors; the others are idle."
        speedup = launch.multiprocessors / launch.blocks
        return [Advice("blocks", "Launch more, smaller blocks.", why, 0.0, speedup)]
    waves = launch.blocks / (per * launch.multiprocessors)
    whole = -(-launch.blocks // (per * launch.multiprocessors))
    if waves <= 1 or whole > _MANY_WAVES or whole / waves < 1.02:
        return []
    why = f"The grid's {launch.blocks:,} blocks make {waves:.2f} waves of {per * launch.multiprocessors:,}: the last leaves places empty."
    title = "Choose a grid that fills its last wave, or let blocks fetch work (persistent kernel)."
    return [Advice("tail", title, why, 0.0, whole / waves)]


def _one(advice: Advice | None) -> list[Advice]:
    return [advice] if advice else []

"""Advice on exposed latency: loops to unroll, loads to issue earlier, pipelines to deepen."""

from __future__ import annotations

from warpsight.sass.why.advice.finding import Advice, KernelFacts
from warpsight.sass.why.advice.traffic import samples_in
from warpsight.sass.why.blame import Blame

_MEMORY = ("global memory", "generic memory", "shared memory", "texture", "constant memory", "special function",
           "double precision", "fixed latency", "exchange between lanes", "surface")  # fmt: skip
_LARGEST_TO_UNROLL = 400
_STEPS = 200
#: Iterations in flight that the estimate for unrolling is for.
_AT_ONCE = 2


def unroll(evidence: KernelFacts) -> list[Advice]:
    """Loops whose iterations wait for their own loads, although the next iteration's are independent."""
    found = []
    for number, parts in _by_loop(evidence).items():
        loop = evidence.code.graph.loops[number]
        size = sum(len(evidence.code.graph.blocks[block]) for block in loop.blocks)
        chained = {part.cause for part in parts if carried(evidence, part.cause, number)}
        free = [part for part in parts if part.cause not in chained]
        if not free or size > _LARGEST_TO_UNROLL:
            continue
        stalls = samples_in(free)
        speedup = evidence.speedup(stalls * (1 - 1 / _AT_ONCE))
        why = (
            f"{_percent(stalls, evidence)} of the samples wait in this loop of {size} instructions for results of the same "
            "iteration; "
            "its loads do not depend on the iteration before."
        )
        title = "Unroll the loop, or load the next iteration's data ahead."
        if len(loop.blocks) > 1:
            title = "Load the next iteration's data ahead, by hand."
            why += " The branches in the loop keep the compiler from moving loads up when it unrolls."
        advice = evidence.advice("unroll", title, why, free, speedup)
        found.append(advice)
    return [one for one in found if one is not None]


def chase(evidence: KernelFacts) -> list[Advice]:
    """Loads whose address is loaded by the previous iteration: only another data structure helps."""
    parts = [
        part
        for number, of_loop in _by_loop(evidence).items()
        for part in of_loop
        if evidence.instruction(part.cause).kind.load and carried(evidence, part.cause, number)
    ]
    why = (
        "Each of these loads needs the result of the one before: unrolling and more registers do not help. "
        "The estimate is for a structure that lets two of them be in flight."
    )
    loads = evidence.advice(
        "chase", "Break the chain of dependent loads (indices instead of pointers, several chains at once).",
        why, parts, evidence.speedup(samples_in(parts) / 2),
    )  # fmt: skip
    sums = [
        part
        for number, of_loop in _by_loop(evidence).items()
        for part in of_loop
        if not evidence.instruction(part.cause).kind.load and carried(evidence, part.cause, number)
    ]
    why = (
        "Each of these operations needs the result of the one before. The estimate is for two chains at once."
    )
    chain = evidence.ends(
        "chain", "Break the chain of dependent operations: several accumulators.", why, sums, 0.5
    )
    return [one for one in (loads, chain) if one is not None]


def reorder(evidence: KernelFacts) -> list[Advice]:
    """Results used right after the instruction that produces them, outside of loops."""
    parts = evidence.matching(
        lambda part: (
            part.cause != part.stalled
            and part.detail in _MEMORY
            and evidence.code.graph.innermost_common_loop(part.cause, part.stalled) is None
        )
    )
    stalls = samples_in(parts)
    outside = [block.number for block in evidence.code.graph.blocks
               if evidence.code.graph.loop_of[block.number] is None]  # fmt: skip
    speedup = evidence.speedup(min(stalls, evidence.issued_in(outside)))
    why = (
        f"{_percent(stalls, evidence)} of the samples wait for results outside of loops; independent work could be moved "
        "in between, as far as there is any."
    )
    advice = evidence.advice(
        "reorder", "Issue loads earlier, and use their results later.", why, parts, speedup
    )
    return [advice] if advice else []


def pipeline(evidence: KernelFacts) -> list[Advice]:
    """Waits for asynchronous copies, mbarriers and matrix products of the warpgroup."""
    copies = evidence.matching(lambda part: part.detail in ("mbarrier", "asynchronous copy"))
    products = evidence.matching(lambda part: part.detail == "matrix product of the warpgroup")
    work = evidence.samples.issued
    found = []
    if copies:
        fillers = _fillers(evidence)
        stalls = samples_in(copies)
        why = (
            f"{_percent(stalls, evidence)} of the samples wait for data on its way to shared memory"
            + (f" (mbarriers completed by {fillers})." if fillers else ".")
        )  # fmt: skip
        title = "Add stages to the copy pipeline, or issue its copies earlier."
        found.append(evidence.advice("pipeline", title, why, copies, evidence.speedup(min(stalls, work))))
    if products:
        stalls = samples_in(products)
        why = f"{_percent(stalls, evidence)} of the samples wait for matrix products of the warpgroup to finish."
        title = "Keep one group of matrix products in flight (wait for all but the last), or give another warpgroup work."
        found.append(evidence.advice("overlap", title, why, products, evidence.speedup(min(stalls, work))))
    return [one for one in found if one is not None]


def carried(evidence: KernelFacts, cause: int, loop: int) -> bool:
    """Whether an instruction's operands depend, within a loop, on its own result from an earlier iteration."""
    graph, seen, waiting = evidence.code.graph, {cause}, [cause]
    inside = graph.loops[loop].blocks
    steps = 0
    while waiting and steps < _STEPS:
        steps += 1
        for one in evidence.dependencies.producers(waiting.pop()):
            if one.index == cause:
                return True
            if one.index not in seen and graph.block_of[one.index] in inside:
                seen.add(one.index)
                waiting.append(one.index)
    return False


def _by_loop(evidence: KernelFacts) -> dict[int, list[Blame]]:
    """Stalls whose cause is in the same loop, grouped by the innermost loop around both."""
    found: dict[int, list[Blame]] = {}
    for part in evidence.blamed.blames:
        if part.cause == part.stalled or part.detail not in _MEMORY:
            continue
        loop = evidence.code.graph.innermost_common_loop(part.cause, part.stalled)
        if loop is not None:
            found.setdefault(loop, []).append(part)
    return found


def _fillers(evidence: KernelFacts) -> str:
    """The operations that complete the kernel's mbarriers, in words."""
    names = {one.operation for one in evidence.code.instructions}
    arrives = any(
        one.operation == "SYNCS" and "ARRIVE" in one.access.modifiers for one in evidence.code.instructions
    )
    kinds = [("TMA loads", {"UTMALDG"}), ("bulk copies", {"UBLKCP"}), ("tensor-core commits", {"UTCBAR"})]
    found = [text for text, operations in kinds if operations & names]
    return " and ".join([*found, *(["arrivals of other warps"] if arrives else [])])


def _percent(samples: float, evidence: KernelFacts) -> str:
    return f"{samples / evidence.total:.0%}" if evidence.total else "0%"

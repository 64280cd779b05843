"""How long the blocks of a grid take beside each other, and the time that the grid takes with them.

What the code says about each block's iterations and branches, weighted with the samples there, gives its length. A replay hands
the blocks to multiprocessors in the order of their numbers, as the hardware does; blocks of one multiprocessor share its issue
slots.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpsight.sass.why.advice import estimates
from warpsight.sass.why.block_values import BlockValues

if TYPE_CHECKING:
    from warpsight.sass.why.advice.finding import KernelFacts

Work = npt.NDArray[np.float64]
_MOST = 1 << 15
#: What stands for arguments: large, so that bounds cut off few blocks. Only what does not depend on them is known.
_LARGE, _LARGER, _SAME = 1 << 20, 1 << 26, 0.02
#: Ends this near each other are one.
_AT_ONCE = 1 + 1e-9
_NUMBERED = ("SR_CTAID.Y", "SR_CTAID.Z")


@dataclass(frozen=True)
class BlockLengths:
    """The lengths of a grid's blocks.

    Attributes:
        work: of each block, 1 on average; None if they do not differ, or the code does not say how.
        unknown: share of issues in code that some blocks may run more often than others, as data or an argument decides.
    """

    work: Work | None
    unknown: float


def block_lengths(evidence: KernelFacts) -> BlockLengths:
    """The lengths of a kernel's blocks."""
    launch, graph = evidence.launch, evidence.code.graph
    numbered = any(name in one.text for one in evidence.code.instructions for name in _NUMBERED)
    if not 1 < launch.blocks <= _MOST or numbered or not evidence.samples.issued:
        return BlockLengths(None, 1.0)
    values = [
        BlockValues(evidence.dependencies, launch.blocks, launch.threads, unknown)
        for unknown in (_LARGE, _LARGER)
    ]
    factors = [*_iterations(evidence, values), *_branches(evidence, values[1])]
    work, unknown = np.zeros(launch.blocks), 0.0
    for block in graph.blocks:
        issued = evidence.issued_in([block.number]) / evidence.samples.issued
        if not issued:
            continue
        own = [factor for inside, factor in factors if block.number in inside]
        unknown += issued if any(factor is None for factor in own) else 0.0
        work += issued * np.prod([factor for factor in own if factor is not None], axis=0)
    return BlockLengths(work / work.mean() if np.ptp(work) > _SAME * work.mean() else None, unknown)


def _iterations(evidence: KernelFacts, values: list[BlockValues]) -> list[tuple[frozenset[int], Work | None]]:
    """For each loop its blocks of code, and how often each block of the grid iterates, 1 on average; None if unknown."""
    graph = evidence.code.graph
    found: list[tuple[frozenset[int], Work | None]] = []
    for loop in graph.loops:
        latches = [one for one in loop.blocks if loop.head in graph.blocks[one].successors]
        exits = [one for one in loop.blocks if not set(graph.blocks[one].successors) <= loop.blocks]
        tests = [one for one in latches if one in exits] or exits
        counts = [_mean_one(value.left(graph.blocks[test].last)) for test in tests for value in values]
        known = [count for count in counts if count is not None]
        agree = len(known) == len(counts) and all(np.allclose(known[0], one, atol=_SAME) for one in known[1:])
        found.append((loop.blocks, known[0] if known and agree else None))
    return found


def _branches(evidence: KernelFacts, values: BlockValues) -> list[tuple[frozenset[int], Work | None]]:
    """For each side of a branch outside of loop ends its code, and how often each block of the grid runs it; None if unknown."""
    graph = evidence.code.graph
    found: list[tuple[frozenset[int], Work | None]] = []
    for block in graph.blocks:
        last = evidence.instruction(block.last)
        if len(block.successors) != 2 or not last.access.guard:
            continue
        jumps = values.jumps(block.last)
        for successor in block.successors:
            if graph.blocks[successor].predecessors != (block.number,) or _leaves(
                evidence, block.number, successor
            ):
                continue
            inside = frozenset(one.number for one in graph.blocks if graph.dominates(successor, one.number))
            taken = None if jumps is None else jumps ^ (graph.blocks[successor].first == block.last + 1)
            found.append((inside, None if taken is None else _mean_one(taken.astype(np.int64))))
    return found


def _leaves(evidence: KernelFacts, block: int, successor: int) -> bool:
    """Whether a branch ends a loop, or goes on in it: what is behind a loop runs once."""
    graph = evidence.code.graph
    loop = graph.loop_of[block]
    return loop is not None and any(
        one not in graph.loops[loop].blocks for one in graph.blocks[block].successors
    )


def _mean_one(values: npt.NDArray[np.int64] | None) -> Work | None:
    if values is None:
        return None
    mean = float(values.mean())
    return values / mean if mean else np.ones(len(values))


def replayed(work: Work, multiprocessors: int, places: int, alone: float, warps: int) -> float:
    """The time for blocks of this much work.

    Args:
        work: of each block, in the order of their numbers.
        multiprocessors: how many there are.
        places: blocks that fit on a multiprocessor.
        alone: share of its samples in which a single warp would issue on its own.
        warps: warps of a block.
    """
    rates = [estimates.throughput(alone, count * warps) / count for count in range(1, places + 1)]
    done, since = [0.0] * multiprocessors, [0.0] * multiprocessors
    running: list[list[float]] = [[] for _ in range(multiprocessors)]
    waiting = iter(work)
    for _, at, one in zip(work, list(range(multiprocessors)) * places, waiting, strict=False):
        heapq.heappush(running[at], float(one))

    def next_end(at: int) -> tuple[float, int]:
        return since[at] + (running[at][0] - done[at]) / rates[len(running[at]) - 1], at

    ends = [next_end(at) for at in range(multiprocessors) if running[at]]
    heapq.heapify(ends)
    now = 0.0
    while ends:
        now, _ = ends[0]
        ended = []
        while ends and ends[0][0] <= now * _AT_ONCE:
            ended.append(heapq.heappop(ends)[1])
        for at in ended:
            done[at], since[at] = running[at][0], now
            while running[at] and running[at][0] <= done[at] * _AT_ONCE:
                heapq.heappop(running[at])
        free = [(len(running[at]), at) for at in ended]
        heapq.heapify(free)  # the emptiest multiprocessor gets the next block
        while free and (following := next(waiting, None)) is not None:
            count, at = heapq.heappop(free)
            heapq.heappush(running[at], done[at] + float(following))
            if count + 1 < places:
                heapq.heappush(free, (count + 1, at))
        for at in ended:
            if running[at]:
                heapq.heappush(ends, next_end(at))
    return now

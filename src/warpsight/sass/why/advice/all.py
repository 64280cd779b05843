"""All optimizers, and the advice of those that match."""

from __future__ import annotations

from collections.abc import Callable

from warpsight.sass.why.advice import arithmetic, latency, launching, memory
from warpsight.sass.why.advice.finding import Advice, KernelFacts

_OPTIMIZERS: tuple[Callable[[KernelFacts], list[Advice]], ...] = (
    latency.unroll, latency.chase, latency.reorder, latency.pipeline, memory.spills, memory.coalesce, memory.vectorize,
    memory.bank_conflicts, memory.async_copy, memory.atomics, memory.constants, arithmetic.slow_operations,
    arithmetic.fast_math, arithmetic.integer_division, arithmetic.tensor_cores, arithmetic.fetch, arithmetic.divergence,
    launching.balance, launching.occupancy, launching.idle_multiprocessors, launching.unequal_blocks,
    launching.blocks,
)  # fmt: skip
_LEAST = 1.01


def advice(evidence: KernelFacts) -> list[Advice]:
    """The advice, largest estimated speedup first; speedups below one percent are left out."""
    found = [one for optimizer in _OPTIMIZERS for one in optimizer(evidence)]
    return sorted((one for one in found if one.speedup >= _LEAST), key=lambda one: (-one.speedup, one.name))

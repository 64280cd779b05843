"""How busy the arithmetic pipes are: no change can make a kernel faster than its busiest pipe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from warpsight.sass.why.advice.estimates import SCHEDULERS

if TYPE_CHECKING:
    from warpsight.device_code.decoded import Decoded
    from warpsight.sass.why.advice.finding import KernelFacts

#: Cycles of a scheduler's pipe for the 32 lanes of an instruction: CUDA C++ Programming Guide, throughput of native arithmetic
#: instructions, of compute capability 8.0 to 10.0.
_CYCLES = {"alu": 2.0, "fma": 1.0, "transcendental": 8.0}
_WIDE_FP64 = ("8.0", "9.0", "10.0")
_INTEGER_PRODUCTS, _CONVERSIONS = ("IMAD", "IDP"), ("F2F", "F2I", "I2F", "FRND", "I2I")


def busiest(facts: KernelFacts, left: Mapping[int, float]) -> float:
    """The busy share of the busiest pipe, if only a share `left` of some instructions remains; at present, it is at most 1."""
    if not facts.launch.capability.startswith(("8.", "9.", "10.")):
        return 0.0
    now: dict[str, float] = defaultdict(float)
    then: dict[str, float] = defaultdict(float)
    for one in facts.code.instructions:
        for pipe, cycles in _needed(one, facts.launch.capability):
            taken = cycles * facts.executions(one.index) if cycles else 0.0
            now[pipe] += taken
            then[pipe] += taken * left.get(one.index, 1.0)
    if not now:
        return 0.0
    per_cycle = facts.traffic.rate / SCHEDULERS
    return max(then.values()) * min(per_cycle, 1 / max(*now.values(), 1e-9))


def _needed(one: Decoded, capability: str) -> list[tuple[str, float]]:
    """The pipes and cycles that an instruction occupies."""
    pipe = one.kind.pipe
    if one.operation in _CONVERSIONS:
        return [(pipe, 2.0)]
    if pipe == "fp64":
        return [(pipe, 2.0)] if capability in _WIDE_FP64 else []
    if one.operation in _INTEGER_PRODUCTS:
        return [("integer products", 2.0), (pipe, 1.0)]  # in one half of the pipe
    return [(pipe, _CYCLES[pipe])] if pipe in _CYCLES else []

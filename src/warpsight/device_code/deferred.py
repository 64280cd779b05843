"""Barriers that still hold a warp although its program counter has passed them.

`BAR.SYNC.DEFER_BLOCKING` lets a warp issue the arithmetic that follows. It is held in front of the next instruction of
another kind: a load, a store, a barrier, an exit. Seen on Hopper: warps at `BAR.SYNC 1`, `ISETP`, `BAR.ARV` stood at the last
of these with the result of the comparison in its predicate.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpsight.device_code.flow.control_flow import ControlFlow
from warpsight.device_code.flow.polling import writes_register
from warpsight.device_code.operations import operation

#: Arithmetic on registers, predicates and uniform registers.
_ARITHMETIC = {
    "MOV", "SEL", "FSEL", "FSETP", "ISETP", "IADD3", "LEA", "LOP3", "PRMT", "IMNMX", "SHF", "BMSK", "PLOP3", "FMUL", "FADD",
    "FFMA", "IMAD", "HADD2", "HFMA2", "VIADD", "FMNMX", "UMOV", "USEL", "UISETP", "UIADD3", "ULEA", "ULOP3", "UPRMT", "USHF",
    "UBMSK", "UIMAD", "NOP",
}  # fmt: skip
#: Those with predicates among their results, in bits 81-83 and 84-86.
_WITH_PREDICATES = {"FSETP", "ISETP", "IADD3", "LOP3", "PLOP3", "LEA"}
_FARTHEST = 32
_BAR, _ARRIVE_ONLY, _REGISTERS = 0x11D, 1 << 13, 255


@dataclass(frozen=True)
class Deferred:
    """A barrier behind a warp.

    Attributes:
        index: the instruction, counted in its section.
        registers, predicates: those written since, which may differ from what the barrier read.
    """

    index: int
    registers: frozenset[int]
    predicates: frozenset[int]


def deferred_barrier(flow: ControlFlow, index: int) -> Deferred | None:
    """The barrier before an instruction with only arithmetic between, or None.

    A barrier right before the instruction does not count, nor does one with a branch target in between, because lanes could have
    come from there.
    """
    if not 0 < index < len(flow.words) or _name(flow, index) in _ARITHMETIC:
        return None
    passed: list[int] = []
    for back in range(index - 1, max(index - _FARTHEST, -1), -1):
        if back + 1 in flow.entered:
            return None
        low, high = (int(word) for word in flow.words[back])
        if low & 0x1FF == _BAR and not high & _ARRIVE_ONLY:
            return _deferred(flow, back, passed) if passed else None
        if _name(flow, back) not in _ARITHMETIC:
            return None
        passed.append(back)
    return None


def _deferred(flow: ControlFlow, barrier: int, passed: list[int]) -> Deferred:
    words = flow.words
    registers = frozenset(
        r for r in range(_REGISTERS) if any(writes_register(words, one, r) for one in passed)
    )
    predicates = frozenset(
        int(words[one, 1]) >> shift & 7
        for one in passed
        for shift in (17, 20)
        if _name(flow, one) in _WITH_PREDICATES
    )
    return Deferred(barrier, registers, predicates)


def _name(flow: ControlFlow, index: int) -> str | None:
    return operation(flow.words[index].tobytes())

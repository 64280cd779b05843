"""Loads that are part of an atomic: a compare-and-swap in a loop expects their value.

Compilers and programs build atomics that the GPU lacks from such loops. native/sanitizer/code_facts.cpp has the same rule.
"""

from __future__ import annotations

from warpsight.device_code.flow.control_flow import ControlFlow

_SWAPS = frozenset((0x18B, 0x18D, 0x1A9))
_LOADS = frozenset((0x180, 0x181, 0x184))
#: ST, STG, STS, REDG, BRA, BSSY, NOP, FSETP, ISETP, PLOP3, DSETP, HSETP2, BSYNC, R2UR, S2UR: they set no registers of a thread.
_SET_NOTHING = frozenset(
    (0x185, 0x186, 0x188, 0x18E, 0x1A6, 0x147, 0x145, 0x118, 0x00B, 0x00C, 0x01C, 0x02A, 0x034, 0x141, 0x1C2, 0x1C3)
)  # fmt: skip
_RZ = 255
#: Instructions of a loop around a swap at most.
_LOOP = 64


def expected_loads(flow: ControlFlow) -> dict[int, int]:
    """The compare-and-swap of each such load in a section of code, both by number of the instruction."""
    found: dict[int, int] = {}
    for swap, low in enumerate(flow.words[:, 0].tolist()):
        if low & 0x1FF in _SWAPS and _loops(flow, swap):
            load = _load_before(flow, swap, low >> 32 & 255)
            if load is not None:
                found[load] = swap
    return found


def _loops(flow: ControlFlow, swap: int) -> bool:
    """Whether a branch behind it goes back to it or before it."""
    for behind in range(swap + 1, min(swap + _LOOP, len(flow.words))):
        target = int(flow.targets[behind])
        if max(swap - _LOOP, -1) < target <= swap:
            return True
        if not flow.falls_through[behind]:
            return False
    return False


def _load_before(flow: ControlFlow, swap: int, wanted: int) -> int | None:
    """The load that a register's value comes from, through copies."""
    for before in range(swap - 1, max(swap - _LOOP, -1), -1):
        low, high = (int(half) for half in flow.words[before])
        if wanted == _RZ or not flow.falls_through[before]:
            return None
        operation = low & 0x1FF
        if operation in _SET_NOTHING or operation & 0x180 == 0x080 or low >> 16 & 255 != wanted:
            continue
        if operation in _LOADS:
            return before
        wanted = _copied_from(low, high)
    return None


def _copied_from(low: int, high: int) -> int:
    """The register that an instruction copies, fully or in part; RZ for other instructions."""
    form = low & 0xFFF
    if form == 0x202:  # MOV
        return low >> 32 & 255
    if form in (0x416, 0x816):  # PRMT
        return low >> 24 & 255
    return high & 255 if form == 0x224 and low >> 24 & 0xFFFF == _RZ << 8 | _RZ else _RZ  # IMAD.MOV

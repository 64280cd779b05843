"""The instruction to which a sampled stall belongs, if it is not the one at the sampled program counter.

A sample has the address of the instruction that its warp is to issue next. For most reasons that is the instruction that waits,
such as the use of a loaded register. Two reasons belong to an instruction that the warp has issued already (seen on an H100,
docs/explanation/hot-lines.md): a barrier blocks its warp up to a few instructions after its BAR, and an EXIT that waits for
stores (`drain`) is sampled at the next address. So is an unresolved branch that falls through.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsight.device_code.disassembly import INSTRUCTION_SIZE

#: Maximum instructions between a BAR and where its wait is sampled.
_REACH = 8
_BARRIERS = ("BAR", "WARPSYNC", "UCGABAR_WAIT", "B2R")
_BRANCHES = ("BRA", "BRX", "BSYNC", "CALL", "RET", "JMP", "JMX", "BREAK", "EXIT", "WARPSYNC")


def place_of(reason: str, offset: int, operation_at: Callable[[int], str]) -> int:
    """The offset of the instruction that a stall belongs to.

    Args:
        reason: the stall reason, as in table `pc_sample`.
        offset: the sampled offset.
        operation_at: the operation at an offset, `BAR` for `BAR.SYNC`, or "".
    """
    before = offset - INSTRUCTION_SIZE
    if reason == "drain" and operation_at(before) == "EXIT":
        return before
    if reason == "branch_resolving" and operation_at(before) in _BRANCHES:
        return before
    if reason == "barrier":
        for back in range(_REACH + 1):
            at = offset - back * INSTRUCTION_SIZE
            found = operation_at(at)
            if found in _BARRIERS:
                return at
            if not found or (back and found in _BRANCHES):
                break
    return offset

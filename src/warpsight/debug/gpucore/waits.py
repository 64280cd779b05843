"""What a warp waits for, read from the instruction it stands at.

The hardware's program counter is the next instruction to issue: a warp held by a barrier has passed `BAR.SYNC`, one held by
`WARPSYNC`, `BSYNC` or `UCGABAR_WAIT` has not issued it yet. Debuggers print the line of that counter, which for a block
barrier is the line *behind* the barrier; here the waiting instruction itself is given. Encodings are those of Volta to
Blackwell (128 bits: the operation in bits 0-11, the guard predicate in bits 12-15), as nvdisasm prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpsight.device_code.disassembly import INSTRUCTION_SIZE

_BAR_BOTH, _BAR_REGISTER, _BAR_REGISTER_ID, _BAR_REGISTER_COUNT = 0xB1D, 0x31D, 0x51D, 0x91D
_BAR = {_BAR_BOTH, _BAR_REGISTER, _BAR_REGISTER_ID, _BAR_REGISTER_COUNT}
_ARRIVE_ONLY = 1 << 13  # in the upper half: BAR.ARV goes on
_PHASE_CHECK = 0x5A7  # SYNCS.PHASECHK.…TRYWAIT, what mbarrier.try_wait and test_wait become
_CLUSTER_WAIT = 0xDC7
_WARPSYNC = {0x348, 0x948}
_RECONVERGE = {0x941}
_SLEEP = {0x35D, 0x55D, 0x75D, 0x95D}
_TRAP = {0x95C, 0x35C, 0x55C, 0x75C}


@dataclass(frozen=True)
class Wait:
    """What holds a warp.

    Attributes:
        kind: `barrier`, `mbarrier`, `cluster barrier`, `warp`, `reconvergence` or `sleep`.
        text: the same for people, with what is known: `barrier 1 of 128 threads`.
        address: of the waiting instruction.
    """

    kind: str
    text: str
    address: int


def wait_at(
    pc: int,
    code: Callable[[int], bytes],
    register: Callable[[int], int | None],
    predicate: Callable[[int], bool | None],
) -> Wait | None:
    """What a warp at a program counter waits for; None when it is none of the waits known here.

    Args:
        pc: next instruction to issue.
        code: 16 bytes at an address, nothing where there is no code.
        register: a register's value in a lane of the warp, None when the dump has none.
        predicate: the same for predicates.
    """
    low, _ = _halves(code(pc))
    operation = low & 0xFFF
    if operation == _CLUSTER_WAIT:
        return Wait("cluster barrier", "the cluster's barrier", pc)
    if operation in _WARPSYNC:
        return Wait("warp", "the other lanes of its warp", pc)
    if operation in _RECONVERGE:
        return Wait("reconvergence", "the other lanes of its warp, to go on together", pc)
    if operation == _PHASE_CHECK:
        return Wait("mbarrier", "a phase of an mbarrier", pc)
    before = pc - INSTRUCTION_SIZE
    low, high = _halves(code(before))
    if not _executed(low, predicate):
        return None
    operation = low & 0xFFF
    if operation in _BAR and not high & _ARRIVE_ONLY:
        return Wait("barrier", _barrier(low, register), before)
    if operation == _PHASE_CHECK:
        return Wait("mbarrier", "a phase of an mbarrier", before)
    if operation in _SLEEP:
        return Wait("sleep", "the end of a nanosleep", before)
    return None


def trap_before(pc: int, code: Callable[[int], bytes]) -> bool:
    """Whether the instruction before a program counter is a trap."""
    return _halves(code(pc - INSTRUCTION_SIZE))[0] & 0xFFF in _TRAP


def _halves(code: bytes) -> tuple[int, int]:
    if len(code) < INSTRUCTION_SIZE:
        return 0, 0
    return int.from_bytes(code[:8], "little"), int.from_bytes(code[8:16], "little")


def _executed(low: int, predicate: Callable[[int], bool | None]) -> bool:
    """Whether the guard of an instruction let it through; yes when the predicate is not known."""
    number, negated = low >> 12 & 7, bool(low >> 15 & 1)
    if number == 7:
        return not negated
    value = predicate(number)
    return value is None or value != negated


def _barrier(low: int, register: Callable[[int], int | None]) -> str:
    operation, number, count = low & 0xFFF, low >> 54 & 15, low >> 42 & 0xFFF
    value = register(low >> 32 & 0xFF)
    if operation == _BAR_REGISTER:
        return "a barrier named by a register"
    if operation == _BAR_REGISTER_ID:
        number = -1 if value is None else value & 15
    elif operation == _BAR_REGISTER_COUNT:
        count = 0 if value is None else value & 0xFFF
    name = f"barrier {number}" if number >= 0 else "a barrier named by a register"
    return f"{name} of {count} threads" if count else f"{name} of the block"

"""The wait of a warp, read from its current instruction.

The hardware's program counter is the next instruction to issue: a warp held by a barrier has passed `BAR.SYNC`, one held by
`WARPSYNC`, `BSYNC` or `UCGABAR_WAIT` has not issued it yet. Debuggers print the line of that counter, which for a block
barrier is the line *behind* the barrier; this module gives the waiting instruction itself. Encodings are those of Volta to
Blackwell (128 bits: the operation in bits 0-11, the guard predicate in bits 12-15), as nvdisasm prints them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from warpsight.debug.gpucore.code import Behind, Code, Polling
from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.flow.polling import Poll

_BAR_BOTH, _BAR_REGISTER, _BAR_REGISTER_ID, _BAR_REGISTER_COUNT = 0xB1D, 0x31D, 0x51D, 0x91D
_BAR = {_BAR_BOTH, _BAR_REGISTER, _BAR_REGISTER_ID, _BAR_REGISTER_COUNT}
_ARRIVE_ONLY = 1 << 13  # in the upper half: BAR.ARV goes on
_PHASE_CHECK = 0x5A7  # SYNCS.PHASECHK.…TRYWAIT, what mbarrier.try_wait and test_wait become
_CLUSTER_WAIT = 0xDC7
_WARPSYNC_REGISTER, _WARPSYNC_ALL = 0x348, 0x948
_RECONVERGE = 0x941
_EARLIER_GRID = 0x82E  # ACQBULK, what griddepcontrol.wait becomes
_SLEEP = {0x35D, 0x55D, 0x75D, 0x95D}
_TRAP = {0x95C, 0x35C, 0x55C, 0x75C}
_ALWAYS, _NO_REGISTER = 7, 255
#: Offset of the block's own shared memory in mbarrier addresses: the bits above are the block's rank in its cluster.
_SHARED_ADDRESS = 0xFFFFFF
_ALL_LANES = 0xFFFFFFFF


@dataclass(frozen=True)
class WarpWait:
    """What a warp is waiting for.

    Attributes:
        kind: `barrier`, `mbarrier`, `cluster barrier`, `warp`, `reconvergence`, `memory`, `earlier grid` or `sleep`.
        text: the same as text, with known details: `barrier 1 of 128 threads`.
        address: address of the waiting instruction.
        barrier: the number of a block's barrier; None if unknown.
        threads: how many threads that barrier counts, 0 for all of the block.
        lanes: the lanes that take part in a warp's barrier, as a mask.
        mbarrier: address of the mbarrier in the block's shared memory, in bytes; None if unknown.
        parity: parity of the awaited phase of the mbarrier; None if unknown.
        poll: what a polling loop reads.
    """

    kind: str
    text: str
    address: int
    barrier: int | None = None
    threads: int = 0
    lanes: int = _ALL_LANES
    mbarrier: int | None = None
    parity: int | None = None
    poll: Poll | None = None


def wait_at(pc: int, code: Code, lane: LaneRegisters) -> WarpWait | None:
    """The wait of a warp at a program counter; None for other kinds of waits.

    Args:
        pc: next instruction to issue.
        code: all code of the dump.
        lane: registers of a lane of the warp.
    """
    read = code.instruction
    held = _held_at(pc, read, lane)
    # If all its lanes have arrived, the warp's own barrier is not holding it: the block's barrier after it is.
    if held is not None and not (held.kind in ("warp", "reconvergence") and lane.together):
        return held
    return (
        _held_behind(pc - INSTRUCTION_SIZE, read, lane)
        or _held_farther_behind(code.barrier_behind(pc), read, lane)
        or held
        or _polls(code.polling(pc), read, lane)
        or _asleep(pc - INSTRUCTION_SIZE, read, lane)
    )


def depends_on_lane(pc: int, code: Code) -> bool:
    """Whether warps at one program counter can wait for different things, depending on registers, predicates or other lanes."""
    return _depends_on_lane(pc, code.instruction, code.polling) or code.barrier_behind(pc) is not None


def _depends_on_lane(pc: int, code: Callable[[int], bytes], polling: Callable[[int], Polling | None]) -> bool:
    if _operation(code(pc)) == _PHASE_CHECK:
        return True
    if _operation(code(pc)) in (_WARPSYNC_ALL, _WARPSYNC_REGISTER, _RECONVERGE):
        return _operation(code(pc - INSTRUCTION_SIZE)) in _BAR
    low, _ = _halves(code(pc - INSTRUCTION_SIZE))
    if low & 0xFFF in _BAR:
        return low & 0xFFF != _BAR_BOTH or low >> 12 & 15 != _ALWAYS
    if low & 0xFFF in (_PHASE_CHECK, *_SLEEP):
        return True
    found = polling(pc)
    return found is not None and found.poll.mbarrier


def _held_at(pc: int, code: Callable[[int], bytes], lane: LaneRegisters) -> WarpWait | None:
    """Waits that end before their instruction is issued."""
    low, _ = _halves(code(pc))
    operation = low & 0xFFF
    if operation == _CLUSTER_WAIT:
        return WarpWait("cluster barrier", "the cluster's barrier", pc)
    if operation in (_WARPSYNC_ALL, _WARPSYNC_REGISTER):
        mask = low >> 32 if operation == _WARPSYNC_ALL else lane.register(low >> 24 & 0xFF)
        return WarpWait("warp", "the other lanes of its warp", pc, lanes=mask or _ALL_LANES)
    if operation == _RECONVERGE:
        mask = lane.barrier(low >> 16 & 15)
        text = "the other lanes of its warp, to go on together"
        return WarpWait("reconvergence", text, pc, lanes=mask or _ALL_LANES)
    if operation == _EARLIER_GRID:
        return WarpWait("earlier grid", "the grid before it in its stream", pc)
    return _mbarrier(pc, code, lane) if operation == _PHASE_CHECK else None


def _held_behind(before: int, code: Callable[[int], bytes], lane: LaneRegisters) -> WarpWait | None:
    """Waits whose instruction has been issued."""
    low, high = _halves(code(before))
    operation = low & 0xFFF
    if not _executed(low, lane):
        return None
    if operation in _BAR and not high & _ARRIVE_ONLY:
        return _barrier(before, low, lane)
    if operation == _EARLIER_GRID:
        return WarpWait("earlier grid", "the grid before it in its stream", before)
    return _mbarrier(before, code, lane) if operation == _PHASE_CHECK else None


def _held_farther_behind(
    behind: Behind | None, code: Callable[[int], bytes], lane: LaneRegisters
) -> WarpWait | None:
    """A barrier that has let the warp issue the arithmetic after it."""
    if behind is None:
        return None
    low, _ = _halves(code(behind.address))
    guard, written = low >> 12 & 7, behind.deferred
    if guard not in written.predicates and not _executed(low, lane):
        return None
    return _barrier(behind.address, low, lane, written.registers)


def _asleep(before: int, code: Callable[[int], bytes], lane: LaneRegisters) -> WarpWait | None:
    low, _ = _halves(code(before))
    if low & 0xFFF in _SLEEP and _executed(low, lane):
        return WarpWait("sleep", "the end of a nanosleep", before)
    return None


def _polls(polling: Polling | None, code: Callable[[int], bytes], lane: LaneRegisters) -> WarpWait | None:
    """A wait in a loop."""
    if polling is None:
        return None
    poll = polling.poll
    if poll.mbarrier:
        return _mbarrier(polling.address, code, lane)
    space = "memory" if poll.space == "memory" else f"{poll.space} memory"
    what = f"an atomic in {space}" if poll.atomic else f"a value in {space}"
    asleep = ", asleep between reads" if poll.sleeps else ""
    return WarpWait("memory", what + asleep, polling.address, poll=poll)


def trap_before(pc: int, code: Callable[[int], bytes]) -> bool:
    """Whether the instruction before a program counter is a trap."""
    return _operation(code(pc - INSTRUCTION_SIZE)) in _TRAP


def _halves(code: bytes) -> tuple[int, int]:
    if len(code) < INSTRUCTION_SIZE:
        return 0, 0
    return int.from_bytes(code[:8], "little"), int.from_bytes(code[8:16], "little")


def _operation(code: bytes) -> int:
    return _halves(code)[0] & 0xFFF


def _executed(low: int, lane: LaneRegisters) -> bool:
    """Whether an instruction's guard lets it execute; true if the predicate is unknown."""
    number, negated = low >> 12 & 7, bool(low >> 15 & 1)
    if number == _ALWAYS:
        return not negated
    value = lane.predicate(number)
    return value is None or value != negated


def _barrier(
    address: int, low: int, lane: LaneRegisters, overwritten: frozenset[int] = frozenset()
) -> WarpWait:
    """A barrier of the block; its number and count are in the instruction, in registers, or both in one register."""
    operation = low & 0xFFF
    number: int | None = low >> 54 & 15
    count = low >> 42 & 0xFFF
    register = low >> 32 & 0xFF
    value = None if register in overwritten else lane.register(register)
    if operation in (_BAR_REGISTER, _BAR_REGISTER_ID):
        number = None if value is None else value & 15
    if operation == _BAR_REGISTER:
        count = 0 if value is None else value >> 16 & 0xFFF
    elif operation == _BAR_REGISTER_COUNT:
        count = 0 if value is None else value & 0xFFF
    name = "a barrier named by a register" if number is None else f"barrier {number}"
    text = f"{name} of {count} threads" if count else f"{name} of the block"
    return WarpWait("barrier", text, address, barrier=number, threads=count)


def _mbarrier(address: int, code: Callable[[int], bytes], lane: LaneRegisters) -> WarpWait:
    """A phase check: at the sum of a register, a uniform register and an offset; the parity is the top bit of another."""
    low, high = _halves(code(address))
    wide = high >> 12 & 3  # since Blackwell there are more uniform registers, and other fields have moved up
    uniform = high & (0xFF if wide else 0x3F)
    none = 0xFF if wide else 0x3F
    offset = low >> 40 if low >> 63 == 0 else (low >> 40) - (1 << 24)
    base = 0 if low >> 24 & 0xFF == _NO_REGISTER else lane.register(low >> 24 & 0xFF)
    added = 0 if uniform == none else lane.uniform(uniform)
    parity = 0 if low >> 32 & 0xFF == _NO_REGISTER else lane.register(low >> 32 & 0xFF)
    known = None if base is None or added is None else (base + added + offset) & _SHARED_ADDRESS
    phase = "a phase" if parity is None else f"phase {parity >> 31}"
    what = "an mbarrier" if known is None else f"the mbarrier at shared {known:#x}"
    return WarpWait(
        "mbarrier",
        f"{phase} of {what}",
        address,
        mbarrier=known,
        parity=None if parity is None else parity >> 31,
    )

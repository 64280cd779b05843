"""Polling loops of device code: loops that read one place in memory until it changes.

A loop polls if it only reads, compares and repeats, and always reads the same address. It may sleep between reads, and with an
atomic (a lock) it may share the value through shared memory. Loops over data do not poll, because their address changes. Fields
of instructions: destination in bits 16-23, operands in bits 24-31, 32-39 and 64-71, the offset of an access in bits 40-63, its
size in bits 73-75, the kind of an atomic in bits 87-90.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.device_code.elf import Array
from warpsight.device_code.flow.control_flow import ControlFlow, InstructionLoop
from warpsight.device_code.operations import operation

_LOADS = {"LD": "memory", "LDG": "global", "LDS": "shared", "LDL": "local"}
_ATOMICS = {"ATOM": "memory", "ATOMG": "global", "ATOMS": "shared"}
_PHASE_CHECK = 0x1A7
#: The compare-and-swaps among the atomics, by the lower nine bits of the operation; ATOM, ATOMG and ATOMS otherwise.
_COMPARE_AND_SWAP = (0x18B, 0x1A9, 0x18D)
_EXCHANGE, _READING = 8, (0, 6)  # ADD and OR of nothing read
_SIZES = (1, 1, 2, 2, 4, 8, 16)
_RZ = 255
#: Instructions of a polling loop besides the load: arithmetic on registers, predicates and constants, fences, branches, sleep.
_HARMLESS = {
    "MOV", "P2R", "R2P", "CS2R", "SEL", "FSEL", "ISETP", "FSETP", "IADD3", "LEA", "LOP3", "PRMT", "IMNMX", "SHF", "BMSK",
    "PLOP3", "IMAD", "HFMA2", "VIADD", "UMOV", "VOTEU", "USEL", "UISETP", "UIADD3", "ULEA", "ULOP3", "UPRMT", "USHF", "UIMAD",
    "ULDC", "LDCU", "R2UR", "FLO", "POPC", "NOP", "S2R", "S2UR", "BSYNC", "BREAK", "BSSY", "YIELD", "BRA", "WARPSYNC", "BMOV",
    "NANOSLEEP", "LDC", "SHFL", "CCTL", "MEMBAR", "ERRBAR", "CGAERRBAR", "VOTE", "REDUX", "MATCH",
}  # fmt: skip
#: With a lock, one thread reads for the others: the value reaches them through shared memory and a barrier.
_SHARING = {"STS", "BAR", "B2R"}
_SPECIAL = {"S2R", "CS2R"}
#: Instructions that write predicates, barriers or nothing: their bits 16-23 are not a register.
_NO_REGISTER = {
    "BRA", "BSYNC", "BSSY", "BREAK", "YIELD", "NOP", "WARPSYNC", "NANOSLEEP", "MEMBAR", "CCTL", "ERRBAR", "CGAERRBAR", "ISETP",
    "FSETP", "PLOP3", "R2P", "BAR", "STS",
}  # fmt: skip
#: Where the registers of operations with fewer than three operands are.
_OPERANDS = {"MOV": (32,), "POPC": (32,), "FLO": (32,), "SEL": (24, 32), "FSEL": (24, 32), "VIADD": (24, 32),
             "IMNMX": (24, 32), "SHFL": (24, 32), "VOTE": ()}  # fmt: skip
_ALL_REGISTERS, _UNIFORM_OPERAND = 1, (6, 7)
_IMAD_WIDE, _ATOMIC_OF_64_BITS = 0x025, 2
_GRID_SIZE = {
    False: range(0x0C, 0x18),
    True: range(0x370, 0x37C),
}  # in constant bank 0; since Blackwell elsewhere
_BLACKWELL = 100
#: Operations that read a constant by their own name; others by the form of their operand.
_CONSTANT_READERS = {0x182, 0x0B9, 0x1AC}


@dataclass(frozen=True)
class Poll:
    """The address that a loop reads again and again.

    Attributes:
        index: the instruction that reads, counted in its section.
        operation: its operation.
        space: `global`, `shared`, `local`, or `memory` when the instruction does not say.
        atomic: whether it is an atomic: a lock, or a read by an atomic.
        sleeps: whether the loop sleeps between reads.
        register: the address's register, lower half; wide: whether it has 64 bits; offset: added to it, in bytes.
        size: bytes read.
        overwritten: whether the loop also writes the address's register: if so, the register holds the address only temporarily.
        value: the register that holds the last value read; None if the loop also writes something else into it.
        mbarrier: whether the loop reads an mbarrier's phase.
    """

    index: int
    operation: str
    space: str
    atomic: bool
    sleeps: bool
    register: int
    wide: bool
    offset: int
    size: int
    overwritten: bool
    value: int | None
    mbarrier: bool = False


def poll_of(flow: ControlFlow, loop: InstructionLoop) -> Poll | None:
    """The address that a loop polls; None if it is not a polling loop."""
    words = flow.words
    names = {index: operation(words[index].tobytes()) for index in loop.body if not _never(words, index)}
    reads = [index for index in names if _reads(words, index, names[index])]
    checks = [index for index in names if _is_phase_check(words, index)]
    allowed = _HARMLESS | set(_LOADS)
    if any(names[index] in _ATOMICS for index in reads):
        allowed |= _SHARING
    if any(name not in allowed for index, name in names.items() if index not in {*reads, *checks}):
        return None
    if checks:
        return _poll(flow, loop, checks[0], "SYNCS")
    invariant = [index for index in reads if _same_address(words, loop.body, index)]
    if not invariant:
        return None
    # With a lock, what is read beside the atomic is its result on the way to the other threads; without one, what only
    # some turns read is a flag that ends the wait early.
    chosen = min(
        invariant, key=lambda one: (names[one] not in _ATOMICS, not flow.in_every_turn(loop, one), one)
    )
    return _poll(flow, loop, chosen, names[chosen] or "")


def _poll(flow: ControlFlow, loop: InstructionLoop, index: int, name: str) -> Poll:
    words = flow.words
    low, high = (int(word) for word in words[index])
    register, wide, value = low >> 24 & 0xFF, bool(high >> 8 & 1), low >> 16 & 0xFF
    sleeps = any(operation(words[one].tobytes()) == "NANOSLEEP" for one in loop.body)
    parts = (register, register + 1) if wide else (register,)
    overwritten = any(writes_register(words, one, part) for one in loop.body for part in parts)
    also = any(writes_register(words, one, value) for one in loop.body if one != index)
    last_read = None if also or value == _RZ or name == "SYNCS" else value
    atomic = name in _ATOMICS
    # Since Blackwell the offset of an atomic has a bit less, except for a compare-and-swap.
    short = atomic and flow.architecture >= _BLACKWELL and low & 0x1FF not in _COMPARE_AND_SWAP
    bits = 23 if short else 24
    raw = low >> 40 & ((1 << bits) - 1)
    kind = high >> 9 & 7
    size = (8 if kind == _ATOMIC_OF_64_BITS else 4) if atomic else (*_SIZES, 4)[kind]
    return Poll(
        index, name, {**_LOADS, **_ATOMICS}.get(name, "shared"), atomic, sleeps, register, wide,
        raw - (1 << bits) if raw >> (bits - 1) else raw, size, overwritten, last_read, name == "SYNCS",
    )  # fmt: skip


def _never(words: Array, index: int) -> bool:
    """Whether an instruction is disabled: `@!PT`, which compilers write around fences."""
    return int(words[index, 0]) >> 12 & 15 == 15


def _is_phase_check(words: Array, index: int) -> bool:
    return int(words[index, 0]) & 0xFFF == 0x400 | _PHASE_CHECK


def _reads(words: Array, index: int, name: str | None) -> bool:
    if name in _LOADS:
        return True
    if name not in _ATOMICS:
        return False
    low, high = (int(word) for word in words[index])
    kind = high >> 23 & 15
    swaps = low & 0x1FF in _COMPARE_AND_SWAP or kind == _EXCHANGE
    return swaps or (kind in _READING and _field(words, index, 32) == _RZ)


def _field(words: Array, index: int, bit: int) -> int:
    half, shift = divmod(bit, 64)
    return int(words[index, half]) >> shift & 0xFF


def writes_register(words: Array, index: int, register: int) -> bool:
    """Whether an instruction writes a register."""
    name = operation(words[index].tobytes()) or ""
    if name in _NO_REGISTER or _is_uniform(name) or _is_phase_check(words, index):
        return False
    first = _field(words, index, 16)
    return first != _RZ and first <= register < first + _width(words, index, name)


def _width(words: Array, index: int, name: str) -> int:
    """How many registers an instruction writes."""
    size = int(words[index, 1]) >> 9 & 7
    if name in _ATOMICS:
        return 2 if size == _ATOMIC_OF_64_BITS else 1
    if name in _LOADS or name == "LDC":
        return max(_SIZES[size] // 4, 1) if size < len(_SIZES) else 4
    return 2 if name == "CS2R" or int(words[index, 0]) & 0x1FF == _IMAD_WIDE else 1


def _is_uniform(name: str) -> bool:
    """Whether an operation writes uniform registers instead of a thread's own."""
    return name.startswith("U") or name in ("R2UR", "S2UR", "REDUX", "LDCU", "VOTEU")


def _same_address(words: Array, loop: Sequence[int], index: int) -> bool:
    """Whether an access uses the same address in every iteration."""
    register = _field(words, index, 24)
    wide = bool(int(words[index, 1]) >> 8 & 1)
    parts = [] if register == _RZ else [register, register + 1] if wide else [register]
    return all(_constant(words, loop, part, index, frozenset()) for part in parts)


def _constant(words: Array, loop: Sequence[int], register: int, before: int, asked: frozenset[int]) -> bool:
    """Whether a register has the same value each time an instruction reads it.

    It has when the loop does not write it, or writes it, ahead of the reader, from what is the same itself. A register
    that is written only behind the reader carries a value from one turn to the next.
    """
    writers = [index for index in loop if writes_register(words, index, register)]
    if not writers:
        return True
    ahead = [index for index in writers if index < before]
    if not ahead or ahead[-1] in asked:
        return False
    writer = ahead[-1]
    name = operation(words[writer].tobytes()) or ""
    if name in _SPECIAL:
        return name != "CS2R"  # clocks
    if name in _LOADS or name in _ATOMICS:
        return False
    if name == "LDC":
        return _field(words, writer, 24) == _RZ
    own = all(_constant(words, loop, one, writer, asked | {writer}) for one in _sources(words, writer, name))
    return own and _uniform_source_is_constant(words, loop, writer)


def _sources(words: Array, index: int, name: str) -> list[int]:
    """The registers an arithmetic instruction reads: bits 9-11 tell whether bits 32-39 hold a register."""
    fields = _OPERANDS.get(name, (24, 32, 64))
    form = int(words[index, 0]) >> 9 & 7
    kept = [bit for bit in fields if bit != 32 or form == _ALL_REGISTERS]
    return [register for bit in kept if (register := _field(words, index, bit)) != _RZ]


def _uniform_source_is_constant(words: Array, loop: Sequence[int], index: int) -> bool:
    """Whether the uniform register an instruction reads, if any, is the same in every iteration: only constants flow into it."""
    if int(words[index, 0]) >> 9 & 7 not in _UNIFORM_OPERAND:
        return True
    wanted = int(words[index, 0]) >> 32 & 0x3F
    for writer in loop:
        name = operation(words[writer].tobytes()) or ""
        pair = 2 if name in ("ULDC", "LDCU") else 1
        first = int(words[writer, 0]) >> 16 & 0x3F
        if _is_uniform(name) and first <= wanted < first + pair and name not in ("ULDC", "LDCU", "UMOV"):
            return False
    return True


def reads_grid_size(flow: ControlFlow) -> bool:
    """Whether code reads the number of blocks of its grid (`gridDim`), which is in constant bank 0."""
    low = flow.words[:, 0]
    operation_bits = low & np.uint64(0xFFF)
    form = operation_bits >> np.uint64(9)
    named = np.isin(operation_bits & np.uint64(0x1FF), list(_CONSTANT_READERS))
    bank = low >> np.uint64(54) & np.uint64(31)
    uniform = np.isin(operation_bits & np.uint64(0x1FF), [0x1AC])  # LDCU: its offset is a bit further down
    offset = np.where(uniform, low >> np.uint64(37), low >> np.uint64(38)) & np.uint64(0xFFFF)
    reads = (named | np.isin(form, (3, 5))) & (bank == 0)
    return bool((reads & np.isin(offset, list(_GRID_SIZE[flow.architecture >= _BLACKWELL]))).any())


def counts_in_memory(flow: ControlFlow) -> bool:
    """Whether code contains an atomic or reduction on global memory, as a grid barrier uses to count its blocks."""
    return bool(np.isin(flow.words[:, 0] & np.uint64(0x1FF), (0x18A, 0x18E, 0x1A8, 0x18B, 0x1A9)).any())

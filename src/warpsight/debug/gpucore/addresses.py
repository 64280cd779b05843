"""Finding the faulty thread: the addresses that the lanes of a faulting warp accessed.

The hardware names the warp of a memory exception, not the lane. But every lane still holds the address register of the faulting
instruction, unless that instruction or one of the few after it has overwritten it. Encodings are those of Volta to Blackwell:
address register in bits 24-31, offset in bits 40-63, 64-bit addresses by bit 72, size in bits 73-75.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.faults import Fault
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.operations import operation

_LOADS = {"LD", "LDG", "LDS"}
_STORES = {"ST", "STG", "STS"}
_SHARED = {"LDS", "STS"}
_SIZES = (1, 1, 2, 2, 4, 8, 16)
_NO_REGISTER = 255
#: Addresses further than this from where most lanes are count as elsewhere: in global and in shared memory.
_FAR, _FAR_SHARED = 1 << 32, 1 << 16
#: Maximum instructions that a warp continues before a fault stops it, as observed.
_BEHIND = 16
_SCALED = 3 << 14  # of the upper half: sm_80's [R0.X4]
_MISALIGNED = 6


@dataclass(frozen=True)
class _LaneAddresses:
    """Addresses of one instruction.

    Attributes:
        size: bytes of each access.
        by_lane: (row of the lane table, address) of every active lane.
        suspects: the same of those that are misaligned, or far from where most are; none when nothing stands out.
    """

    size: int
    by_lane: tuple[tuple[int, int], ...]
    suspects: tuple[tuple[int, int], ...]


def accesses(core: GpuCore, code: Code, fault: Fault) -> _LaneAddresses | None:
    """The addresses accessed by a fault's instruction; None if it accesses no memory or the register is lost."""
    if fault.pc is None or fault.warp is None:
        return None
    raw = code.instruction(fault.pc)
    name = operation(raw)
    if name not in _LOADS | _STORES:
        return None
    low, high = (int.from_bytes(raw[i : i + 8], "little") for i in (0, 8))
    register, wide = low >> 24 & 0xFF, bool(high >> 8 & 1)
    size = high >> 9 & 7
    if register == _NO_REGISTER or size >= len(_SIZES) or (name in _SHARED and high & _SCALED):
        return None
    lanes = core.table(Kind.LANES)
    mine = [row for row in np.flatnonzero(lanes.parent == fault.warp).tolist() if _active(core, row)]
    if not mine or not _is_unwritten(
        code, fault.pc, int(lanes.rows["pc"][mine[0]]), register, wide, name in _LOADS
    ):
        return None
    offset = low >> 40 if low >> 63 == 0 else (low >> 40) - (1 << 24)
    found = []
    for row in mine:
        words = core.words_of(Kind.REGISTERS, row)
        if register + wide >= len(words):
            return None
        value = words[register] | (words[register + 1] << 32 if wide else 0)
        found.append((row, value + offset))
    return _LaneAddresses(
        _SIZES[size], tuple(found), _suspects(found, _SIZES[size], fault.code, name in _SHARED)
    )


def _active(core: GpuCore, row: int) -> bool:
    lanes, warps = core.table(Kind.LANES), core.table(Kind.WARPS)
    mask = int(warps.rows["active"][lanes.parent[row]])
    return bool(mask >> int(lanes.rows["lane"][row]) & 1)


def _is_unwritten(code: Code, fault_pc: int, pc: int, register: int, wide: bool, loads: bool) -> bool:
    """Whether nothing has written the address register since the fault."""
    if not 0 <= pc - fault_pc <= _BEHIND * INSTRUCTION_SIZE:
        return False
    used = {register, register + 1} if wide else {register}
    for address in range(fault_pc, pc, INSTRUCTION_SIZE):
        raw = code.instruction(address)
        if len(raw) < INSTRUCTION_SIZE:
            return False
        if address == fault_pc and not loads:
            continue
        name, target = operation(raw), raw[2]  # bits 16-23: the destination, where there is one
        if name in _STORES or target == _NO_REGISTER:
            continue
        # Known arithmetic writes one or two registers; loads, and unknown instructions, up to four.
        width = 4 if name is None or name in _LOADS else 2
        if used & set(range(target, target + width)):
            return False
    return True


def _suspects(
    found: list[tuple[int, int]], size: int, exception: int, shared: bool
) -> tuple[tuple[int, int], ...]:
    if exception == _MISALIGNED:
        return tuple((row, address) for row, address in found if address % size)
    middle = sorted(address for _, address in found)[len(found) // 2]
    reach = _FAR_SHARED if shared else _FAR
    away = tuple((row, address) for row, address in found if abs(address - middle) > reach)
    return away if len(away) < len(found) / 2 else ()

"""GPU core dumps of kernels that hang, made from compiled code: any number of blocks, each lane where a test puts it."""

from __future__ import annotations

import lzma
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from tests.unit.debug.synthetic_core import (
    DEVICE_NAME,
    HEADER,
    SM_NAME,
    STRINGS,
    STRTAB,
    Writer,
    rows,
)
from warpsight.debug.gpucore.layout import Kind
from warpsight.device_code.cubin import Cubin
from warpsight.device_code.disassembly import INSTRUCTION_SIZE

CUBIN = Path(__file__).parents[2] / "golden/cubins/polls.plain.sm_90.cubin.xz"
ENTRY = 0x7F00_0000_0000
#: The first address of a block's shared memory: the system has what is below.
SHARED = 0x400
_REGISTERS = 32


@dataclass(frozen=True)
class Stand:
    """Lanes of one warp at one instruction.

    Attributes:
        at: number of the instruction they issue next.
        lanes: their numbers in the warp; active: whether the warp runs them.
        registers: values of all of them, by number.
    """

    at: int
    lanes: Sequence[int] = range(32)
    active: bool = True
    registers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A block on the device: its multiprocessor, its index, and its warps; a warp without stands has exited.

    `shared`: what its shared memory holds from :data:`SHARED` on.
    """

    sm: int
    index: tuple[int, int, int]
    warps: Sequence[Sequence[Stand]]
    shared: bytes = b""


@dataclass(frozen=True)
class Hang:
    """A kernel that hangs. `code`: instructions of the kernel that are replaced, by number."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: Sequence[Block]
    sms: int = 132
    cluster: tuple[int, int, int] = (0, 0, 0)
    code: Mapping[int, bytes] = field(default_factory=dict)


def barrier(number: int, threads: int = 0, arrive: bool = False) -> bytes:
    """`BAR.SYNC number, threads`, or `BAR.ARV`."""
    low = 0xB1D | 7 << 12 | number << 54 | threads << 42
    return (low | (1 << 13 if arrive else 0) << 64).to_bytes(16, "little")


def phase_check(address: int, parity: int) -> bytes:
    """`SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [address], parity`, both in registers of these numbers."""
    return (0x5A7 | 7 << 12 | address << 24 | parity << 32 | 0x3F << 64).to_bytes(16, "little")


#: `UCGABAR_WAIT` and `WARPSYNC.ALL`.
CLUSTER_WAIT, WARP_BARRIER = (
    (operation | 7 << 12 | 0xFFFFFFFF << 32).to_bytes(16, "little") for operation in (0xDC7, 0x948)
)


def mbarrier(expected: int, pending: int, copies: int = 0, parity: int = 0) -> bytes:
    """The word of an mbarrier, see warpsight.debug.gpucore.waiting.mbarrier."""
    count, size = (1 << 20) - 1, (1 << 21) - 1
    word = (-expected & count) << 1 | (-copies & size) << 21 | (-pending & count) << 43 | parity << 63
    return word.to_bytes(8, "little")


def cubin() -> bytes:
    """The code of tests/golden/cubins/polls.cu."""
    return lzma.decompress(CUBIN.read_bytes())


def placed(hang: Hang) -> bytes:
    """The code with the kernel at :data:`ENTRY`, and with its replaced instructions."""
    data = bytearray(cubin())
    read = Cubin(bytes(data), "polls")
    section = read.section_of(hang.kernel)
    assert section is not None
    header = int.from_bytes(data[40:48], "little") + 64 * section
    data[header + 16 : header + 24] = ENTRY.to_bytes(8, "little")
    begin = int(read.elf.sections["offset"][section])
    for number, words in hang.code.items():
        at = begin + number * INSTRUCTION_SIZE
        data[at : at + INSTRUCTION_SIZE] = words
    return bytes(data)


def build(hang: Hang) -> bytes:
    """The dump."""
    out = Writer()
    out.section(3, STRINGS, name=STRTAB)
    out.table(Kind.METADATA, rows(Kind.METADATA, driver_major=580, cuda_major=13, timestamp=1_700_000_000))
    made = rows(
        Kind.DEVICES, name=DEVICE_NAME, sm_type=SM_NAME, sms=hang.sms, warps_per_sm=64, lanes_per_warp=32, sm_major=9
    )  # fmt: skip
    device = out.table(Kind.DEVICES, made)
    context = out.table(Kind.CONTEXTS, rows(Kind.CONTEXTS, id=77), device)
    module = out.table(Kind.MODULES, rows(Kind.MODULES, handle=4711), context)
    out.section(Kind.RELOCATED_IMAGE.section_type, placed(hang), module)
    made = rows(
        Kind.GRIDS, id=1, entry=ENTRY, module=4711, status=2, grid=hang.grid, block=hang.block, cluster=hang.cluster,
        registers=_REGISTERS,
    )  # fmt: skip
    out.table(Kind.GRIDS, made, device)
    table = out.table(Kind.SMS, rows(Kind.SMS, hang.sms, id=np.arange(hang.sms)), device)
    for sm, group in groupby(sorted(hang.blocks, key=lambda block: block.sm), key=lambda block: block.sm):
        own = list(group)
        indices = rows(Kind.BLOCKS, len(own), grid_id=1, cluster_size=hang.cluster)
        indices["index"] = [block.index for block in own]
        blocks = out.table(Kind.BLOCKS, indices, table, sm)
        for row, block in enumerate(own):
            _block(out, block, blocks, row)
            if block.shared:
                out.section(Kind.SHARED.section_type, block.shared, blocks, row, addr=SHARED)
    return out.finish()


def _block(out: Writer, block: Block, table: int, row: int) -> None:
    present = [(number, stands) for number, stands in enumerate(block.warps) if stands]
    made = rows(Kind.WARPS, len(present))
    for at, (number, stands) in enumerate(present):
        made["id"][at] = number
        made["valid"][at] = sum(1 << lane for stand in stands for lane in stand.lanes)
        made["active"][at] = sum(1 << lane for stand in stands if stand.active for lane in stand.lanes)
    warps = out.table(Kind.WARPS, made, table, row)
    for at, (number, stands) in enumerate(present):
        _lanes(out, number, stands, warps, at)


def _lanes(out: Writer, number: int, stands: Sequence[Stand], table: int, row: int) -> None:
    lanes = sorted(
        ((lane, stand) for stand in stands for lane in stand.lanes), key=lambda pair: pair[0]
    )  # fmt: skip
    made = rows(Kind.LANES, len(lanes), state=1)
    registers = np.zeros((len(lanes), _REGISTERS), "<u4")
    for at, (lane, stand) in enumerate(lanes):
        made["lane"][at], made["pc"][at] = lane, ENTRY + stand.at * INSTRUCTION_SIZE
        made["thread"][at, 0] = number * 32 + lane
        for register, value in stand.registers.items():
            registers[at, register] = value
    owner = out.table(Kind.LANES, made, table, row)
    headers = np.zeros(len(lanes), HEADER)
    headers["type"], headers["link"], headers["entsize"] = Kind.REGISTERS.section_type, owner, 4
    headers["offset"] = out.put(registers.tobytes()) + 4 * _REGISTERS * np.arange(len(lanes))
    headers["size"], headers["info"] = 4 * _REGISTERS, np.arange(len(lanes))
    out.add(headers)

"""GPU core dumps of any size, written after the public layout: for damage, growth and speed.

The code of the one kernel is cut from a golden dump, so that program counters have functions and lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.golden.cores.golden_cores import HERE as GOLDEN
from tests.golden.cores.golden_cores import content
from warpsight.debug.gpucore import GpuCore
from warpsight.debug.gpucore.layout import TABLES, Kind
from warpsight.device_code.elf import Elf

HEADER = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"), ("size", "<u8"),
     ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entsize", "<u8")]
)  # fmt: skip
STRINGS = b"\0.shstrtab\0.strtab\0NVIDIA H200\0sm_90\0"
STRTAB, DEVICE_NAME, SM_NAME = (STRINGS.index(text) for text in (b".strtab", b"NVIDIA H200", b"sm_90"))


@dataclass(frozen=True)
class Shape:
    """What runs: `places` different PCs; with `lane_sections` every lane has registers and predicates of its own."""

    sms: int = 2
    blocks_per_sm: int = 2
    warps_per_block: int = 2
    places: int = 3
    lane_sections: bool = True
    registers: int = 32
    fault: int = 0
    row_growth: int = 0
    baseline: bool = False
    table_first: bool = False


#: Bytes of a row as the first drivers wrote them (release 346).
BASELINE = {Kind.DEVICES: 72, Kind.GRIDS: 104, Kind.SMS: 8, Kind.BLOCKS: 24, Kind.WARPS: 32, Kind.LANES: 48}


class Writer:
    """Sections one after another; tables first name their owner."""

    def __init__(self, baseline: bool = False) -> None:
        self.baseline = baseline
        self.data = [b"\0" * 64]
        self.size = 64
        self.headers: list[np.ndarray] = [np.zeros(1, HEADER)]
        self.count = 1

    def put(self, data: bytes) -> int:
        at = self.size
        self.data.append(data)
        self.size += len(data)
        return at

    def section(
        self,
        kind: int,
        data: bytes,
        link: int = 0,
        info: int = 0,
        entsize: int = 0,
        addr: int = 0,
        name: int = 0,
    ) -> int:
        header = np.zeros(1, HEADER)
        header[0] = (name, kind, 0, addr, self.put(data), len(data), link, info, 1, entsize)
        return self.add(header)

    def add(self, headers: np.ndarray) -> int:
        """Append many headers at once; the index of the first."""
        first = self.count
        self.headers.append(headers)
        self.count += len(headers)
        return first

    def table(self, kind: Kind, rows: np.ndarray, link: int = 0, info: int = 0, growth: int = 0) -> int:
        known = BASELINE.get(kind, rows.dtype.itemsize) if self.baseline else rows.dtype.itemsize
        width = known + growth
        raw = np.full((len(rows), width), 0xEE, np.uint8)
        raw[:, :known] = np.frombuffer(rows.tobytes(), np.uint8).reshape(len(rows), rows.dtype.itemsize)[
            :, :known
        ]
        return self.section(kind.section_type, raw.tobytes(), link, info, width)

    def finish(self, table_first: bool = False) -> bytes:
        """The file: extended numbering where the count needs it; the section table last, as drivers write it, or first."""
        names = self.section(3, STRINGS, name=1)
        headers = np.concatenate(self.headers)
        head = bytearray(64)
        head[:9] = b"\x7fELF\x02\x01\x01\x33\x07"
        head[16:20] = (4).to_bytes(2, "little") + (190).to_bytes(2, "little")
        head[40:48] = (64 if table_first else self.size).to_bytes(8, "little")
        extended = self.count >= 0xFF00
        if extended:
            headers[0]["size"], headers[0]["link"] = self.count, names
        shape = (64, 0 if extended else self.count, 0xFFFF if extended else names)
        for at, value in zip((58, 60, 62), shape, strict=True):
            head[at : at + 2] = value.to_bytes(2, "little")
        if table_first:
            headers["offset"][1:] += headers.nbytes
            return b"".join([bytes(head), headers.tobytes(), *self.data[1:]])
        return b"".join([bytes(head), *self.data[1:], headers.tobytes()])


def kernel_code() -> tuple[bytes, int]:
    """A relocated cubin and the address of its kernel's first instruction."""
    core = GpuCore(Elf(content("spin_flag.lineinfo"), "golden"), GOLDEN)
    modules = core.table(Kind.MODULES)
    section = core.section_of(Kind.RELOCATED_IMAGE, len(modules) - 1)
    assert section is not None
    return core.elf.contents(section).tobytes(), int(core.table(Kind.GRIDS).rows["entry"][0])


def rows(kind: Kind, count: int = 1, **values: object) -> np.ndarray:
    """Rows of a table with some fields set."""
    made = np.zeros(count, TABLES[kind].row)
    for name, value in values.items():
        made[name] = value
    return made


def build(shape: Shape | None = None) -> bytes:
    """A dump of one grid that fills the shape."""
    s = shape or Shape()
    image, entry = kernel_code()
    out = Writer(s.baseline)
    grow = s.row_growth
    blocks, warps = s.sms * s.blocks_per_sm, s.blocks_per_sm * s.warps_per_block
    out.section(3, STRINGS, name=STRTAB)
    out.table(Kind.METADATA, rows(Kind.METADATA, driver_major=580, cuda_major=13, timestamp=1_700_000_000))
    device = out.table(
        Kind.DEVICES,
        rows(
            Kind.DEVICES,
            name=DEVICE_NAME,
            sm_type=SM_NAME,
            sms=s.sms,
            warps_per_sm=warps,
            lanes_per_warp=32,
            sm_major=9,
        ),
        growth=grow,
    )
    context = out.table(Kind.CONTEXTS, rows(Kind.CONTEXTS, id=77), device, growth=grow)
    module = out.table(Kind.MODULES, rows(Kind.MODULES, handle=4711), context, growth=grow)
    out.section(Kind.RELOCATED_IMAGE.section_type, image, module)
    out.table(
        Kind.GRIDS,
        rows(
            Kind.GRIDS,
            id=1,
            entry=entry,
            module=4711,
            status=2,
            grid=(blocks, 1, 1),
            block=(32 * s.warps_per_block, 1, 1),
            registers=s.registers,
        ),
        device,
        growth=grow,
    )
    sm_rows = rows(Kind.SMS, s.sms, id=np.arange(s.sms))
    if s.fault and s.sms:
        sm_rows["exception"][-1], sm_rows["error_pc"][-1], sm_rows["error_pc_valid"][-1] = (
            s.fault,
            entry + 0x50,
            1,
        )
    sm_table = out.table(Kind.SMS, sm_rows, device, growth=grow)
    for sm in range(s.sms):
        _sm(out, s, sm, sm_table, entry)
    return out.finish(s.table_first)


def _sm(out: Writer, s: Shape, sm: int, table: int, entry: int) -> None:
    first = sm * s.blocks_per_sm
    made = rows(Kind.BLOCKS, s.blocks_per_sm, grid_id=1)
    made["index"][:, 0] = first + np.arange(s.blocks_per_sm)
    blocks = out.table(Kind.BLOCKS, made, table, sm, s.row_growth)
    for block in range(s.blocks_per_sm):
        ids = block * s.warps_per_block + np.arange(s.warps_per_block)
        warp_rows = rows(
            Kind.WARPS, s.warps_per_block, id=ids, valid=0xFFFFFFFF, active=0xFFFFFFFF, cbu_active=0xFFFFFFFF
        )
        if s.fault and sm == s.sms - 1 and block == s.blocks_per_sm - 1:
            warp_rows["error_pc"][-1], warp_rows["error_pc_valid"][-1] = entry + 0x50, 1
        warps = out.table(Kind.WARPS, warp_rows, blocks, block, s.row_growth)
        for warp in range(s.warps_per_block):
            _lanes(out, s, warps, warp, entry + 16 * ((sm + block + warp) % s.places))


def _lanes(out: Writer, s: Shape, warps: int, warp: int, pc: int) -> None:
    made = rows(Kind.LANES, 32, pc=pc, lane=np.arange(32), state=1)
    made["thread"][:, 0] = warp * 32 + np.arange(32)
    lanes = out.table(Kind.LANES, made, warps, warp, s.row_growth)
    if not s.lane_sections:
        return
    width = 4 * s.registers
    begin = out.put(np.arange(32 * s.registers, dtype="<u4").tobytes() + b"\1\0\0\0" * 8 * 32)
    headers = np.zeros(64, HEADER)
    headers["type"][:32], headers["type"][32:] = Kind.REGISTERS.section_type, Kind.PREDICATES.section_type
    headers["offset"][:32] = begin + width * np.arange(32)
    headers["offset"][32:] = begin + width * 32 + 32 * np.arange(32)
    headers["size"][:32], headers["size"][32:] = width, 32
    headers["link"], headers["entsize"] = lanes, 4
    headers["info"] = np.tile(np.arange(32), 2)
    out.add(headers)


def write(path: Path, shape: Shape | None = None) -> Path:
    """A dump as a file."""
    path.write_bytes(build(shape))
    return path

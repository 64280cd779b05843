"""The NVBit tool's device code, compiled for the host with a thread for each warp: its ring, and launches of graphs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from warpsight.device_code.tma import tma_operands
from warpsight.formats.events.blocks import read
from warpsight.formats.events.records import decode
from warpsight.formats.source import Source

ROOT = Path(__file__).parents[3]
_LANES = np.arange(32, dtype=np.uint64)


def _built(name: str, folder: Path, *sources: str) -> Path:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        "-pthread",
        f"-I{ROOT / 'native'}",
    ]
    files = [
        ROOT / "tests" / "unit" / "native" / f"{name}.cpp",
        *(ROOT / "native" / source for source in sources),
    ]
    subprocess.run([compiler, *flags, *map(str, files), "-o", str(folder / name)], check=True)
    return folder / name


def _value(number: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """What a lane holds (nvbit_ring.cpp)."""
    return number * number * np.uint64(2654435761) % np.uint64(2**32)


def test_a_small_ring_loses_no_record_of_any_size(tmp_path: Path) -> None:
    warps, records, written = 6, 240, tmp_path / "ring.events"
    program = _built(
        "nvbit_ring", tmp_path, "sanitizer/ring.cpp", "sanitizer/event_file.cpp", "ring/crc32.cpp"
    )
    subprocess.run([program, written, "1024", str(warps), str(records)], check=True, timeout=300)
    found = read(Source(written))
    assert (found.complete, found.losses) == (True, [])
    assert max(int(block.lengths.max()) for block in found.records) == 198
    events = decode(found.records)
    assert len(events) == warps * records
    for warp in range(warps):
        own = events.take(events.block == warp)
        assert own.pc.tolist() == list(range(records))
        seed = warp * 1000003 + own.pc.astype(np.uint64)[:, None] * 10007 + _LANES
        kind = own.pc % 4
        assert np.array_equal(own.operand(0)[kind == 3], _value(seed)[kind == 3])
        assert np.array_equal(
            own.operand(0)[kind == 2], (0x1000 * own.pc.astype(np.uint64)[:, None] + 4 * _LANES)[kind == 2]
        )
        registers = own.registers()
        assert own.size[kind == 0].tolist() == [12] * (records // 4)
        place = np.arange(len(registers.record)) - np.searchsorted(registers.record, registers.record)
        value = _value(seed[registers.record] + 101 * place[:, None].astype(np.uint64))
        lanes = own.guard[registers.record][:, None] >> _LANES & 1
        assert np.array_equal(registers.value, np.where(lanes, value, 0))


def test_warps_of_a_graph_find_the_launch_that_they_are_of(tmp_path: Path) -> None:
    program = _built("nvbit_shapes", tmp_path, "nvbit/graph_launches.cpp")
    for shapes, launches, left_out in ((300, 1500, 0), (900, 3, 900 - 512)):
        said = subprocess.run(
            [program, str(shapes), str(launches)], check=True, capture_output=True, text=True
        ).stdout
        assert said.split() == [str(left_out), "0"]


_TEXTS = [
    "UTMALDG.2D [UR60], [URZ], UR6, desc[UR62] ;", "@P0 UTMASTG.5D [UR8], [UR16] ;", "@!UP1 UTMAPF.L2.1D [UR8], [UR4] ;",
    "UTMAREDG.2D.ADD [UR8], [UR14], desc[UR6]", "UBLKCP.S.G.MULTICAST [UR6], [UR8], UR4", "UBLKPF.L2 [UR6], UR4, desc[UR8]",
    "UTMAXYZ.2D [UR8], [UR4], UR6, UR7, UR9", "UTMALDG.2D [UR8], [0x10], UR6", "UTMALDG.2D [UR8]", "UTMACMDFLUSH ;",
    "UTMACCTL.PF [UR4]", "@P0", "", "  UTMALDG.2D [UR8], [UR4]  ;", "MOV R1, R2 ;", "UBLKCP",
    "UTMALDG.2D [UR8+0x10], [UR4.64], 0x3",
]  # fmt: skip


def test_the_tool_and_the_reader_agree_on_the_registers_of_a_copy(tmp_path: Path) -> None:
    listed = (ROOT / "tests" / "golden" / "device_code" / "tma_operands.txt").read_text().splitlines()
    texts = [line.split(" | ")[3] for line in listed if not line.startswith("#")] + _TEXTS
    program = _built("nvbit_tensor_copies", tmp_path, "nvbit/tensor_copies.cpp")
    said = subprocess.run(
        [program], input="\n".join(texts) + "\n", check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for text, line in zip(texts, said[:-1], strict=True):
        recorded, place, *numbers = map(int, line.split())
        parsed = tma_operands.instruction(text)
        assert (recorded == 1) == (parsed is not None), text
        assert numbers == list(parsed.registers if parsed else ()), text
        addresses = [one for one in parsed.operands if one.address] if parsed else []
        by_map = bool(parsed) and parsed.operation in ("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF")
        known = by_map and len(addresses) > 1 and len(addresses[1].slots) == 2
        assert place == (addresses[1].slots[0] if known else -1), text


def test_each_tensor_map_is_recorded_once_while_there_is_room(tmp_path: Path) -> None:
    program = _built("nvbit_tensor_copies", tmp_path, "nvbit/tensor_copies.cpp")
    said = subprocess.run([program], input="", check=True, capture_output=True, text=True).stdout.split()
    assert [int(count) for count in said] == [300, 16 + 4 * (300 - 16)]

"""The reader of core dumps on synthetic ones: drivers old and new, any size, cut and damaged."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.debug.synthetic_core import Shape, build, write
from warpsight.debug.gpucore import CoreError, GpuCore
from warpsight.debug.gpucore.layout import Kind, exception_name, lane_state
from warpsight.debug.gpucore.summary import SummaryOptions, View
from warpsight.errors import WarpsightError

SMALL = Shape()


def document(path: Path) -> dict[str, Any]:
    return View(GpuCore.open(path), SummaryOptions(ptx=(Path("/nowhere"),))).document()


def without_file(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in ("file", "sections")}


def test_every_lane_is_counted_at_its_pc(tmp_path: Path) -> None:
    found = document(write(tmp_path / "core", SMALL))
    assert found["kind"] == "hang"
    assert sum(place["lanes"] for place in found["places"]) == 2 * 2 * 2 * 32
    counts: dict[str, int] = {}
    for place in found["places"]:
        for pc in place["pcs"]:
            counts[pc["pc"]] = counts.get(pc["pc"], 0) + pc["lanes"]
    expected: dict[int, int] = {}
    for sm in range(2):
        for block in range(2):
            for warp in range(2):
                at = (sm + block + warp) % 3
                expected[at] = expected.get(at, 0) + 32
    first = min(int(pc, 16) for pc in counts)
    assert {(int(pc, 16) - first) // 16: lanes for pc, lanes in counts.items()} == expected
    assert found["grids"][0]["blocks_resident"] == 4
    assert found["devices"][0]["name"] == "NVIDIA H200"
    assert found["problems"] == []


def test_rows_that_grew_with_a_later_driver_read_the_same(tmp_path: Path) -> None:
    today = document(write(tmp_path / "today", SMALL))
    later = document(write(tmp_path / "later", Shape(row_growth=24)))
    assert without_file(later) == without_file(today)


def test_rows_of_the_first_drivers_read_with_zeros_for_what_they_lack(tmp_path: Path) -> None:
    path = write(tmp_path / "old", Shape(baseline=True))
    found, core = document(path), GpuCore.open(path)
    today = document(write(tmp_path / "today", SMALL))
    assert [(p["pcs"], p["lanes"], p["active"]) for p in found["places"]] == [
        (p["pcs"], p["lanes"], p["active"]) for p in today["places"]
    ]
    assert all(place["states"] == {} for place in found["places"])  # older drivers wrote none
    assert not core.table(Kind.WARPS).rows["cbu_active"].any()


def test_more_sections_than_an_elf_header_can_count(tmp_path: Path) -> None:
    shape = Shape(sms=16, blocks_per_sm=8, warps_per_block=8)
    core = GpuCore.open(write(tmp_path / "core", shape))
    assert len(core.elf.sections) > 0xFF00
    assert len(core.table(Kind.LANES)) == 16 * 64 * 32
    last = len(core.table(Kind.LANES)) - 1
    assert core.words_of(Kind.REGISTERS, last) == tuple(range(31 * 32, 32 * 32))
    assert core.problems == []


@pytest.mark.parametrize("code", [1, 6, 14, 17, 36, 99])
def test_an_exception_of_a_multiprocessor_is_that_of_its_warp_with_an_error_pc(
    code: int, tmp_path: Path
) -> None:
    found = document(write(tmp_path / "core", Shape(fault=code)))
    (fault,) = found["faults"]
    assert fault["exception"] == exception_name(code)
    assert fault["where"]["block"] == [3, 0, 0] and fault["sm"] == 1
    assert fault["at"]["offset"] == 0x50
    assert [frame["line"] for frame in fault["at"]["frames"]] == [5, 9, 14]


def test_a_dump_of_an_idle_gpu_says_so(tmp_path: Path) -> None:
    found = document(write(tmp_path / "core", Shape(sms=0)))
    assert found["kind"] == "idle" and found["places"] == [] and found["faults"] == []
    assert "no kernel was running when the dump was made" in found["notes"]


def test_an_unknown_code_keeps_its_number() -> None:
    assert exception_name(99) == "Unknown Exception 99"
    assert lane_state(11) == "blocked at convergence barrier B2"
    assert lane_state(200) == "state 200"


def test_a_gzipped_dump_reads_as_the_plain_one_and_a_cut_one_says_so(tmp_path: Path) -> None:
    plain = document(write(tmp_path / "core", SMALL))
    packed = gzip.compress(build(SMALL))
    (tmp_path / "core.gz").write_bytes(packed)
    assert without_file(document(tmp_path / "core.gz")) == without_file(plain)
    (tmp_path / "members.gz").write_bytes(
        gzip.compress(build(SMALL)[:9000]) + gzip.compress(build(SMALL)[9000:])
    )
    assert without_file(document(tmp_path / "members.gz")) == without_file(plain)
    (tmp_path / "cut.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CoreError, match=r"cut\.gz.*the file is truncated"):
        GpuCore.open(tmp_path / "cut.gz")


def boundaries(data: bytes) -> list[int]:
    """Begin and end of every section and of every entry of the section table."""
    path_less = GpuCore(_elf(data), Path("core"))
    headers = path_less.elf.sections
    begins = headers["offset"].tolist()
    ends = (headers["offset"] + headers["size"]).tolist()
    table = int.from_bytes(data[40:48], "little")
    entries = [table + 64 * i for i in range(len(headers) + 1)]
    return sorted({at for at in [*begins, *ends, *entries, 0, 1, 16, 63, 64] if at < len(data)})


def _elf(data: bytes) -> Any:
    from warpsight.device_code.elf import Elf

    return Elf(data, "core")


@pytest.mark.parametrize("table_first", [False, True])
def test_a_dump_cut_at_any_section_boundary_gives_what_is_left_or_a_clear_message(
    table_first: bool, tmp_path: Path
) -> None:
    shape = Shape(sms=1, blocks_per_sm=1, warps_per_block=2, table_first=table_first, registers=4)
    data = build(shape)
    read, messages = 0, []
    path = tmp_path / "cut"
    for at in boundaries(data):
        path.write_bytes(data[:at])
        try:
            found = document(path)
        except CoreError as error:
            messages.append(str(error))
            continue
        assert found["problems"] or at >= len(data) - 64, f"nothing said at {at} of {len(data)}"
        read += 1
    assert len(messages) > 3 and all(
        ("cut" in m or "too few" in m or "empty" in m) and len(m) < 600 for m in messages
    )
    assert read > (20 if table_first else 1)


def test_random_damage_never_ends_in_anything_but_a_message(tmp_path: Path) -> None:
    data = build(Shape(sms=1, blocks_per_sm=1, warps_per_block=2, registers=4, fault=14))
    table = int.from_bytes(data[40:48], "little")
    rng = random.Random(20_251_121)
    path = tmp_path / "damaged"
    outcomes, messages = set(), []
    for trial in range(250):
        bad = bytearray(data)
        low, high = (table, len(data)) if trial % 2 else (0, len(data))
        for _ in range(rng.choice([1, 3, 30])):
            bad[rng.randrange(low, high)] = rng.choice([0, 255, rng.randrange(256)])
        path.write_bytes(bad)
        try:
            outcomes.add(document(path)["kind"])
        except WarpsightError as error:
            messages.append(str(error))
    assert "exception" in outcomes
    assert messages and all(message.startswith(str(path)) for message in messages)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello", "not a GPU core dump"),
        (b"#!/bin/sh\n" * 20, "not a GPU core dump"),
        (b"\x7fELF\x01\x01\x01" + b"\0" * 60, "64-bit"),
        (build(SMALL)[:16] + b"\2\0\xbe\0" + build(SMALL)[20:], "not a CUDA core dump .a cubin"),
        (build(SMALL)[:18] + b"\x3e\0" + build(SMALL)[20:], "not a CUDA core dump .machine 62"),
        (b"\x1f\x8bnot gzip after all", "bytes are left"),
    ],
)
def test_other_files_are_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(CoreError, match=message) as caught:
        GpuCore.open(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CoreError, match=r"nothing\.here: No such file"):
        GpuCore.open(tmp_path / "nothing.here")

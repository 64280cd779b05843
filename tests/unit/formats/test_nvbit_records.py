"""What the NVBit tool writes on the device, compiled for the host, against what the reader finds in it."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsight as ws
from tests.golden.nvbit_truth import executed
from warpsight.device_code.widths import Opcode, registers
from warpsight.formats.events import kinds, tensor_copies
from warpsight.formats.events.blocks import MAGIC, Records
from warpsight.formats.events.records import Events, decode
from warpsight.formats.events.registers import AT_ONCE

ROOT = Path(__file__).parents[3]
_ALL = 0xFFFFFFFF
_LANES = np.arange(32, dtype=np.uint64)
_MASKS = [
    _ALL,
    0x1,
    0x80000000,
    0xFFFF,
    0xFFFF0000,
    0x55555555,
    0x7FFFFFFF,
    0xFFFFFFFE,
    0x00010010,
    0x0000007F,
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that writes records."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("encoder") / "nvbit_records"
    source = ROOT / "tests" / "unit" / "native" / "nvbit_records.cpp"
    flags = [
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        f"-I{ROOT / 'native'}",
    ]
    subprocess.run([compiler, *flags, str(source), "-o", str(made)], check=True)
    return made


def _block(encoder: Path, cases: list[tuple[int, int, int, int, int, Any]], flags: list[int]) -> Records:
    """The records of cases: kind, lanes, guard, registers or addresses, whether there is an operand B, their values."""
    given = b"".join(
        np.array([*head, flag], np.uint32).tobytes() + np.asarray(values, np.uint64).tobytes()
        for (*head, values), flag in zip(cases, flags, strict=True)
    )
    out = subprocess.run([str(encoder)], input=given, capture_output=True, check=True).stdout
    records, words = np.frombuffer(out[:16], np.uint64).tolist()
    lengths = np.frombuffer(out[16 : 16 + 4 * records], np.uint32)
    content = np.frombuffer(out[16 + 4 * records :], np.uint64)
    assert len(content) == words
    return Records(0, 0, lengths.astype(np.uint8), content)


def _written(encoder: Path, cases: list[tuple[int, int, int, int, int, Any]]) -> Events:
    """The records of cases, as they are read."""
    events = decode([_block(encoder, cases, [0] * len(cases))])
    assert len(events) == len(cases)  # none is refused
    return events


def _patterns(random: np.random.Generator) -> list[Any]:
    """Registers as programs have them: 32 lanes each."""
    lane = _LANES.astype(np.int64)
    floats = random.standard_normal(32).astype(np.float32).view(np.uint32)
    rows = random.integers(0, 2**32, 8)[lane // 4]
    columns = random.integers(0, 2**32, 2)[lane % 2]
    tile = 0x7F001234 + lane % 8 * 16 + lane // 8 * 40000
    swizzled = 0x1000 ^ (lane % 8 * 16) ^ (lane // 8 * 0x410)
    listed = [
        0 * lane, 7 + 0 * lane, 0 * lane - 1, lane, 5 - 3 * lane, 2**31 + lane * 2**28, floats, rows, columns, tile, swizzled,
        random.integers(0, 16, 32), random.integers(0, 4, 32), random.integers(0, 2**32, 32), lane == 5,
    ]  # fmt: skip
    return [np.asarray(one).astype(np.int64) % 2**32 for one in listed]


def test_registers_come_back_as_the_lanes_held_them(encoder: Path) -> None:
    random = np.random.default_rng(3)
    cases, expected = [], []
    for round_ in range(12):
        patterns = _patterns(random)
        for mask in _MASKS:
            size = int(random.integers(1, 13))
            chosen = np.array([patterns[i] for i in random.integers(0, len(patterns), size)])
            lanes = _ALL if round_ % 2 else mask
            cases.append((67, lanes, mask, size, 0, chosen))
            expected.append(np.where(mask >> _LANES.astype(np.int64) & 1, chosen, 0))
    events = _written(encoder, cases)
    assert events.guard.tolist() == [case[2] for case in cases]
    assert events.lanes.tolist() == [case[1] for case in cases]
    found = events.registers()
    assert found.record.tolist() == [i for i, case in enumerate(cases) for _ in range(case[3])]
    assert np.array_equal(found.value, np.concatenate(expected))
    head = {
        name: set(getattr(events, name).tolist()) for name in ("pc", "block", "warp", "launch", "sm", "time")
    }
    assert head == {
        "pc": {0x1230},
        "block": {5},
        "warp": {3},
        "launch": {7},
        "sm": {77},
        "time": {0x123456789ABCDEF},
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (0 * _LANES, 5),  # only the codes
        (0 * _LANES + 9, 6),
        (100 + 4 * _LANES, 6),
        (1000 + _LANES % 8 * 16 + _LANES // 8 * 40000, 8),
        (0x1000 ^ (_LANES % 8 * 16) ^ (_LANES // 8 * 0x410), 8),
        (_LANES * 2654435761 % 2**32 // 2**24 % 2 * 77777 + 5, 7),
        (_LANES * _LANES * 2654435761 % 2**32, 21),
    ],
)
def test_a_register_takes_as_few_words_as_its_pattern(encoder: Path, values: Any, words: int) -> None:
    events = _written(encoder, [(67, _ALL, _ALL, 1, 0, values)] * 2)
    assert int(events.sequence[1]) == words


def test_addresses_come_back_as_the_lanes_held_them(encoder: Path) -> None:
    random = np.random.default_rng(4)
    base = 0x7F12_3456_7000
    listed = [
        base + 4 * _LANES, base + _LANES % 8 * 16 + _LANES // 8 * 65536, base + _LANES // 16 * 4_000_000 + _LANES % 16 * 8,
        base + _LANES % 4 * 9_000_000, 0x400 ^ (_LANES % 8 * 16) ^ (_LANES // 8 * 0x410), base - 300 * _LANES + _LANES % 2,
        base + random.integers(0, 2**30, 32).astype(np.uint64), random.integers(0, 2**48, 32).astype(np.uint64),
        0x7F12_FFFF_FFF0 + 4 * _LANES, 0x7F12_FFFF_FFC0 + _LANES % 8 * 16 + _LANES // 8 * 40, 0 * _LANES + base,
        0x7F12 << 32 | 0xFFFF_FFF0 + 4 * _LANES & 0xFFFF_FFFF,
    ]  # fmt: skip
    cases = [(3, mask, mask, 1, 0, one) for mask in _MASKS for one in listed]
    cases += [
        (14, mask, mask, 1, 1, np.concatenate([one, 0x800 + 16 * _LANES]))
        for mask in _MASKS
        for one in listed
    ]
    events = _written(encoder, cases)
    expected = np.array([np.where(case[1] >> _LANES.astype(np.int64) & 1, case[5][:32], 0) for case in cases])
    assert np.array_equal(events.operand(0), expected.astype(np.uint64))
    first = np.array([int(case[5][(case[1] & -case[1]).bit_length() - 1]) for case in cases], np.uint64)
    both = len(cases) // 2
    second = np.array(
        [np.where(case[1] >> _LANES.astype(np.int64) & 1, case[5][32:], 0) for case in cases[both:]]
    )
    assert np.array_equal(events.operand(1)[both:], second.astype(np.uint64))
    assert np.array_equal(events.first_operand(0), first)
    assert np.diff(events.sequence)[:4].tolist() == [5, 7, 7, 21]


def test_an_instruction_says_which_lanes_its_predicate_left_out(encoder: Path) -> None:
    cases = [(66, mask, guard & mask, 0, 0, []) for mask in _MASKS for guard in (_ALL, 0xF0F0F0F0, 0)]
    events = _written(encoder, cases)
    assert executed(events).all()
    assert events.guard.tolist() == [case[2] for case in cases]
    assert events.lanes.tolist() == [case[1] for case in cases]


def _file(path: Path, block: Records, registers: list[int]) -> None:
    """An event trace of one instruction with these registers."""
    said = [
        {"kind": "process", "pid": 42, "monotonic": 1000, "realtime": 5000, "request": {"tool": "NVBit"}},
        {"kind": "function", "module": 0, "name": "_Z3addPf", "pc": 0x1200, "bytes": 0x80},
        {"kind": "operands", "module": 0, "name": "_Z3addPf", "pc": 0x1200,
         "instructions": [[0, "S2R R0, SR_TID.X ;", [0]], [0x30, "STG.E desc[UR4][R2.64], R5 ;", registers]]},
        {"kind": "launch", "launch": 7, "index": 0, "module": 0, "name": "_Z3addPf", "pc": 0x1200, "grid": [8, 1, 1],
         "block": [128, 1, 1], "cluster": [1, 1, 1], "stream": 1, "context": 16, "device": 0, "thread": 42, "monotonic": 2000,
         "realtime": 6000, "graph": 0, "registers": 24, "shared_static": 16, "shared_dynamic": 32},
    ]  # fmt: skip
    payloads = [(1, json.dumps(one).encode()) for one in said]
    lengths = block.lengths.tobytes()
    head = struct.pack("<QII", 0, 0, len(block.lengths)) + lengths + bytes(-len(lengths) % 8)
    payloads += [(2, head + block.words.tobytes()), (1, json.dumps({"kind": "end"}).encode())]
    path.write_bytes(
        MAGIC
        + b"".join(struct.pack("<IIQ", kind, zlib.crc32(data), len(data)) + data for kind, data in payloads)
    )


def test_a_trace_becomes_tables_and_cutracers_format(encoder: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    numbers = [2, 3, 256 + 4, 256 + 5, *range(5, 25), 512]  # two records
    value = random.integers(0, 2**32, (len(numbers), 32))
    value[2:4] = value[2:4, :1]
    parts = [value[:12], value[12:24], value[24:]]
    guard = 0x0F0F0F0F
    cases: list[tuple[int, int, int, int, int, Any]] = [(66, _ALL, 0, 0, 0, [])]
    cases += [(67, _ALL, guard, len(part), 0, part) for part in parts]
    cases += [(3, guard, guard, 1, 0, 0x7F0000000000 + 4 * _LANES), (67, _ALL, guard, 12, 0, parts[0])]
    path, imported, exported = tmp_path / "a.events", tmp_path / "a.warp", tmp_path / "a.ndjson"
    _file(path, _block(encoder, cases, [0, 0, 2, 4, 2, 1]), numbers)
    for command in (
        ["import", path, "-o", imported],
        ["export", imported, "--to", "cutracer", "-o", exported],
        ["sass", "validate", exported],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "warpsight", *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "warpsight", "sass", "events", str(path), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["kind"] for one in shown] == ["instruction", *["registers"] * 3, "global", "registers"]
    assert shown[1]["sass"] == "STG.E desc[UR4][R2.64], R5"
    assert list(shown[1]["registers"])[:4] == ["R2", "R3", "UR4", "UR5"]
    lanes = [lane for lane in range(32) if guard >> lane & 1]
    assert shown[1]["registers"]["R2"] == value[0, lanes].tolist()
    assert (shown[1]["registers"]["UR4"], list(shown[3]["registers"])) == ([int(value[2, 0])], ["P"])
    kernel, *records = map(json.loads, exported.read_text().splitlines())
    assert Counter(one["type"] for one in records) == {"opcode_only": 1, "reg_trace": 2, "mem_addr_trace": 1}
    assert (kernel["nregs"], kernel["shmem_static"], kernel["shmem_dynamic"]) == (24, 16, 32)
    assert kernel["instructions"]["3"]["uregs"] == [4, 5]
    found = next(one for one in records if one["type"] == "reg_trace")
    own = np.where(guard >> _LANES.astype(np.int64) & 1, value, 0)
    assert found["regs_indices"] == [2, 3, *range(5, 25), 512]
    assert found["regs"] == np.delete(own, [2, 3], axis=0).tolist()
    assert (found["uregs_indices"], found["uregs"]) == ([4, 5], value[2:4, 0].tolist())
    assert found["active_mask"] == "0x0f0f0f0f"
    assert (found["pc"], found["opcode_id"], found["warp"]) == ("0x30", 3, 5 * 4 + 3)
    assert records[-1]["ipoint"] == "after"
    with ws.open(imported) as trace:
        counted = trace.sql("SELECT uniform, count(*) FROM register GROUP BY 1 ORDER BY 1").fetchall()
    assert counted == [(False, 32 * (len(numbers) - 2 + 10)), (True, 4)]


def test_the_device_and_the_reader_agree_on_numbers() -> None:
    text = (ROOT / "native" / "nvbit" / "tool_format.h").read_text()
    said = dict(line.split()[1:3] for line in text.splitlines() if line.startswith("#define WS_"))
    assert int(said["WS_INSTRUCTION_KIND"]) == kinds.EXECUTED.number
    assert int(said["WS_REGISTERS_KIND"]) == kinds.READ_REGISTERS.number
    assert int(said["WS_REGISTERS_AT_ONCE"]) == AT_ONCE


@pytest.mark.parametrize(
    ("opcode", "widths"),
    [
        ("IMAD.WIDE.U32", (2, 1, 1, 2)), ("IMAD.MOV.U32", (1, 1, 1, 1)), ("DFMA", (2, 2, 2, 2)), ("FFMA", (1, 1, 1, 1)),
        ("HMMA.16816.F32", (4, 4, 2, 4)), ("HMMA.16816.F16", (2, 4, 2, 2)), ("HMMA.1688.F32.TF32", (4, 4, 2, 4)),
        ("IMMA.16832.S8.S8", (4, 4, 2, 4)), ("HGMMA.64x128x16.F32.BF16", (64, 4, 64, 64)),
        ("HGMMA.64x64x16.F16", (16, 4, 16, 16)),
        ("CS2R", (2,)), ("CS2R.32", (1,)), ("F2F.F64.F32", (2, 1)), ("F2F.F32.F64", (1, 2)), ("I2F.F64", (2, 1)),
        ("F2I.TRUNC.F64", (1, 2)), ("F2I.U64.TRUNC", (2, 1)), ("LDSM.16.M88.4", (4,)), ("DMMA.8x8x4", (4, 2, 2, 4)),
    ],
)  # fmt: skip
def test_operands_are_as_wide_as_the_rules_for_whole_instructions_say(
    widths_program: Path, opcode: str, widths: tuple[int, ...]
) -> None:
    given = "".join(f"{opcode} {place}\n" for place in range(len(widths)))
    said = subprocess.run(
        [str(widths_program)], input=given, capture_output=True, text=True, check=True
    ).stdout
    assert tuple(map(int, said.split())) == widths
    kind = Opcode(opcode.split(".")[0], tuple(opcode.split(".")[1:]))
    places = [-1, 0, 1, 2][: len(widths)]
    accumulators = kind.name == "HGMMA"  # what is there is a descriptor, if no accumulator
    for place, width in zip(places, widths, strict=True):
        if not (accumulators and place == 1):
            assert registers(kind, place, "R4", "R", "") == width


@pytest.fixture(scope="module")
def widths_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that says how many registers an operand spans."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("widths") / "nvbit_widths"
    sources = [
        ROOT / "tests" / "unit" / "native" / "nvbit_widths.cpp",
        ROOT / "native" / "nvbit" / "widths.cpp",
    ]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native'}"]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", str(made)], check=True)
    return made


def test_copies_and_tensor_maps_come_back_as_the_device_wrote_them(encoder: Path) -> None:
    random = np.random.default_rng(5)
    cases: list[tuple[int, int, int, int, int, Any]] = []
    for mask in _MASKS:
        for size in range(1, AT_ONCE + 1):
            registers = np.repeat(random.integers(0, 2**32, size), 32)
            key = np.repeat(random.integers(1, 2**63, 1), 32 * (size % 2))
            cases.append((70, mask, mask, size, size % 2, np.concatenate([registers, key])))
        words = random.integers(0, 2**63, 16) * random.integers(0, 2, 16)
        cases.append((71, mask, mask, 16, 0, np.repeat(words, 32)))
    events = _written(encoder, cases)
    assert events.lanes.tolist() == [case[1] for case in cases]
    copies = events.take(events.kind == 70).tensor_copies()
    chosen = [case for case in cases if case[0] == 70]
    for (_, _, _, size, with_map, values), key, held in zip(
        chosen, copies.keys.tolist(), copies.registers.tolist(), strict=True
    ):
        assert held == [*values[: 32 * size : 32].tolist(), *[0] * (AT_ONCE - size)]
        assert key == (values[-1] if with_map else 0)
    found = tensor_copies.maps(events.words, events.offset[events.kind == 71])
    expected = [np.asarray(case[5][::32], "<u8").tobytes() for case in cases if case[0] == 71]
    assert list(found.values()) == expected
    assert len(found) == len(_MASKS)  # other content, another key


def test_damaged_records_of_copies_are_refused(encoder: Path) -> None:
    cases = [
        (70, _ALL, _ALL, 5, 0, np.zeros(160, np.uint64)),
        (71, _ALL, _ALL, 16, 0, np.zeros(512, np.uint64)),
    ]
    block = _block(encoder, cases, [0, 0])
    begins = np.cumsum(block.lengths) - block.lengths
    for begin, sizes in zip(begins.tolist(), ([0, 4, 7, 13, 255], []), strict=True):
        for size in sizes:
            words = block.words.copy()
            words[begin] = words[begin] & np.uint64((1 << 56) - 1) | np.uint64(size << 56)
            assert len(decode([Records(0, 0, block.lengths, words)])) == 1
    shorter = block.lengths - np.array([0, 1], np.uint8)
    assert len(decode([Records(0, 0, shorter, block.words[:-1])])) == 1

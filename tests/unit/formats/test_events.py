"""Event traces: damaged files, encodings against plain arithmetic, and the patches that are shipped."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard

from warpsight.errors import UsageError
from warpsight.formats.errors import FormatError
from warpsight.formats.events import blocks, kinds
from warpsight.formats.events.blocks import Records
from warpsight.formats.events.records import decode
from warpsight.formats.source import Source
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import races

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "formats" / "events" / "races.events.zst"
NATIVE = ROOT / "native" / "sanitizer"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """The recorded file, not compressed."""
    path = tmp_path / "races.events"
    path.write_bytes(zstandard.ZstdDecompressor().decompress(GOLDEN.read_bytes(), max_output_size=1 << 24))
    return path


def _blocks(data: bytes) -> list[tuple[int, int, int]]:
    """Begin, kind and bytes of each block."""
    found, at = [], 8
    while at < len(data):
        kind, _, size = struct.unpack_from("<IIQ", data, at)
        found.append((at, kind, size))
        at += 16 + size
    return found


def test_a_file_that_ends_early_gives_what_came_before(whole: Path) -> None:
    data = whole.read_bytes()
    at, _, size = next(block for block in _blocks(data) if block[1] == 2)
    whole.write_bytes(data[: at + 16 + size + 5])
    trace = EventTrace(whole)
    assert len(trace.events) == 234
    assert not trace.file.complete
    assert any("ends inside a block" in note for note in trace.notes)


def test_a_file_without_its_end_says_so(whole: Path) -> None:
    data = whole.read_bytes()
    whole.write_bytes(data[: _blocks(data)[-1][0]])
    assert any("before its trace did" in note for note in EventTrace(whole).notes)


def test_a_damaged_block_is_left_out_and_said(whole: Path) -> None:
    data = bytearray(whole.read_bytes())
    at = next(block[0] for block in _blocks(bytes(data)) if block[1] == 2)
    data[at + 100] ^= 1
    whole.write_bytes(data)
    trace = EventTrace(whole)
    assert len(trace.events) == 0
    assert len(trace.launches) == 13
    assert any("checksum" in note for note in trace.notes)


def test_a_description_that_is_no_json_is_said(whole: Path) -> None:
    payload = b"{no json"
    with whole.open("ab") as file:
        file.write(struct.pack("<IIQ", 1, zlib.crc32(payload), len(payload)) + payload)
    assert any("an invalid description was left out" in note for note in EventTrace(whole).notes)


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.events"
    path.write_bytes(b"WSEVENT0" + bytes(100))
    with pytest.raises(FormatError, match="not an event trace"):
        blocks.read(Source(path))


def test_a_file_cut_before_anything_can_be_read_is_said_to_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "x.events.zst"
    path.write_bytes(GOLDEN.read_bytes()[:100])
    with pytest.raises(FormatError, match="ends early, before anything can be read"):
        blocks.read(Source(path))


def test_verbs_for_other_files_say_what_reads_an_event_trace(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from warpsight.ui.cli import app

    assert app.main(["sass", "query", str(whole)]) == 2
    assert "sass events, memory or races" in " ".join(capsys.readouterr().err.split())


def test_races_refuse_a_trace_without_barriers(whole: Path) -> None:
    trace = EventTrace(whole)
    trace.file.process["request"] = {"events": ["memory"]}
    with pytest.raises(UsageError, match="without barriers"):
        races(trace)


def test_races_refuse_a_thinned_trace(whole: Path) -> None:
    trace = EventTrace(whole)
    trace.file.process["request"]["every"] = 2
    with pytest.raises(UsageError, match="every"):
        races(trace)


def _record(lanes: int, encodings: int, size: int, payload: list[int]) -> list[int]:
    words = 4 + len(payload)
    return [lanes | 3 << 32 | words << 40 | encodings << 48 | size << 56, 0x10, 1 << 40, 99, *payload]


def test_operands_and_values_of_each_encoding() -> None:
    every_second = 0x55555555
    offsets = [-8, 4, 12]
    made = [
        _record(0xFFFFFFFF, 1, 4, [0x7F0000001000 | 4 << 48]),
        _record(every_second, 1, 4, [0x2000 | (0x10000 - 16) << 48]),
        _record(
            0b1011, 2 | 2 << 4, 4,
            [0x5000, (offsets[0] & 0xFFFFFFFF) | offsets[1] << 32, offsets[2], 7 | 8 << 32, 9],
        ),
        _record(0b11, 3 | 1 << 2 | 2 << 4, 16, [1 << 60, 5, 0x40 | 1 << 48, 1, 2, 3, 4]),
        _record(0b110, 1 | 1 << 4, 8, [0x100 | 8 << 48, 77]),
    ]  # fmt: skip
    words = np.array([word for record in made for word in record], np.uint64)
    events = decode([Records(0, 0, np.array([len(record) for record in made], np.uint8), words)])
    first, second, values = events.operand(0), events.operand(1), events.values()
    assert first[0].tolist() == [0x7F0000001000 + 4 * lane for lane in range(32)]
    assert first[1, ::2].tolist() == [0x2000 - 16 * rank for rank in range(16)]
    assert not first[1, 1::2].any()
    assert first[2, [0, 1, 3]].tolist() == [0x5000 + offset for offset in offsets]
    assert values[2, [0, 1, 3], 0].tolist() == [7, 8, 9]
    assert first[3, :2].tolist() == [1 << 60, 5]
    assert second[3, :2].tolist() == [0x40, 0x41]
    assert values[3, :2].tolist() == [[1, 2], [3, 4]]
    assert first[4, 1:3].tolist() == [0x100, 0x108]
    assert values[4, 1:3, 0].tolist() == [77, 77]
    assert events.first_operand(0).tolist() == [0x7F0000001000, 0x2000, 0x5000, 1 << 60, 0x100]
    assert events.first_operand(1).tolist() == [0, 0, 0, 0x40, 0]
    assert events.has_values.tolist() == [False, False, True, True, True]


def test_records_that_no_patch_writes_are_left_out_and_counted(whole: Path) -> None:
    data = bytearray(whole.read_bytes())
    at, _, size = next(block for block in _blocks(bytes(data)) if block[1] == 2)
    count = struct.unpack_from("<I", data, at + 16 + 12)[0]
    words = at + 16 + 16 + count + (8 - count % 8) % 8
    data[words + 6] |= 3  # operand A as a list, which is longer than the record
    data[words + 40 + 15] = 0xFF  # a block that the grid does not have
    struct.pack_into("<I", data, at + 4, zlib.crc32(bytes(data[at + 16 : at + 16 + size])))
    whole.write_bytes(data)
    trace = EventTrace(whole)
    assert len(trace.events) == 232
    assert any("no patch writes" in note and "(2)" in note for note in trace.notes)


def test_a_note_of_an_instruction_is_a_record_without_operands() -> None:
    words = np.array([1 | 3 << 32 | 4 << 40, 0x70, 0, 1000], np.uint64)
    events = decode([Records(0, 0, np.array([4], np.uint8), words)])
    assert (events.kind.tolist(), events.pc.tolist(), events.encodings.tolist()) == ([3], [0x70], [0])


def points_kinds() -> list[kinds.EventKind]:
    """The kinds that delay plans can have."""
    from warpsight.race.points import PATCHED

    return [kind for name in PATCHED for kind in kinds.CLASSES[name] if kind.name != "local"]


def test_each_kind_has_its_patch_and_number() -> None:
    source = (NATIVE / "record_patches.cuh").read_text()
    patches = dict(re.findall(r"^PATCH (ws_\w+)\([^{]*\{[^}]*?\{pc, (\d+)", source, re.MULTILINE))
    patched = [kind for kind in kinds.KINDS.values() if kind.patch]
    assert {kind.patch: str(kind.number) for kind in patched} == patches
    assert f"#define WS_DELAY_KIND {kinds.DELAY.number} " in (NATIVE / "event_format.h").read_text()
    layout = (NATIVE / "race_layout.h").read_text()
    assert f"#define WS_RACE_KIND {kinds.RACE.number} " in layout
    assert f"#define WS_UNWATCHED_KIND {kinds.UNWATCHED.number} " in layout
    shipped = (NATIVE / "patches.ptx").read_text()
    for number in kinds.CHECKED:
        assert f") {kinds.KINDS[number].check}(" in shipped
    for kind in points_kinds():
        assert f") {kind.visit}(" in shipped
    for kind in patched:
        assert f") {kind.patch}(" in shipped


def test_the_shipped_patches_are_those_of_the_source() -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    if "release 13.0" not in version:
        pytest.skip("another nvcc writes other text")
    script = ROOT / "scripts" / "generate_patches.py"
    assert subprocess.run([sys.executable, str(script), "--check"], check=False).returncode == 0


def test_patches_do_not_branch_themselves() -> None:
    """A patch with a convergence barrier of its own ended programs at calls (native/sanitizer/patches.cu)."""
    known = kinds.KINDS.values()
    patches = {name for kind in known for name in (kind.patch, kind.visit, kind.check)}
    functions = re.split(r"^(?:\.visible )?\.func", (NATIVE / "patches.ptx").read_text(), flags=re.MULTILINE)[
        1:
    ]
    found = {match.group(1): text for text in functions if (match := re.search(r"\) (\w+)\(", text))}
    assert len(patches & set(found)) > 80
    for name in patches & set(found):
        assert "bra" not in found[name].split(), name


def test_the_tables_hold_what_the_file_says(tmp_path: Path) -> None:
    import warpsight as ws

    with ws.open(GOLDEN) as trace:
        found = trace.sql("SELECT kind, count(*) FROM warp_event GROUP BY kind").fetchall()
        addresses = trace.sql("SELECT count(*) FROM access WHERE space = 4 AND address >= 1024").fetchall()
        first = trace.sql("SELECT sass FROM instruction WHERE opcode = 0 LIMIT 1").fetchall()
    assert dict(found)["mem_addr_trace"] == 138
    assert addresses[0][0] > 0
    assert first[0][0].endswith(";")


def test_what_is_exported_for_cutracer_is_valid(tmp_path: Path) -> None:
    from warpsight.sass.records.validate import validate

    out = tmp_path / "trace.ndjson"
    command = [sys.executable, "-m", "warpsight", "export", str(GOLDEN), "--to", "cutracer", "-o", str(out)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    checked = validate(out)
    assert checked.valid, checked
    kinds_written = {json.loads(line)["type"] for line in out.read_text().splitlines()}
    assert kinds_written == {"kernel_metadata", "mem_addr_trace"}

"""Reuse, dataflow, value patterns and pipelines of random accesses, against following them byte by byte."""

from __future__ import annotations

import contextlib
import io
import random
import re
import struct
import zlib
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import zstandard

from tests.unit.sass.events import Row, events
from warpsight.errors import WarpsightError
from warpsight.formats.events.kinds import READ, WRITE
from warpsight.sass.events import value_patterns as patterns
from warpsight.sass.events.dataflow import dataflow
from warpsight.sass.events.pipelines import pipelines
from warpsight.sass.events.reuse import uses
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.ui.cli import app
from warpsight.ui.render.sass import event_answers, event_pictures, pipeline_answers

BLOCKS, WARPS = 3, 2
Byte = tuple[Any, ...]


def trace_of(
    rows: list[Row], texts: dict[int, str] | None = None, second: list[Row] | None = None
) -> EventTrace:
    """A trace of one launch, or of two, without a file; instructions are at their program counters."""
    opened = EventTrace.__new__(EventTrace)
    opened.name = "made"
    found = events(rows + (second or []))
    found.launch[len(rows) :] = 1
    opened.events, opened.tensor_maps = found, {}
    opened.file = SimpleNamespace(process={}, losses=[])  # type: ignore[assignment]
    opened.launches = {
        number: TracedLaunch(number, number, f"k{number}", (BLOCKS, 1, 1), (32 * WARPS, 1, 1), (1, 1, 1), {})
        for number in ([0] if second is None else [0, 1])
    }
    known = texts or {}

    def places(_: TracedLaunch, pcs: Any) -> list[TracedInstruction]:
        return [TracedInstruction(0, "k", int(pc)) for pc in pcs]

    for name, answer in {
        "places": places, "sass": lambda place: known.get(place.offset, ""), "flow": lambda *_: None,
        "describe": lambda place: f"pc {place.offset}", "instructions": lambda *_: known,
    }.items():  # fmt: skip
        setattr(opened, name, answer)
    return opened


def program(seed: int) -> list[Row]:
    """Loads, stores and atomics of some lanes on few places, of both memories."""
    chance = random.Random(seed)
    rows = []
    for _ in range(chance.randrange(5, 60)):
        size = chance.choice((4, 4, 8, 16))
        lanes = sorted(chance.sample(range(32), chance.choice((1, 3, 8))))
        places = {lane: 16 * chance.randrange(24) for lane in lanes}
        flags = chance.choice((READ, WRITE, WRITE, READ | WRITE if size < 16 else READ))
        if flags & WRITE:  # lanes of one store do not overlap: which of them wins is open
            places = dict(
                zip(lanes, (16 * place for place in chance.sample(range(24), len(lanes))), strict=True)
            )
        values = {lane: chance.randrange(3) for lane in lanes} if flags != READ | WRITE else {}
        rows.append(
            Row(chance.choice(("global", "shared")), places, size, flags, chance.randrange(BLOCKS), chance.randrange(WARPS),
                16 * chance.randrange(6), values=values)
        )  # fmt: skip
    return rows


def touched(rows: list[Row]) -> list[tuple[Byte, Row, int, int | None]]:
    """(memory and byte, row, lane, value of the byte) in order."""
    found = []
    for row in rows:
        for lane in sorted(row.first):
            for byte in range(row.size):
                owner = row.block if row.kind == "shared" else None
                value = row.values[lane] >> 8 * byte & 0xFF if row.values else None
                found.append(((row.kind, owner, row.first[lane] + byte), row, lane, value))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_use_of_memory_is_what_following_each_byte_gives(seed: int) -> None:
    rows = program(seed)
    for use in uses(trace_of(rows)):
        own = [one for one in touched(rows) if one[0][0] == use.space]
        seen: set[tuple[Byte, int, int, int]] = set()  # threads that have had the byte since it was written
        last: dict[Byte, tuple[str, Row, int | None]] = {}
        written: dict[Byte, int | None] = {}
        sums: dict[str, int] = defaultdict(int)
        for place, row, lane, value in own:
            who = (place, row.block, row.warp, lane)
            if row.flags & WRITE:
                sums["stored"] += 1
                before = last.get(place)
                sums["overwritten"] += row.flags == WRITE and before is not None and before[0] == "store"
                sums["silent"] += (
                    row.flags == WRITE
                    and place in written
                    and written[place] is not None
                    and written[place] == value
                )
                seen = {one for one in seen if one[0] != place}
                last[place] = ("store", row, value)
                written[place] = value
            else:
                sums["loaded"] += 1
                sums["reloaded"] += who in seen
                last[place] = ("load", row, value)
            seen.add(who)
        assert (use.loaded, use.stored, use.reloaded, use.overwritten) == (
            sums["loaded"], sums["stored"], sums["reloaded"], sums["overwritten"])  # fmt: skip
        assert use.working_set == len({place for place, *_ in own})
        if use.silent is not None:  # a word is silent when all its bytes are
            assert use.silent <= sums["silent"]
        blocks: dict[int, set[Byte]] = defaultdict(set)
        for place, row, *_ in own:
            blocks[row.block].add(place)
        assert use.of_block == pytest.approx(sum(map(len, blocks.values())) / len(blocks))
        if use.space == "global":
            assert (use.falsely_shared, use.shared_lines) == _shared_lines(own)


def _shared_lines(own: list[tuple[Byte, Row, int, int | None]]) -> tuple[int, int]:
    lines: dict[int, list[tuple[Byte, Row]]] = defaultdict(list)
    for place, row, *_ in own:
        lines[place[2] // 128].append((place, row))
    falsely = shared = 0
    for listed in lines.values():

        def contended(some: list[tuple[Byte, Row]]) -> bool:
            return len({row.block for _, row in some}) > 1 and any(row.flags & WRITE for _, row in some)

        truly = any(
            contended([one for one in listed if one[0] == place]) for place in {place for place, _ in listed}
        )
        shared += contended(listed)
        falsely += contended(listed) and not truly
    return falsely, shared


@pytest.mark.parametrize("seed", range(60))
def test_dataflow_is_what_following_each_byte_gives(seed: int) -> None:
    rows, later = program(seed), program(1000 + seed)
    expected: dict[tuple[Any, ...], int] = defaultdict(int)
    inputs: dict[str, int] = defaultdict(int)
    left: dict[Byte, Row] = {}
    for name, own in (("k0", rows), ("k1", later)):
        last: dict[Byte, tuple[Row, int]] = {}
        for place, row, lane, _ in touched(own):
            if row.flags & READ:
                if place in last:
                    by, by_lane = last[place]
                    distance = (
                        "grid" if by.block != row.block else "block" if by.warp != row.warp
                        else "warp" if by_lane != lane else "thread"
                    )  # fmt: skip
                    expected[name, name, row.kind, distance, by.pc, row.pc] += 1
                elif place in left:
                    expected["k0", name, row.kind, "launch", left[place].pc, row.pc] += 1
                elif row.kind == "global":
                    inputs[name] += 1
            if row.flags & WRITE:
                last[place] = (row, lane)
        left |= {place: row for place, (row, _) in last.items() if place[0] == "global"}
    found = dataflow(trace_of(rows, second=later))
    ours = {
        (
            f.writer_kernel,
            f.kernel,
            f.space,
            f.distance,
            int(f.writer.split()[1]),
            int(f.reader.split()[1]),
        ): f.bytes
        for f in found.flows
    }
    assert ours == dict(expected)
    assert {kernel: count for kernel, count in found.inputs.items() if count} == inputs


def f32(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


@pytest.mark.parametrize(
    ("user", "values", "said"),
    [
        ("FADD R5, R4, R4", [f32(0.0)] * 32, ("float32", "all zero")),
        ("FFMA R5, R4, R4, R6", [f32(2.5)] * 32, ("float32", "always 2.5")),
        ("IADD3 R5, R4, R6, RZ", list(range(3, 99, 3)), ("integer", "fit into 8 bits; grow by 3 with each address")),
        ("IADD3 R5, R4, R6, RZ", [7] * 30 + [1 << 30, 7], ("integer", "97% are 7")),
        ("FMUL R5, R4, R6", [f32(float(n * n)) for n in range(32)],
         ("float32", "floats that are whole numbers; fit into float16")),
        ("FMUL R5, R4, R6", [f32(1.0 + n * 2.0**-20) for n in range(32)],
         ("float32", "only 1 differ in the first 8 bits of their mantissas; grow by 9.53674316e-07 with each address")),
        ("STG.E [R2], R4", list(range(32)), ("word", "")),
    ],
)  # fmt: skip
def test_values_have_the_pattern_they_were_made_with(
    user: str, values: list[int], said: tuple[str, str]
) -> None:
    row = Row("global", {lane: 0x1000 + 4 * lane for lane in range(32)}, pc=0, values=dict(enumerate(values)))
    (found,) = patterns.value_patterns(trace_of([row], {0: "LDG.E R4, desc[UR4][R2.64]", 16: user}))
    assert (found.type, "; ".join(found.patterns)) == said


def test_a_pipeline_has_each_wait_from_its_first_attempt_with_the_copies_before_it() -> None:
    one = {0: 0x800}
    rows = [
        Row("mbarrier", one, 0, 1, second=1, time=100),
        Row("bulk_load", {0: 0x7000_0000}, 16, 0, second=0x400 | 64 << 32, time=110),
        Row("mbarrier", one, 0, 2, second=1, time=120),
        Row("mbarrier", one, 0, 6, warp=1, time=130), Row("mbarrier_attempt", one, 0, 6, warp=1, time=131),
        Row("mbarrier_attempt", one, 0, 6 | 128, warp=1, time=190), Row("mbarrier", one, 0, 6, time=200),
    ]  # fmt: skip
    (block,) = pipelines(trace_of(rows))
    waits = [
        (event.warp, event.time, event.duration, event.what, event.copies)
        for event in block.events
        if "wait" in event.what
    ]
    assert waits == [(1, 30, 60, "wait", (1, 1024, 80)), (0, 100, 0, "wait without end", None)]
    assert (block.copied, block.phases, block.waited) == (1024, {0x800: 1}, 60)


GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "events"


def damaged(seed: int) -> bytes:
    """A recorded trace with other bytes in its records or descriptions, whose checksums are right again."""
    chance = random.Random(seed)
    name = ("truth", "classes")[seed % 2]
    packed = (GOLDEN / f"{name}.events.zst").read_bytes()
    data = bytearray(zstandard.ZstdDecompressor().decompress(packed, max_output_size=1 << 26))
    blocks, at = [], 8
    while at + 16 <= len(data):
        kind, _, size = struct.unpack_from("<IIQ", data, at)
        blocks.append((at, kind, size))
        at += 16 + size
    records = seed % 3 != 0
    at, _, size = chance.choice([block for block in blocks if (block[1] == 2) == records and block[2]])
    for _ in range(30):
        place = at + 16 + chance.randrange(min(size, 1 << 16))
        data[place] = chance.randrange(256) if records else chance.choice(b"0123456789-,")
    data[at + 4 : at + 8] = struct.pack("<I", zlib.crc32(bytes(data[at + 16 : at + 16 + size])))
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("error")
def test_a_damaged_file_gives_an_answer_or_a_refusal(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.events"
    path.write_bytes(damaged(seed))
    try:
        trace = EventTrace(path)
    except WarpsightError:
        return
    event_pictures.addresses(trace)
    out = io.StringIO()
    event_answers.write([event_answers.use(uses(trace), 0)], out)
    event_answers.write(event_answers.values(patterns.value_patterns(trace), 0), out)
    event_answers.write(event_answers.flows(dataflow(trace), 0), out)
    with contextlib.suppress(WarpsightError):  # damage may have taken all its copies
        event_answers.write(pipeline_answers.pipelines(pipelines(trace), 0), out)


@pytest.mark.parametrize("question", ["memory", "values", "dataflow", "tma"])
def test_each_question_has_a_page_with_a_picture_and_no_requests(question: str, tmp_path: Path) -> None:
    file = GOLDEN / ("classes.events.zst" if question == "tma" else "truth.events.zst")
    page = tmp_path / "page.html"
    assert app.main(["sass", question, str(file), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text and not re.search(r"(?:src|href)=[\"']?https?:|url\(|@import", text)
    for picture in re.findall(r"<svg.*?</svg>", text, re.S) or [""]:
        drawn = ElementTree.fromstring(picture)
        assert drawn.get("aria-label") and len(drawn) > 3

"""Segment files: what was written is read; damage is reported and costs only what it touched."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.capture.segment_writer import SegmentWriter
from warpsight import _native
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, HEADER, open_segment, read


def write_sample(path: Path, kernels: int = 2000) -> None:
    """A file of three kernel blocks and a block of strings."""
    with SegmentWriter(path, pid=7, arena=1) as out:
        out.write(
            "Kernel",
            {"correlation": np.arange(kernels), "start": np.arange(kernels) * 10},
            thread=3,
            session=2,
        )
        out.write_strings({1: "αβγ", 2: "", 3: "x" * 1000})


def test_rows_threads_and_strings_come_back(tmp_path: Path) -> None:
    write_sample(tmp_path / "a.seg")
    batches, strings, damage = read(tmp_path / "a.seg")
    kernels = batches[layout.BY_NAME["Kernel"].kind]
    assert damage == []
    assert kernels.rows["correlation"].tolist() == list(range(2000))
    assert set(kernels.thread) == {3}
    assert set(kernels.session) == {2}
    assert strings == [(1, "αβγ"), (2, ""), (3, "x" * 1000)]


@pytest.mark.parametrize("record", layout.RECORDS, ids=lambda record: record.name)
def test_every_kind_has_a_dtype_of_the_layouts_size(record: layout.Struct) -> None:
    assert DTYPES[record.kind].itemsize == record.size
    assert record.size % 8 == 0


@pytest.mark.skipif(_native.library_path() is None, reason="this build has no libwarpsight.so")
def test_the_compiled_checksums_are_zlibs() -> None:
    rng = np.random.default_rng(5)
    lengths = [
        *range(200),
        *rng.integers(0, layout.BLOCK_PAYLOAD_BYTES, 100).tolist(),
        layout.BLOCK_PAYLOAD_BYTES,
    ]
    blocks = rng.integers(0, 256, (len(lengths), layout.BLOCK_BYTES), np.uint8)
    headers = blocks[:, : layout.BLOCK_HEADER_BYTES].copy().view(HEADER)
    headers["committed"][:, 0] = lengths
    blocks[:, : layout.BLOCK_HEADER_BYTES] = headers.view(np.uint8)
    found = np.zeros(len(lengths), np.uint32)
    _native.load().ws_block_crcs(blocks.ctypes.data, len(blocks), found.ctypes.data)
    covered = (
        block[: layout.BLOCK_HEADER_BYTES - 4].tobytes()
        + block[layout.BLOCK_HEADER_BYTES : layout.BLOCK_HEADER_BYTES + length].tobytes()
        for block, length in zip(blocks, lengths, strict=True)
    )
    assert found.tolist() == [zlib.crc32(data) for data in covered]


def test_without_compiled_parts_damage_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(_native.ENVIRONMENT, str(tmp_path / "none.so"))
    write_sample(tmp_path / "a.seg")
    data = bytearray((tmp_path / "a.seg").read_bytes())
    data[layout.BLOCK_BYTES + 1000] ^= 1
    (tmp_path / "a.seg").write_bytes(data)
    batches, _, damage = read(tmp_path / "a.seg")
    assert [d.cause for d in damage] == ["a block's checksum does not match"]
    assert 0 < len(batches[layout.BY_NAME["Kernel"].kind].rows) < 2000


def test_a_file_cut_anywhere_gives_what_is_whole_and_says_what_is_not(tmp_path: Path) -> None:
    write_sample(tmp_path / "whole.seg")
    data = (tmp_path / "whole.seg").read_bytes()
    per_block = layout.BLOCK_PAYLOAD_BYTES // layout.BY_NAME["Kernel"].size
    for size in range(0, len(data), 4096):
        path = tmp_path / "cut.seg"
        path.write_bytes(data[:size])
        batches, _, damage = read(path)
        found = len(batches[21].rows) if 21 in batches else 0
        assert found >= min(2000, size // layout.BLOCK_BYTES * per_block)
        complete = size % layout.BLOCK_BYTES == 0
        assert bool(damage) != complete or found == 2000  # a cut behind the committed bytes loses nothing


def test_a_block_is_complete_when_the_file_ends_right_behind_its_rows(tmp_path: Path) -> None:
    with SegmentWriter(tmp_path / "a.seg", pid=1, arena=1) as out:
        out.write("Sample", {"time": [1, 2, 3]})
    short = layout.BLOCK_HEADER_BYTES + 3 * layout.BY_NAME["Sample"].size
    (tmp_path / "b.seg").write_bytes((tmp_path / "a.seg").read_bytes()[:short])
    batches, _, damage = read(tmp_path / "b.seg")
    assert batches[31].rows["time"].tolist() == [1, 2, 3]
    assert damage == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    places=st.lists(
        st.tuples(st.integers(0, 4 * layout.BLOCK_BYTES - 1), st.integers(1, 255)), min_size=1, max_size=8
    )
)
def test_random_damage_never_raises_and_loses_only_the_blocks_it_hit(
    tmp_path: Path, places: list[tuple[int, int]]
) -> None:
    path = tmp_path / "damaged.seg"
    write_sample(path)
    data = bytearray(path.read_bytes())
    for offset, change in places:
        data[offset] ^= change
    path.write_bytes(data)
    segment = open_segment(path)
    good = {block.slot for block in segment.blocks()}
    hit = {offset // layout.BLOCK_BYTES for offset, _ in places}
    assert {0, 1, 2, 3} - hit <= good
    assert {damage.offset // layout.BLOCK_BYTES for damage in segment.damage} <= hit
    assert good | {damage.offset // layout.BLOCK_BYTES for damage in segment.damage} == {0, 1, 2, 3}


def test_an_unsealed_block_is_taken_up_to_what_is_committed(tmp_path: Path) -> None:
    rows = np.zeros(5, DTYPES[31])
    rows["time"] = range(5)
    with SegmentWriter(tmp_path / "a.seg", pid=1, arena=1) as out:
        out.write_block("Sample", rows.tobytes(), sealed=False)
    (block,) = open_segment(tmp_path / "a.seg").blocks()
    assert not block.sealed
    assert block.rows()["time"].tolist() == [0, 1, 2, 3, 4]


def test_a_newer_layout_version_is_refused_by_name(tmp_path: Path) -> None:
    write_sample(tmp_path / "a.seg")
    data = bytearray((tmp_path / "a.seg").read_bytes())
    data[4:6] = (9).to_bytes(2, "little")
    (tmp_path / "a.seg").write_bytes(data)
    _, _, damage = read(tmp_path / "a.seg")
    assert "layout version 9" in damage[0].cause

"""Rings under load: every row is read once or counted as lost, whatever the policy."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.native import segment_reader


def stress(
    program: Path, directory: Path, *arguments: object
) -> tuple[dict[str, int], segment_reader.Recording]:
    """Run the stress program; what it says, and what its segments hold."""
    done = subprocess.run(
        [program, directory, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=True
    )
    return json.loads(done.stdout), segment_reader.read(directory)


def lost_rows(recording: segment_reader.Recording) -> int:
    """Rows that Loss rows tell of."""
    assert all(source == "ring" for source, _, _ in recording.losses())
    return sum(count for _, _, count in recording.losses())


def test_64_threads_at_once_lose_nothing(ring_stress: Path, tmp_path: Path) -> None:
    said, recording = stress(ring_stress, tmp_path, 64, 5000, "newest", 2000)
    rows = recording["Api"]
    assert said["refused"] == 0
    assert Counter(row["correlation"] for row in rows) == dict.fromkeys(range(64), 5000)
    assert len({(row["correlation"], row["start"]) for row in rows}) == len(rows)
    assert len({row["_thread"] for row in rows}) == 64
    assert (recording.damaged, recording.gaps, recording.losses()) == (0, 0, [])


def test_every_row_finds_its_name_and_shape(ring_stress: Path, tmp_path: Path) -> None:
    _, recording = stress(ring_stress, tmp_path, 8, 3000, "newest", 500)
    shapes = {row["id"]: row["grid_x"] for row in recording["Shape"]}
    assert len(shapes) == 100
    assert all(
        recording.strings[int(row["name"])] == f"kernel {int(row['start']) % 257}" for row in recording["Api"]
    )
    assert all(shapes[row["shape"]] == row["start"] % 100 for row in recording["Api"])


def test_rows_of_one_thread_come_in_the_order_it_wrote_them(ring_stress: Path, tmp_path: Path) -> None:
    _, recording = stress(ring_stress, tmp_path, 4, 20000, "wait", 1000)
    for number in range(4):
        assert [r["start"] for r in recording["Api"] if r["correlation"] == number] == list(range(20000))


def test_a_full_ring_drops_the_newest_rows_and_counts_each(ring_stress: Path, tmp_path: Path) -> None:
    said, recording = stress(ring_stress, tmp_path, 2, 150000, "newest", 400000)
    assert said["refused"] > 0
    assert len(recording["Api"]) == said["accepted"]
    assert lost_rows(recording) == said["refused"] == said["dropped"]
    first = min(row["start"] for row in recording["Loss"])
    assert 0 < first <= min(row["end"] for row in recording["Loss"])
    assert all(row["kind"] == 20 for row in recording["Loss"])


def test_drop_oldest_accepts_every_row_and_counts_what_it_overwrote(
    ring_stress: Path, tmp_path: Path
) -> None:
    said, recording = stress(ring_stress, tmp_path, 2, 150000, "oldest", 400000)
    assert said["refused"] == 0
    assert said["dropped"] > 0
    assert recording.gaps > 0
    assert len(recording["Api"]) + lost_rows(recording) == 300000
    last = {n: max(r["start"] for r in recording["Api"] if r["correlation"] == n) for n in range(2)}
    assert last == {0: 149999, 1: 149999}


def test_what_a_visit_copied_of_a_block_that_is_dropped_later_is_not_counted_as_lost(
    ring_stress: Path, tmp_path: Path
) -> None:
    said, recording = stress(ring_stress, tmp_path, 1, 150000, "oldest", -1)
    assert said["dropped"] > 0
    assert len(recording["Api"]) + lost_rows(recording) == 150000


def test_wait_loses_nothing_while_the_drainer_lives(ring_stress: Path, tmp_path: Path) -> None:
    said, recording = stress(ring_stress, tmp_path, 2, 100000, "wait", 20000)
    assert (said["refused"], said["dropped"]) == (0, 0)
    assert len(recording["Api"]) == 200000


@pytest.mark.slow
def test_ten_thousand_short_threads_recycle_their_rings(ring_stress: Path, tmp_path: Path) -> None:
    said, recording = stress(ring_stress, tmp_path, 50, 20, "newest", 1000, 200)
    assert len(recording["Api"]) + lost_rows(recording) == 10000 * 20
    assert lost_rows(recording) == 0
    assert said["rings"] < 10_000
    assert len({row["correlation"] for row in recording["Api"]}) == 10000


def test_closed_segments_are_whole_blocks_and_private(ring_stress: Path, tmp_path: Path) -> None:
    stress(ring_stress, tmp_path, 4, 200000, "wait", 1000)
    files = sorted(tmp_path.iterdir())
    assert len(files) > 4  # 45 MB: however late a visit comes, the rings hold a part of that
    assert all(f.suffix == ".seg" and f.stat().st_size % 65536 == 0 for f in files)
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}


def test_a_damaged_block_costs_that_block_only(ring_stress: Path, tmp_path: Path) -> None:
    _, before = stress(ring_stress, tmp_path, 1, 100000, "wait", 1000)
    victim = max(tmp_path.glob("data-*.seg"), key=lambda p: p.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[3 * 65536 + 1000] ^= 0xFF  # a row
    data[5 * 65536 + 1] ^= 0xFF  # a header
    victim.write_bytes(data)
    after = segment_reader.read(tmp_path)
    assert after.damaged == 2
    assert len(before["Api"]) - len(after["Api"]) == 2 * (65472 // 56)

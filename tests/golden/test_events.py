"""Event traces recorded on an H100: every access is the one that the program must have made, and races are found.

The programs are `tests/gpu/event_*.cu`; `truth.json` is what event_truth printed of its buffers in the recorded run.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.formats.events.kinds import KINDS
from warpsight.sass.event_memory import accesses
from warpsight.sass.event_trace import EventTrace
from warpsight.sass.races.detect import races

FOLDER = Path(__file__).parent / "events"
RACES = Path(__file__).parent / "formats" / "events" / "races.events.zst"
LOAD, STORE, ATOMIC = 1, 2, 3
Access = tuple[str, int, int, int, int, int, int | None]


@pytest.fixture(scope="module")
def truth() -> EventTrace:
    return EventTrace(FOLDER / "truth.events.zst")


@pytest.fixture(scope="module")
def base() -> dict[str, int]:
    found: dict[str, int] = json.loads((FOLDER / "truth.json").read_text())
    return found


def _recorded(trace: EventTrace, kernel: str) -> Counter[Access]:
    """Space, block, thread, operation, address, bytes and value of each lane's accesses."""
    launch = next(one for one in trace.launches.values() if one.name.startswith(kernel + "("))
    events = trace.of_launch(launch.number)
    events = events.take(events.is_access)
    addresses, values, known = events.operand(0), events.values(), events.has_values
    found: Counter[Access] = Counter()
    for row, lane in zip(*(part.tolist() for part in np.nonzero(events.active)), strict=True):
        low, high = (int(half) for half in values[row, lane])
        found[
            KINDS[int(events.kind[row])].space, int(events.block[row]), int(events.warp[row]) * 32 + lane,
            int(events.flags[row]) & 3, int(addresses[row, lane]), int(events.size[row]),
            low | high << 64 if known[row] else None,
        ] += 1  # fmt: skip
    return found


def _f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _f64(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


def _index(i: int) -> int:
    return (i * 7919 + 13) % 1024


def test_a_vector_add_loads_both_operands_and_stores_their_sum(
    truth: EventTrace, base: dict[str, int]
) -> None:
    expected: Counter[Access] = Counter()
    for i in range(500):
        block, thread = divmod(i, 128)
        for name in "ab":
            expected["global", block, thread, LOAD, base[name] + 4 * i, 4, _f32(0.25 * i)] += 1
        expected["global", block, thread, STORE, base["c"] + 4 * i, 4, _f32(0.5 * i)] += 1
    assert _recorded(truth, "add") == expected


def test_a_strided_load_has_its_stride(truth: EventTrace, base: dict[str, int]) -> None:
    expected: Counter[Access] = Counter()
    for i in range(256):
        block, thread = divmod(i, 128)
        expected["global", block, thread, LOAD, base["a"] + 132 * i, 4, _f32(8.25 * i)] += 1
        expected["global", block, thread, STORE, base["c"] + 4 * i, 4, _f32(8.25 * i)] += 1
    assert _recorded(truth, "strided") == expected


def test_a_padded_transposition_goes_through_shared_memory(truth: EventTrace, base: dict[str, int]) -> None:
    expected: Counter[Access] = Counter()
    expected["global", 0, 0, STORE, base["bases"], 8, base["tile"]] += 1
    for y in range(32):
        for x in range(32):
            i = 32 * y + x
            expected["global", 0, i, LOAD, base["a"] + 4 * i, 4, _f32(0.25 * i)] += 1
            expected["shared", 0, i, STORE, base["tile"] + 4 * (33 * y + x), 4, _f32(0.25 * i)] += 1
            turned = _f32(0.25 * (32 * x + y))
            expected["shared", 0, i, LOAD, base["tile"] + 4 * (33 * x + y), 4, turned] += 1
            expected["global", 0, i, STORE, base["c"] + 4 * i, 4, turned] += 1
    assert _recorded(truth, "transpose") == expected


def test_a_gather_has_the_address_of_every_lane(truth: EventTrace, base: dict[str, int]) -> None:
    expected: Counter[Access] = Counter()
    for i in range(512):
        block, thread = divmod(i, 128)
        value = _f64(3.0 * _index(i))
        expected["global", block, thread, LOAD, base["index"] + 4 * i, 4, _index(i)] += 1
        expected["global", block, thread, LOAD, base["d"] + 8 * _index(i), 8, value] += 1
        expected["global", block, thread, STORE, base["e"] + 8 * i, 8, value] += 1
    assert _recorded(truth, "gather") == expected


def test_wide_and_narrow_accesses_have_their_values(truth: EventTrace, base: dict[str, int]) -> None:
    expected: Counter[Access] = Counter()
    for i in range(64):
        wide = sum(_f32(0.25 * (4 * i + word)) << 32 * word for word in range(4))
        expected["global", 0, i, LOAD, base["a"] + 16 * i, 16, wide] += 1
        expected["global", 0, i, STORE, base["c"] + 16 * i, 16, wide] += 1
        expected["global", 0, i, LOAD, base["bytes"] + i, 1, 3 * i % 256] += 1
        expected["global", 0, i, STORE, base["out"] + i, 1, 3 * i % 256] += 1
    assert _recorded(truth, "vectors") == expected


def test_atomics_of_both_spaces_are_told(truth: EventTrace, base: dict[str, int]) -> None:
    expected: Counter[Access] = Counter()
    expected["global", 0, 0, STORE, base["bases"] + 8, 8, base["local"]] += 1
    for block in range(4):
        inside = Counter(_index(128 * block + thread) % 64 for thread in range(128))
        for thread in range(128):
            i = 128 * block + thread
            expected["global", block, thread, LOAD, base["index"] + 4 * i, 4, _index(i)] += 1
            expected["shared", block, thread, ATOMIC, base["local"] + 4 * (_index(i) % 64), 4, None] += 1
        for bin_ in range(64):
            expected["shared", block, bin_, STORE, base["local"] + 4 * bin_, 4, 0] += 1
            expected["shared", block, bin_, LOAD, base["local"] + 4 * bin_, 4, inside[bin_]] += 1
            expected["global", block, bin_, ATOMIC, base["bins"] + 4 * bin_, 4, None] += 1
    assert _recorded(truth, "histogram") == expected


def test_memory_names_the_strided_load_and_the_bank_conflict(truth: EventTrace) -> None:
    found = {(row.kernel.split("(")[0], row.space, row.operation): row for row in accesses(truth)}
    assert found["conflicted", "shared", "load"].per_request == 32
    assert found["transpose", "shared", "load"].per_request == 1
    assert found["strided", "global", "load"].per_request == 32
    assert found["strided", "global", "store"].per_request == 4
    assert [row.kernel.split("(")[0] for row in accesses(truth)[:2]] == ["conflicted", "strided"]
    assert "event_truth.cu" in found["strided", "global", "load"].where


@pytest.fixture(scope="module")
def raced() -> Any:
    return races(EventTrace(RACES))


def test_every_planted_race_is_found_and_no_repaired_twin(raced: Any) -> None:
    names = Counter(race.kernel.split("(")[0] for race in raced.races)
    assert set(names) == {"shared_race", "loop_race", "warp_race", "flag_race", "scope_race", "global_race"}
    assert raced.notes == ()


def test_a_missing_barrier_has_a_witness_with_both_lines(raced: Any) -> None:
    race = next(race for race in raced.races if race.kernel.startswith("shared_race"))
    assert (race.space, race.first.operation, race.second.operation) == ("shared", "store", "load")
    assert [side.frames[0].line for side in (race.first, race.second)] == [6, 7]
    assert race.first.thread + race.second.thread == 127
    assert "barrier" in race.reason


def test_a_missing_fence_before_a_flag_is_told_by_both_blocks(raced: Any) -> None:
    race = next(race for race in raced.races if race.kernel.startswith("flag_race"))
    assert (race.first.block, race.second.block) == (0, 1)
    assert (race.first.operation, race.second.operation) == ("store", "load")
    assert "fence" in race.reason


def test_a_block_scope_atomic_across_blocks_is_a_race(raced: Any) -> None:
    race = next(race for race in raced.races if race.kernel.startswith("scope_race"))
    assert race.first.operation == race.second.operation == "atomic"
    assert race.first.block != race.second.block


def test_every_class_was_recorded(tmp_path: Path) -> None:
    trace = EventTrace(FOLDER / "classes.events.zst")
    seen = Counter(KINDS[int(kind)].name for kind in trace.events.kind)
    assert {
        "global", "shared", "remote_shared", "matrix", "copy_async", "barrier", "barrier_release", "shuffle", "mbarrier",
        "mbarrier_attempt", "pipeline_commit", "pipeline_wait", "bulk_load", "bulk_store", "cluster_arrive", "cluster_wait",
        "wgmma", "wgmma_wait", "wgmma_fence", "call", "return", "malloc", "free",
    } == set(seen)  # fmt: skip
    assert trace.file.complete
    assert trace.notes == []


def test_kernels_of_a_graph_are_told_apart() -> None:
    trace = EventTrace(FOLDER / "classes.events.zst")
    nodes = [launch for launch in trace.launches.values() if launch.said["graph"]]
    assert [launch.name.split("(")[0] for launch in nodes] == ["calls", "shuffles"] * 2
    kinds = [sorted({KINDS[int(k)].name for k in trace.of_launch(launch.number).kind}) for launch in nodes]
    assert kinds == [["call", "global", "return"], ["global", "shuffle"]] * 2


def test_a_pipeline_with_mbarriers_and_clusters_has_no_race() -> None:
    assert races(EventTrace(FOLDER / "classes.events.zst")).races == ()

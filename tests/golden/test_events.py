"""Event traces recorded on an H100: every access is the one that the program must have made, and races are found.

The programs are `tests/gpu/event_*.cu`; `truth.json` is what event_truth printed of its buffers in the recorded run.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.golden import event_truth
from warpsight.formats.events.kinds import KINDS
from warpsight.sass.events.memory import accesses
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races import fences
from warpsight.sass.races.detect import races

FOLDER = Path(__file__).parent / "events"
RACES = Path(__file__).parent / "formats" / "events" / "races.events.zst"


@pytest.fixture(scope="module")
def truth() -> EventTrace:
    return EventTrace(FOLDER / "truth.events.zst")


@pytest.fixture(scope="module")
def base() -> dict[str, int]:
    found: dict[str, int] = json.loads((FOLDER / "truth.json").read_text())
    return found


@pytest.mark.parametrize("kernel", event_truth.EXPECTED)
def test_every_access_of_every_lane_is_told(truth: EventTrace, base: dict[str, int], kernel: str) -> None:
    assert event_truth.recorded(truth, kernel) == event_truth.EXPECTED[kernel](base)


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


def test_what_the_async_proxy_reads_is_fenced_and_without_the_fence_it_is_a_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = EventTrace(FOLDER / "classes.events.zst")
    monkeypatch.setitem(trace.file.process, "request", {"events": ["memory", "barriers"]})
    assert races(trace).races == ()
    monkeypatch.setattr(fences, "_PROXY_FENCE", "no such instruction")
    found = {
        race.kernel.split("(")[0]: (race.reason, race.first.operation, race.second.sass.split()[0])
        for race in races(trace).races
    }
    why = "no fence.proxy.async between a store and a bulk copy or matrix product that reads the stored data"
    assert found == {
        "bulk": (why, "store", "UBLKCP.G.S"),
        "matrices": (why, "store", "HGMMA.64x8x16.F32.BF16"),
    }


def test_stores_beside_what_the_async_proxy_reads_are_races_and_their_repaired_twins_are_not() -> None:
    found = races(EventTrace(FOLDER / "async.events.zst")).races
    lines: dict[str, set[tuple[int, int]]] = {}
    for race in found:
        pair = race.first.frames[0].line, race.second.frames[0].line
        lines.setdefault(race.kernel.removeprefix("void ").split("(")[0], set()).add(pair)
    # Lines as recorded: store and bulk copy; stores and product; product and the store behind it.
    assert lines == {
        "copied<false>": {(19, 23)},
        "multiplied<false>": {(43, 31), (44, 31)},
        "overwritten<false>": {(31, 71)},
    }
    reasons = {race.reason.split(" (")[0] for race in found if race.kernel.startswith("void overwritten")}
    assert reasons == {"a matrix product without a wait"}

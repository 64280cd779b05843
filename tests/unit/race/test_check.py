"""One verdict from runs recorded on an H100: event traces and racecheck's reports of `tests/gpu/race` and its repaired twins."""

from __future__ import annotations

import pytest

from tests.golden.race_verdicts import FOLDER, checked
from warpsight.race.check import Provoked, suspicious
from warpsight.race.suspects import EVENTS, RACECHECK, Suspect
from warpsight.sass.events.trace import EventTrace

#: Program → detectors, lines of the first suspect, and what its repair says.
EXPECTED = {
    "missing_barrier": ((EVENTS, RACECHECK), {12, 18}, ("__syncthreads()",)),
    "wrong_named_barrier": ((EVENTS,), {15, 23}, ("the same named barrier", "bar.arrive")),
    "flag_without_fence": ((EVENTS,), {8, 18}, ("__threadfence() between flag_without_fence.cu:14", "the load at")),
    "lock_without_acquire": ((EVENTS,), {13, 14}, ("__threadfence() between lock_without_acquire.cu:9",)),
    "split_k": ((EVENTS,), {10}, ("atomicAdd", "a lock")),
    "wrong_scope": ((EVENTS,), {18, 27}, ("device scope instead of block scope for the atomic at wrong_scope.cu:24",)),
    "double_buffer": ((EVENTS, RACECHECK), {17, 14}, ("one buffer more", "__syncthreads()")),
    "two_streams": ((EVENTS,), {4, 8}, ("cudaEventRecord", "cudaStreamWaitEvent")),
    "tma_without_wait": ((RACECHECK,), {37, 27}, ("wait for the mbarrier of the bulk copy", "tma_without_wait.cu:27")),
    "wrong_phase": ((RACECHECK,), {20, 27}, ("the mbarrier's phase", "wrong_phase.cu:20")),
    "cluster_peer_exits": ((RACECHECK,), {15}, ("cluster.sync()", "cluster_peer_exits.cu:15")),
}  # fmt: skip

#: Kernel of `tests/gpu/hand_overs.cu` that lacks something → how its repair begins; the others lack nothing.
HAND_OVERS = {
    "one_side_locks": "the lock of hand_overs.cu:26 around the store at hand_overs.cu:30 too",
    "plain_beside_atomic": "the store at hand_overs.cu:46 as an atomic (atomicExch)",
    "unfenced_flag": "__threadfence_block() between the store at hand_overs.cu:52 and hand_overs.cu:53, which sets",
    "fence_of_the_block": "__threadfence() between the store at hand_overs.cu:76 and hand_overs.cu:78, which sets the flag",
}


def _lines(suspect: Suspect) -> set[int]:
    return {int(line.rpartition(":")[2]) for line in suspect.lines}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_race_has_its_lines_and_its_repair(name: str) -> None:
    found_by, lines, repair = EXPECTED[name]
    found = checked(name)
    assert found.racy
    first = found.suspects[0]
    assert (first.found_by, _lines(first)) == (found_by, lines)
    assert all(words in first.repair for words in repair), first.repair


@pytest.mark.parametrize("name", EXPECTED)
def test_repaired_twins_have_no_finding(name: str) -> None:
    assert not checked(f"{name}_fixed").racy


def test_what_a_hand_over_lacks_is_named_and_complete_ones_have_no_finding() -> None:
    found = {suspect.kernel.split("(")[0]: suspect.repair for suspect in checked("hand_overs").suspects}
    assert found.keys() == HAND_OVERS.keys()
    assert all(found[kernel].startswith(repair) for kernel, repair in HAND_OVERS.items()), found


def test_detectors_that_disagree_are_said() -> None:
    assert any("found only by racecheck" in text for text in checked("wrong_phase").disagreements)
    assert any(
        "found only by the event trace" in text for text in checked("wrong_named_barrier").disagreements
    )
    assert checked("missing_barrier").disagreements == ()


def test_delays_count_as_evidence_and_as_doubt() -> None:
    nothing = Provoked("not reproduced", 0, 100, 0, 100, "not reproduced")
    assert any(
        "did not make the program fail in 100 runs" in t for t in checked("split_k", nothing).disagreements
    )
    failed = Provoked("reproduced", 9, 10, 0, 10, "reproduced")
    found = checked("split_k_fixed", failed)
    assert found.racy and any("no detector names two accesses" in text for text in found.disagreements)
    assert not checked("split_k_fixed", Provoked("natural", 9, 10, 9, 10, "natural")).racy


def test_the_suspicious_points_are_those_of_the_race() -> None:
    trace = EventTrace(FOLDER / "missing_barrier.events.zst")
    found = suspicious([trace])
    assert [(point.kind, point.source[0].rpartition(":")[2]) for point in found] == [
        ("shared", "12"),
        ("shared", "18"),
    ]
    assert suspicious([EventTrace(FOLDER / "missing_barrier_fixed.events.zst")]) == []


def test_the_warps_of_a_race_are_told_around_their_accesses() -> None:
    (first, second) = checked("missing_barrier").moments[0]
    assert (first.name, second.name) == ("block 0, warp 0", "block 0, warp 1")
    assert [(m.sort, m.line) for m in first.moments if m.racing] == [("store", "missing_barrier.cu:12")]
    assert [(m.sort, m.line) for m in second.moments if m.racing] == [("load", "missing_barrier.cu:18")]
    assert [m.ns for m in second.moments] == sorted(m.ns for m in second.moments)
    fill, copy = checked("two_streams").moments[0]
    assert fill.name.startswith("fill(int*, int), block 0") and copy.name.startswith("copy(")


def test_accesses_that_racecheck_alone_names_are_found_in_the_trace_by_their_lines() -> None:
    _, written = checked("tma_without_wait").moments[0]
    assert [(m.sort, m.line) for m in written.moments if m.racing] == [("copy", "mbarriers.h:37")]
    exits = checked("cluster_peer_exits").moments[0]
    assert [row.name for row in exits] == ["block 0, warp 0", "block 1, warp 0"]
    assert [m.line for m in exits[0].moments if m.racing] == ["cluster_peer_exits.cu:15"]

"""What a merge says of its outcome: each piece of work in one folded line, and tables that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpsight.analysis.merge import merge as module
from warpsight.analysis.merge.clocks import ClockOffset
from warpsight.analysis.merge.inputs import LaunchedWork, LaunchingCalls
from warpsight.analysis.merge.matching import ALONE, AMBIGUOUS, FOREIGN, MATCHED
from warpsight.analysis.merge.merge import Merged
from warpsight.formats.reading.samples import Samples

MS = 1_000_000


def clock(explained: float = 1.0, drift: float = 0.0) -> ClockOffset:
    return ClockOffset(np.array([0, MS]), np.array([100, 100 + round(drift * MS)]), explained, 0.0)


def made(
    stacks: list[tuple[int, int, int]], starts: list[int], work: list[tuple[int, int, int, int]], **more: Any
) -> Merged:
    """`stacks`: time, state and call; `work`: call, label, duration and bytes."""
    time, state, call = (np.array([row[place] for row in stacks], np.int64) for place in range(3))
    none = np.zeros(len(stacks), np.int64)
    frames = [
        (("_start", "a.out", 0),),
        (("main", "a.out", 1), ("run;fast", "b.so", 2)),
        (("main", "a.out", 1),),
    ]
    samples = Samples(
        time, none, none, np.arange(len(stacks)) % 3, none, frames, ["cudaLaunchKernel"], [None]
    )  # type: ignore[list-item]
    zeros = np.zeros(len(starts), np.int64)
    calls = LaunchingCalls(
        np.array(starts, np.int64), zeros, zeros, np.arange(len(starts)), zeros, ["cudaLaunchKernel"]
    )
    columns = [np.array([row[place] for row in work], np.int64) for place in range(4)]
    held = LaunchedWork(columns[0], columns[1], ["gemm", "relu", "copy"], columns[2], columns[3])
    values = {"clock": clock(), "by_thread": True, **more}
    return Merged(samples, calls, held, call, state.astype(np.uint8), **values)


#: Three stacks on calls 0, 1 and 3 (which left no work), one alone, one ambiguous near call 2, one foreign.
STACKS = [
    (0, MATCHED, 0),
    (10, MATCHED, 1),
    (20, MATCHED, 3),
    (30, ALONE, -1),
    (5 * MS, AMBIGUOUS, -1),
    (50, FOREIGN, -1),
]
STARTS = [100, 110, 5 * MS + 100, 120, 9 * MS]
WORK = [(0, 0, 40, 1), (0, 0, 2, 1), (1, 1, 7, 8), (2, 1, 300, 16), (-1, 2, 5, 32), (4, 0, 11, 64)]


@pytest.mark.parametrize(
    ("weight", "amounts"),
    [("time", (42, 7, 300, 5, 11)), ("bytes", (2, 8, 16, 32, 64)), ("count", (2, 1, 1, 1, 1))],
)
def test_every_piece_of_work_is_in_one_line(weight: str, amounts: tuple[int, ...]) -> None:
    found = made(STACKS, STARTS, WORK).folded(weight)
    lines = {
        "[no host stack];gemm": amounts[0]
        + amounts[4],  # its only frame says nothing; and call 4 has no stack
        "main;run:fast;relu": amounts[1],
        "[host stack ambiguous];relu": amounts[2],
        "[launch not recorded];copy": amounts[3],
    }
    pending = (
        {"main;[GPU_Launch_Pending]": 1, "[no host stack];[GPU_Launch_Pending]": 1}
        if weight == "count"
        else {}
    )
    assert found == lines | pending


def test_only_stacks_without_a_launch_or_work_are_pending() -> None:
    """Not those that are ambiguous or of other processes, although they are on no call that left work."""
    whole = made(STACKS, STARTS, [row for row in WORK if row[0] >= 0])
    assert np.flatnonzero(whole._pending()).tolist() == [2, 3]
    pending = {line: count for line, count in whole.folded("count").items() if "Pending" in line}
    assert sum(pending.values()) == 2


@pytest.mark.parametrize(
    ("starts", "unsure"),
    [
        ([MS + 99, MS + 100, 0], [1]),
        ([2 * MS + 100, 3 * MS + 100, 3 * MS + 101], [0, 1]),
        ([100, 4 * MS + 100, 4 * MS + 99], [1]),
        ([5 * MS + 100, 6 * MS + 100, 6 * MS + 101], [0, 1]),
    ],
)
def test_calls_within_a_millisecond_of_an_ambiguous_stack_are_unsure(
    starts: list[int], unsure: list[int]
) -> None:
    stacks = [(2 * MS, AMBIGUOUS, -1), (5 * MS, AMBIGUOUS, -1)]
    found = made(stacks, sorted(starts), [])
    assert found._unsure_calls().tolist() == sorted(sorted(starts).index(starts[place]) for place in unsure)


def test_a_call_with_a_stack_is_not_unsure_and_without_a_known_clock_all_others_are() -> None:
    stacks = [(0, MATCHED, 1), (10, AMBIGUOUS, -1)]
    assert made(stacks, [100, 110, 9 * MS], [])._unsure_calls().tolist() == [0]
    assert made(stacks, [100, 110, 9 * MS], [], clock=clock(0.1))._unsure_calls().tolist() == [0, 2]
    assert made(stacks, [100, 110], [], clock=None)._unsure_calls().tolist() == []
    assert made(stacks[:1], [100, 110], [])._unsure_calls().tolist() == []


def test_the_parts_of_the_work_add_up() -> None:
    found = made(STACKS, STARTS, WORK).summary()
    rows = {
        row["work"]: (row["count"], row["time"], row["bytes"])
        for row in found.tables["conservation"].to_pylist()
    }
    assert rows == {
        "with their stack": (3, 49, 10),
        "ambiguous": (1, 300, 16),
        "without a stack": (1, 11, 64),
        "launch not recorded": (1, 5, 32),
        "all": (6, 365, 122),
    }
    assert [tuple(row.values()) for row in found.tables["kernels"].to_pylist()] == [
        ("relu", 2, 307),
        ("gemm", 3, 53),
        ("copy", 1, 5),
    ]
    assert [one.text for one in found.findings] == [
        "1 stack could belong to more than one launch; it is on none",
        "1 stack has no launch in the GPU trace",
        "1 stack belongs to a process that the GPU trace does not have",
    ]
    assert [one.severity for one in found.findings] == ["warning", "warning", "note"]


@pytest.mark.parametrize(
    ("more", "row"),
    [
        ({"clock": clock(0.75, 2e-5)}, (100, 20.0, 75.0, 0.0, "thread")),
        ({"by_thread": False}, (100, 0.0, 100.0, 0.0, "process")),
        ({"clock": None, "by_id": 1234}, (None, None, None, None, "id for 1,234")),
    ],
)
def test_the_clock_in_ppm_and_percent(more: dict[str, Any], row: tuple[Any, ...]) -> None:
    (found,) = made(STACKS, STARTS, WORK, **more).summary().tables["clock"].to_pylist()
    assert tuple(found.values()) == pytest.approx(row)


@pytest.mark.parametrize(
    ("ours", "theirs", "own", "tell"),
    [
        ([1, 2], [1, 2], [0, 1], True),
        ([1, 2], [1, 2, 3], [0, 1], False),  # fewer of ours: perhaps all have the pid
        ([7, 7], [7], [0, 1], True),
        ([7, 7], [7, 8], [0, 1], False),
        ([1, 9], [1], [0, 1], False),
        ([1, 9], [1], [0], True),
        ([1, 2, 3], [1, 2, 3], [0, 1, 2], True),
    ],
)
def test_threads_tell_pairs_apart_where_all_of_them_are_known(
    ours: list[int], theirs: list[int], own: list[int], tell: bool
) -> None:
    none = np.zeros(len(ours), np.int64)
    samples = Samples(none, none, np.array(ours), none, none, [], [], [])
    zeros = np.zeros(len(theirs), np.int64)
    calls = LaunchingCalls(zeros, np.array(theirs), zeros, zeros, zeros, [])
    assert module._threads_tell(samples, calls, np.array(own)) == tell


@pytest.mark.parametrize("seed", range(5))
def test_sequences_hold_what_can_be_pairs_by_process_function_and_thread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 40, 50
    process, group, tid = rng.integers(-1, 2, n), rng.integers(0, 3, n), rng.integers(0, 3, n)
    own, call_group, thread = rng.integers(0, 2, m), rng.integers(-1, 3, m), rng.integers(0, 4, m)
    times, starts = np.sort(rng.integers(0, 1_000, n)), rng.integers(0, 1_000, m)
    none = np.zeros(n, np.int64)
    samples = Samples(times, none, tid, none, none, [], [], [])
    calls = LaunchingCalls(starts, thread, own, np.zeros(m), np.zeros(m), [])
    moments = rng.permutation(times)
    for threaded in (False, True):
        found = module._sequences(samples, calls, process, group, call_group, moments, threaded)
        pairs = set()
        for ours, theirs in found:
            assert len(ours) and len(theirs)
            assert (np.diff(moments[ours]) >= 0).all() and (np.diff(starts[theirs]) >= 0).all()
            pairs |= {(a, b) for a in ours.tolist() for b in theirs.tolist()}
        assert pairs == {
            (a, b)
            for a in range(n)
            for b in range(m)
            if process[a] == own[b] and group[a] == call_group[b] and (not threaded or tid[a] == thread[b])
        }

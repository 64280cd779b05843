"""The merge against known truth: every generated stack carries the number of its launch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.merge import Plan, made
from warpsight.analysis.merge import compat, trace_file
from warpsight.analysis.merge.matching import AMBIGUOUS, FOREIGN, MATCHED
from warpsight.analysis.merge.merge import DROPPED, NO_CALL, NO_STACK, Merged, merge
from warpsight.formats.reading.samples import Samples
from warpsight.model import open as open_trace

GOLDEN = Path(__file__).parents[3] / "golden" / "merge"
STACKS = 4_000


def merged(tmp_path: Path, **plan: Any) -> tuple[Merged, np.ndarray]:
    """A merge and the launch (by correlation) that each stack truly is of, 0 for a foreign one."""
    samples, truth = made(tmp_path / "gpu.warp", Plan(launches=STACKS, **plan))
    with open_trace(tmp_path / "gpu.warp") as trace:
        return merge(samples, trace), truth


def wrong(result: Merged, truth: np.ndarray) -> int:
    """Stacks on another launch than their own."""
    found = np.flatnonzero(result.state == MATCHED)
    return int((result.calls.correlation[result.call[found]] != truth[found]).sum())


@pytest.mark.parametrize(
    ("plan", "share"),
    [
        ({}, 1.0),
        ({"offset_ns": 1_000_000}, 1.0),
        ({"offset_ns": -300_000_000}, 1.0),
        ({"offset_ns": 1_700_000_000_000_000_000}, 1.0),
        ({"drift_ppm": 200}, 1.0),
        ({"drift_ppm": -200, "offset_ns": 300_000_000}, 1.0),
        ({"lost_stacks": 0.02}, 0.99),
        ({"threads": 4}, 1.0),
        ({"foreign": 0.1}, 1.0),
        ({"graphs": 0.1}, 1.0),
        ({"gap_ns": 2_000}, 0.99),
        ({"threads": 4, "tids": False}, 0.7),
        ({"threads": 4, "lost_stacks": 0.02, "drift_ppm": 200, "offset_ns": 10**9, "foreign": 0.1, "graphs": 0.1}, 0.99),
        ({"threads": 4, "tids": False, "lost_stacks": 0.02, "drift_ppm": 200, "foreign": 0.1, "graphs": 0.1}, 0.7),
    ],
)  # fmt: skip
def test_no_stack_is_on_a_wrong_launch(tmp_path: Path, plan: dict[str, Any], share: float) -> None:
    result, truth = merged(tmp_path, **plan)
    assert wrong(result, truth) == 0
    own = truth > 0
    assert (result.state[own] == MATCHED).mean() >= share
    assert set(result.state[~own].tolist()) <= {FOREIGN}
    conservation = {row["work"]: row for row in result.summary().tables["conservation"].to_pylist()}
    assert (
        sum(row["time"] for name, row in conservation.items() if name != "all") == conservation["all"]["time"]
    )
    assert sum(result.folded("time").values()) == int(result.work.duration.sum())
    assert sum(v for k, v in result.folded("count").items() if "Pending" not in k) == len(result.work)


def test_calls_at_even_distances_are_not_guessed_at(tmp_path: Path) -> None:
    result, truth = merged(tmp_path, even=True, lost_stacks=0.02, offset_ns=300_000_000)
    assert (result.state[truth > 0] == AMBIGUOUS).all()
    assert "equally well" in str(result.summary().findings)


def test_all_kernels_of_a_graph_are_under_the_stack_that_launched_it(tmp_path: Path) -> None:
    result, _ = merged(tmp_path, graphs=0.1)
    lines = result.folded("count")
    assert set(lines.values()) == {1, 8}
    assert all("cudaGraphLaunch" in line for line, count in lines.items() if count == 8)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_ids_decide_where_both_files_have_them(tmp_path: Path, share: float) -> None:
    """Even at even distances, where times alone say nothing; stacks without an id are left to the times."""
    samples, truth = made(tmp_path / "gpu.warp", Plan(launches=STACKS, even=share == 1.0, offset_ns=10**15))
    ids = np.where(np.arange(len(truth)) < share * len(truth), truth, -1)
    with open_trace(tmp_path / "gpu.warp") as trace:
        result = merge(replace(samples, correlation=ids), trace)
        shifted = merge(replace(samples, correlation=ids + 7, stacks=foreign(samples)), trace)
    assert wrong(result, truth) == 0 and (result.state == MATCHED).mean() > 0.99
    assert result.by_id == (ids > 0).sum()
    assert shifted.by_id == 0  # ids of something else: not one call is of the function that the stack names


def test_one_program_is_the_same_in_both_files_whatever_its_process_ids(tmp_path: Path) -> None:
    """A container's processes have other ids inside and outside. With two programs, nothing says which is which."""
    samples, truth = made(tmp_path / "gpu.warp", Plan(launches=STACKS))
    outside = np.full(len(samples.pid), int(samples.pid.max()) + 1000, samples.pid.dtype)
    two = outside + (np.arange(len(outside)) % 2).astype(outside.dtype)
    with open_trace(tmp_path / "gpu.warp") as trace:
        one = merge(replace(samples, pid=outside), trace)
        assert wrong(one, truth) == 0 and (one.state == MATCHED).mean() > 0.99
        assert (merge(replace(samples, pid=two), trace).state == FOREIGN).all()


def foreign(samples: Samples) -> list[Any]:
    """The stacks, as if taken in another function."""
    return [(*frames[:-1], ("cudaLaunchCooperativeKernel", *frames[-1][1:])) for frames in samples.stacks]


def test_kernels_without_a_stack_stay_under_a_root(tmp_path: Path) -> None:
    result, _ = merged(tmp_path, lost_stacks=0.5)
    lines = result.folded("count")
    assert sum(count for line, count in lines.items() if line.startswith(NO_STACK)) > STACKS / 3
    assert not any(line.startswith(NO_CALL) for line in lines)


@pytest.mark.parametrize("tolerance", ["10", "0.0005"])
def test_compat_gives_what_the_script_gave(monkeypatch: pytest.MonkeyPatch, tolerance: str) -> None:
    monkeypatch.chdir(GOLDEN)
    told = compat.merge("stacks.txt", "gpu.json", "merged.folded", float(tolerance), summary=True)
    assert told.folded == Path(f"merged-{tolerance}.folded").read_text()
    assert "".join(f"{line}\n" for line in told.lines) == Path(f"printed-{tolerance}.txt").read_text()


def test_compat_reads_events_that_have_a_time_a_length_and_an_id(tmp_path: Path) -> None:
    def event(name: str, category: str, ts: object, dur: object, correlation: object) -> dict[str, Any]:
        return {"name": name, "cat": category, "ts": ts, "dur": dur, "args": {"correlationId": correlation}}

    whole = [
        event("cudaLaunchKernel", "CUDA_Runtime", 10.5, 2, 7), event("Kernel: gemm", "x", 20, 1.25, 7),
        event("relu", "GPU_Kernel", 30, 1, 3), event("cudaLaunchKernel", "CUDA_Runtime", 1, 2, 3),
    ]  # fmt: skip
    others = [
        event("cudaFree", "CUDA_Runtime", 1, 2, 8), event("cudaLaunchKernel", "other", 1, 2, 8),
        event("Kernel: a", "x", 0, 2, 8), event("Kernel: b", "x", 1, 0, 8), event("Kernel: c", "x", 1, 2, 0),
        {"name": "Kernel: d", "dur": 2, "args": {"correlationId": 8}},
        {"name": "Kernel: e", "ts": 1, "args": {"correlationId": 8}},
        {"name": "Kernel: f", "ts": 1, "dur": 2},
    ]  # fmt: skip
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"traceEvents": [*whole, *others]}))
    kernels, (launches, events) = compat._events(str(path))
    assert [tuple(vars(one).values()) for one in kernels] == [
        ("relu", 30_000, 31_000, 3),
        ("gemm", 20_000, 21_250, 7),
    ]
    assert launches == {7: (10_500, 12_500), 3: (1_000, 3_000)}
    assert events == [7, 3]


@pytest.mark.parametrize("plan", [{"lost_stacks": 0.3, "foreign": 0.1}, {"even": True, "lost_stacks": 0.02}])
def test_a_merged_trace_has_the_stacks_and_says_which_found_no_launch(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    result, truth = merged(tmp_path, **plan)
    skipped = replace(result, samples=replace(result.samples, skipped=3))
    with open_trace(tmp_path / "gpu.warp") as trace:
        trace_file.write(skipped, trace, tmp_path / "out.warp", "stacks.txt")
        before = {table: trace.arrow(table).to_pylist() for table in ("launch", "kernel")}
    with open_trace(tmp_path / "out.warp") as trace:
        after = {table: trace.arrow(table).to_pylist() for table in ("launch", "kernel")}
        losses = [(row["cause"], row["count"], row["severity"]) for row in trace.arrow("loss").to_pylist()]
        frames = trace.stacks({row["stack"] for row in after["launch"]} - {None})
    found = np.flatnonzero(result.state == MATCHED)
    expected = {int(truth[row]): result.samples.stacks[int(result.samples.stack[row])] for row in found}
    for table, rows in after.items():
        for old, new in zip(before[table], rows, strict=True):
            taken = expected.get(new["correlation"])
            assert (new["stack"] is None) == (taken is None)
            assert {**old, "stack": 0} == {**new, "stack": 0}
            if taken is not None:
                kept = [frame[0] for frame in taken if frame[0] not in DROPPED]
                assert [text.partition(" (")[0] for text in frames[new["stack"]]] == kept
    counts = result.counts()
    why = {
        "ambiguous": "host stacks could belong to more than one launch and are on none",
        "alone": "host stacks have no launch in the GPU trace",
    }
    text = f"host stacks were merged from stacks.txt: {counts['matched']:,} of {STACKS:,} found their launch"
    assert losses == [
        (text.replace(f"{STACKS:,}", f"{counts['stacks']:,}"), 0, "note"),
        *((why[key], counts[key], "lost") for key in why if counts[key]),
        ("lines of the stack file could not be read", 3, "lost"),
    ]


def test_why_no_stack_found_its_launch(tmp_path: Path) -> None:
    result, _ = merged(tmp_path)
    every = len(result.state)

    def why(state: int, **changed: Any) -> str | None:
        return replace(result, state=np.full(every, state, result.state.dtype), **changed).failure()

    assert result.failure() is None and result.clock is not None and result.clock.known
    assert why(FOREIGN) == "they belong to processes that the GPU side does not have"
    text = "the GPU side's 4,000 launches are of other functions, or too far away in time"
    assert why(AMBIGUOUS) == why(AMBIGUOUS, clock=None) == text
    unknown = replace(result.clock, explained=0.0)
    assert why(AMBIGUOUS, clock=unknown) == "the clocks of the two files cannot be related"
    assert why(AMBIGUOUS, calls=replace(result.calls, **{
        name: column[:0] for name, column in vars(result.calls).items() if isinstance(column, np.ndarray)
    })) == "the GPU side has no launches"  # fmt: skip

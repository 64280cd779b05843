"""Recordings of two ranks on two H200s (NCCL): what was planted is named first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.verdict import JobVerdict, judge

HERE = Path(__file__).parent


def verdict(folder: Path, name: str) -> JobVerdict:
    shutil.copy(HERE / name, folder)  # summaries are written beside traces
    return judge(load([folder], LocalExecutor(1)))


def test_a_rank_that_computes_more_from_step_16_on(tmp_path: Path) -> None:
    found = verdict(tmp_path, "ranks_straggler.warp.zip")
    first = found.findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 1, "imbalance")
    assert first.values["first_step"] == 15 and "since step 16 of 40" in first.text
    # Twenty products of 2048 × 2048 matrices take about 6.8 ms.
    assert first.values["cost"] == pytest.approx(25 * 6.76e6, rel=0.05)


def test_a_slow_loader_on_one_rank(tmp_path: Path) -> None:
    first = verdict(tmp_path, "ranks_loader.warp.zip").findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 1, "host")
    assert "load_batch (ranks.py:" in first.text
    assert first.values["cost"] == pytest.approx(39 * 20e6, rel=0.1)


def test_a_rank_that_never_comes_is_named_with_what_it_did_instead(tmp_path: Path) -> None:
    found = verdict(tmp_path, "ranks_hang.warp.zip")
    first = found.findings[0]
    assert (first.rule, first.values["ranks"], first.values["waiting"]) == ("cluster/hang", [1], [0])
    assert "read_shard (ranks.py:" in first.text


def test_bandwidths_are_those_of_nvlink(tmp_path: Path) -> None:
    rows = verdict(tmp_path, "ranks_straggler.warp.zip").collectives.to_pylist()
    buckets = next(row for row in rows if row["operation"] == "all-reduce" and row["count"] == 117)
    # nccl-tests gives some 250 GB/s for 32 MiB over the 18 links of two H200s.
    assert buckets["bytes"] == 33_570_816 and 200e9 < buckets["bus_bandwidth"] < 300e9


def test_dumps_of_the_watchdog_name_the_rank_that_never_called() -> None:
    first = judge(load([HERE / "flight_recorder" / "hang"])).findings[0]
    assert (first.rule, first.values["ranks"], first.values["sequence"]) == ("cluster/hang", [1], 64)


def test_dumps_of_the_watchdog_name_the_rank_that_called_something_else() -> None:
    first = judge(load([HERE / "flight_recorder" / "order"])).findings[0]
    assert (first.rule, first.values["ranks"], first.values["sequence"]) == ("cluster/mismatch", [1], 64)
    assert any("train (ranks.py:" in line for line in first.evidence)


def test_a_stage_of_a_pipeline_that_never_comes_is_named_from_the_recording_of_a_killed_job(
    tmp_path: Path,
) -> None:
    """NCCL's receive never ended on the device, so there is no record of its kernel; the job was ended by SIGTERM."""
    first = verdict(tmp_path, "jobs/pipeline_hang.warp.zip").findings[0]
    assert (first.rule, first.values["ranks"], first.values["waiting"]) == ("cluster/hang", [0], [1])
    assert (
        "never came to the receive number 161" in first.text
        and "it was in read_shard (layouts.py:" in first.text
    )


def test_a_slow_loader_among_ranks_that_share_each_layer(tmp_path: Path) -> None:
    first = verdict(tmp_path, "jobs/tensor_loader.warp.zip").findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 0, "host")
    assert first.values["name"].startswith("load_batch (layouts.py:")
    assert first.values["cost"] == pytest.approx(39 * 20e6, rel=0.1)

"""A rank that is late because it waited for another one is not to blame."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cluster.generated_grids import Grid
from tests.unit.cluster.generated_jobs import Job as DataParallel
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.verdict import JobVerdict, judge


def verdict(folder: Path) -> JobVerdict:
    return judge(load([folder], LocalExecutor(1)))


@pytest.mark.parametrize("rank", [0, 5])
def test_the_rank_whose_partners_are_late_because_of_it_is_named_alone(tmp_path: Path, rank: int) -> None:
    """Its neighbor waits for it in each layer, enters the other group late, and half of the ranks wait for the neighbor."""
    Grid(slow=(rank, 1.3)).write(tmp_path / "job")
    found = verdict(tmp_path / "job")
    named = [one for one in found.findings if one.rule in ("cluster/straggler", "cluster/imbalance")]
    assert [one.values["rank"] for one in named] == [rank]
    assert found.findings[0] is named[0]
    excess = 0.3 * 1_000_000 * 5 * 12  # of five kernels in each of twelve steps
    assert named[0].values["cost"] == pytest.approx(excess, rel=0.15)
    assert found.steps == 12


def test_even_ranks_of_several_groups_have_no_straggler(tmp_path: Path) -> None:
    Grid().write(tmp_path / "job")
    assert not [one for one in verdict(tmp_path / "job").findings if one.rule == "cluster/straggler"]


@pytest.mark.parametrize("rank", [3, 6])
def test_the_rank_that_hangs_comes_before_those_that_wait_for_it_elsewhere(tmp_path: Path, rank: int) -> None:
    Grid(hung=(rank, 7)).write(tmp_path / "job")
    hangs = [one for one in verdict(tmp_path / "job").findings if one.rule == "cluster/hang"]
    assert hangs[0].values["ranks"] == [rank]
    assert len(hangs) > 1


def _job(folder: Path, **given: object) -> Path:
    clock = {rank: (rank * 7_000_000_000, 0.0) for rank in range(4)}
    DataParallel(steps=8, factor={2: 1.5}, clock=clock, **given).write(folder)  # type: ignore[arg-type]
    return folder


def test_a_rank_keeps_its_number_when_another_recording_claims_one_twice(tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    shutil.rmtree(job / "rank=00003")
    shutil.copytree(job / "rank=00001", job / "rank=00003")
    found = verdict(job)
    assert "rank 2 " in found.headline
    assert any(one.rule == "cluster/rank" and one.values["claimed"] == 1 for one in found.findings)


def test_ranks_that_disagree_on_the_size_of_the_job_are_told(tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    other = _job(tmp_path / "other", ranks=6)
    shutil.rmtree(job / "rank=00003")
    shutil.copytree(other / "rank=00003", job / "rank=00003")
    rules = [one.rule for one in verdict(job).findings]
    assert "cluster/world-size" in rules
    assert "cluster/missing" not in rules


def test_a_rank_that_recorded_another_time_is_told(tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    part = next((job / "rank=00003" / "table=clock").rglob("*.parquet"))
    rows = pq.read_table(part, partitioning=None)
    moved = pa.array([value + 600 * 10**9 for value in rows["realtime"].to_pylist()], rows["realtime"].type)
    pq.write_table(rows.set_column(rows.column_names.index("realtime"), "realtime", moved), part)
    told = [one.text for one in verdict(job).findings if one.rule == "cluster/window"]
    assert len(told) == 1
    assert told[0].startswith("by its wall clock, rank 3 is 600 s away")


def test_collectives_whose_file_is_gone_are_counted(tmp_path: Path) -> None:
    job = _job(tmp_path / "job")
    next((job / "rank=00001" / "table=collective").rglob("*.parquet")).unlink()
    told = [one.text for one in verdict(job).findings if one.rule == "cluster/lost"]
    assert told == ["rank 1: 16 rows are missing (files of table collective are gone)"]


def test_two_operations_in_the_other_order_do_not_move_a_short_list(tmp_path: Path) -> None:
    """Moved by a step and more, the rest would fit better than it does beside the two."""
    job = _job(tmp_path / "job", source="names", mismatch=(1, 2, "operation"))
    found = [one for one in verdict(job).findings if one.rule == "cluster/mismatch"]
    assert [one.values["ranks"] for one in found] == [[1]]
    assert found[0].values["number"] == 4

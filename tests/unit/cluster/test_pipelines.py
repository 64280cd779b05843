"""Which stage of a pipeline sets the pace."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cluster.generated_pipelines import Pipeline
from warpsight.cluster import job
from warpsight.cluster.verdict import JobVerdict, judge


def verdict(folder: Path, pipeline: Pipeline) -> JobVerdict:
    return judge(job.load(pipeline.write(folder)))


@pytest.mark.parametrize("stage", range(4))
def test_the_slow_stage_is_named_with_the_step_it_became_slow_in(tmp_path: Path, stage: int) -> None:
    found = verdict(tmp_path, Pipeline(slow=(stage, 3.0), since=8))
    assert found.steps == 24
    first = found.findings[0]
    assert first.rule == "cluster/bubble"
    assert first.values["rank"] == stage
    assert f"the stage of rank {stage} (GPU {stage}) sets the pace, since step 9 of 24" in first.text
    assert first.values["cause"] == "throttled"


def test_a_barrier_at_the_end_is_not_taken_for_what_joins_the_steps(tmp_path: Path) -> None:
    found = verdict(tmp_path, Pipeline(stages=2, slow=(0, 2.0), announced=False, barrier=True))
    assert found.steps == 24 and found.length > 0 and "the messages' period" in found.summary
    first = found.findings[0]
    assert (first.rule, first.values["rank"]) == ("cluster/bubble", 0)
    assert "the stage of rank 0 (GPU 0) sets the pace" in first.text


@pytest.mark.parametrize("stage", [1, 3])
def test_a_stage_that_is_slower_by_little_sets_the_pace_of_a_long_bubble(tmp_path: Path, stage: int) -> None:
    """It waits only a little less than the others, who wait half of their time even without it."""
    first = verdict(tmp_path, Pipeline(slow=(stage, 1.05))).findings[0]
    assert (first.rule, first.values["rank"]) == ("cluster/bubble", stage)
    assert "sets the pace" in first.text


def test_a_first_stage_that_waits_for_its_data_sets_the_pace(tmp_path: Path) -> None:
    first = verdict(tmp_path, Pipeline(late=20_000_000)).findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/bubble", 0, "host")
    assert "load batch" in first.text


def test_no_stage_of_an_even_pipeline_sets_the_pace(tmp_path: Path) -> None:
    first = verdict(tmp_path, Pipeline()).findings[0]
    assert first.rule == "cluster/bubble"
    assert "sets the pace" not in first.text


def test_stages_that_take_turns_in_having_most_to_do_come_before_the_bubbles(tmp_path: Path) -> None:
    """Bubbles cost more than the uneven load, but the schedule leaves them with even load, too."""
    found = verdict(tmp_path, Pipeline(uneven=1.5)).findings
    assert [one.rule for one in found][:2] == ["cluster/imbalance", "cluster/bubble"]
    assert found[0].values["ranks"] == 4
    # Eight kernels of 1 ms in each of 24 steps, half as long again; the first step's are before the first message.
    assert found[0].values["cost"] == pytest.approx(24 * 8 * 500_000, rel=0.15)


@pytest.mark.parametrize("same", [False, True])
def test_ranks_that_share_a_gpu_are_said_to(tmp_path: Path, same: bool) -> None:
    shared = [
        one for one in verdict(tmp_path, Pipeline(same_gpu=same)).findings if one.rule == "cluster/shared"
    ]
    assert [one.values["ranks"] for one in shared] == ([[0, 1, 2, 3]] if same else [])

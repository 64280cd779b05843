"""Which processes belong to one job."""

from __future__ import annotations

from warpsight.recorder.join import job_of


def test_ranks_of_one_job_agree_and_other_jobs_differ() -> None:
    first = {"TORCHELASTIC_RUN_ID": "a", "MASTER_PORT": "29500", "RANK": "0"}
    assert job_of(first) == job_of({**first, "RANK": "1"})
    assert job_of(first) != job_of({**first, "TORCHELASTIC_RUN_ID": "b"})


def test_a_batch_script_is_no_rank_but_its_steps_are() -> None:
    assert job_of({"SLURM_JOB_ID": "7"}) == ""
    assert job_of({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}) == "slurm:7:0"


def test_outside_of_a_job_there_is_none() -> None:
    assert job_of({"HOME": "/root"}) == ""

"""What a job's recordings say: each planted fault is named first, with its rank, its cause and what it costs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.cluster.generated_jobs import Job
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load
from warpsight.cluster.matching import match
from warpsight.cluster.steps import _period
from warpsight.cluster.summary import RankSummary, _places_on
from warpsight.cluster.verdict import JobVerdict, judge
from warpsight.errors import WarpsightError

#: Hosts boot at different moments and their oscillators differ.
CLOCKS = {1: (5_000_000_000, 20e-6), 2: (-900_000_000, -35e-6), 3: (40_000_000_000, 3e-6)}


def verdict(folder: Path, job: Job) -> JobVerdict:
    job.write(folder)
    return judge(load([folder], LocalExecutor(1)))


def test_a_rank_with_slower_kernels_on_a_low_clock_is_named_with_its_clock(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(factor={2: 1.3}, clock=CLOCKS, clock_mhz={2: 1500.0}))
    first = found.findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 2, "throttled")
    assert "1,500 MHz" in first.text
    # 20 steps of two buckets of three kernels of 1 ms, each 30% longer.
    assert first.values["cost"] == pytest.approx(20 * 2 * 3 * 300_000, rel=0.1)


def test_a_slow_loader_of_one_rank_is_named_with_its_range_and_its_steps(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(loading={1: 12_000_000}, every=5, clock=CLOCKS))
    first = found.findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 1, "host")
    assert first.values["name"] == "load batch"
    assert (
        "in 3 of 20 steps (6, 11, 16)" in first.text
    )  # before the first collective nothing says who was late
    assert first.values["cost"] == pytest.approx(3 * 12_000_000, rel=0.1)


def test_the_step_from_which_on_a_kernel_is_slow_is_told(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(slow_kernel={3: ("softmax", 2.5)}, since=8, clock=CLOCKS))
    first = found.findings[0]
    assert (first.values["rank"], first.values["name"], first.values["first_step"]) == (3, "softmax", 8)
    assert "since step 9 of 20" in first.text


@pytest.mark.parametrize("source", ["table", "ranges", "names"])
def test_the_straggler_is_found_whatever_told_the_collectives(tmp_path: Path, source: str) -> None:
    found = verdict(tmp_path, Job(factor={1: 1.5}, source=source, clock=CLOCKS))
    assert found.findings[0].values["rank"] == 1
    sized = [row for row in found.collectives.to_pylist() if row["bus_bandwidth"]]
    assert bool(sized) == (source != "names")
    for row in sized:
        assert row["transfer"] == pytest.approx(44_000, rel=0.15)


def test_exposed_communication_saves_its_share_of_the_judged_time(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(compute=30_000, steps=6))
    first = found.findings[0]
    assert first.rule == "cluster/exposed"
    assert first.saves_ns == pytest.approx(first.values["share"] * found.length, abs=1)


def test_sends_and_receives_of_an_all_to_all_are_no_pipeline(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(factor={1: 1.5}, source="titles", clock=CLOCKS))
    assert (found.findings[0].rule, found.findings[0].values["rank"]) == ("cluster/straggler", 1)
    assert found.collectives["operation"].unique().to_pylist() == ["all-to-all"]


@pytest.mark.parametrize("kind", ["operation", "size"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_mismatched_collective_comes_before_everything_else(tmp_path: Path, kind: str, ranks: int) -> None:
    found = verdict(tmp_path, Job(ranks=ranks, mismatch=(1, 7, kind), factor={0: 1.5}, clock=CLOCKS))
    first = found.findings[0]
    assert (first.rule, first.severity, first.values["kind"]) == ("cluster/mismatch", "error", kind)
    assert first.values["ranks"] == [1]
    assert first.values["number"] == 14


def test_even_ranks_have_no_straggler(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(jitter=0.001, clock=CLOCKS))
    assert not [one for one in found.findings if one.severity in ("warning", "error")]
    assert found.headline == "no rank holds the others up"


def test_ranks_that_are_late_in_turn_are_a_load_imbalance(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(jitter=0.3, ranks=8, steps=40))
    assert found.findings[0].rule == "cluster/imbalance"


def test_a_planted_clock_is_recovered_and_its_bound_holds(tmp_path: Path) -> None:
    Job(clock=CLOCKS, steps=60).write(tmp_path)
    job = load([tmp_path], LocalExecutor(1))
    for row in range(1, 4):
        clock = job.clocks.clocks[job.clocks.of[row]]
        offset, drift = CLOCKS[row]
        for t in (1.01e9, 1.1e9, 1.3e9):
            shown = offset + round(t * (1 + drift))
            error = abs(int(clock.corrected([shown])[0]) - t)
            assert error < 20_000
            assert clock.bound is not None and error <= clock.bound


def test_a_missing_rank_leaves_a_qualified_answer(tmp_path: Path) -> None:
    paths = Job(factor={2: 1.5}, clock=CLOCKS).write(tmp_path)
    shutil.rmtree(paths[3])
    found = judge(load([tmp_path], LocalExecutor(1)))
    assert [one.values["ranks"] for one in found.findings if one.rule == "cluster/missing"] == [[3]]
    assert [one.values["rank"] for one in found.findings if one.rule == "cluster/straggler"] == [2]


def test_a_truncated_partition_leaves_a_qualified_answer(tmp_path: Path) -> None:
    paths = Job(factor={2: 1.5}, clock=CLOCKS).write(tmp_path)
    part = next((paths[0] / "table=kernel").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])
    found = judge(load([tmp_path], LocalExecutor(2)))
    assert [one.values["path"] for one in found.findings if one.rule == "cluster/unread"] == [str(paths[0])]
    assert [one.values["rank"] for one in found.findings if one.rule == "cluster/straggler"] == [2]


def test_a_second_question_reads_the_summaries_alone(tmp_path: Path) -> None:
    paths = Job(factor={1: 1.5}).write(tmp_path)
    before = judge(load([tmp_path], LocalExecutor(1)))
    for path in paths:
        shutil.rmtree(path / "table=kernel")
    after = judge(load([tmp_path], LocalExecutor(1)))
    assert after.to_json() == before.to_json()


def test_a_changed_trace_is_read_again(tmp_path: Path) -> None:
    Job(factor={1: 1.5}).write(tmp_path / "run")
    assert judge(load([tmp_path / "run"], LocalExecutor(1))).findings[0].values["rank"] == 1
    for path in (tmp_path / "run").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    Job(factor={2: 1.5}, steps=21).write(tmp_path / "run")
    assert judge(load([tmp_path / "run"], LocalExecutor(1))).findings[0].values["rank"] == 2


def test_a_recording_that_began_later_is_matched_by_its_ends(tmp_path: Path) -> None:
    """All operations look alike, so only the ends tell by how many places the second rank's recording is behind."""
    Job(ranks=2, buckets=1, jitter=0.2, clock={1: (10**12, 0.0)}, steps=40).write(tmp_path)
    whole = load([tmp_path], LocalExecutor(1)).summaries
    late: RankSummary = replace(whole[1], collectives=whole[1].collectives.slice(7))
    group = match((whole[0], late))[0]
    assert group.row[:7, 1].tolist() == [-1] * 7
    assert (group.row[7:, 1] == range(33)).all()


def test_an_unfinished_recording_is_named_with_what_to_do(tmp_path: Path) -> None:
    Job(factor={1: 1.5}, ranks=3).write(tmp_path)
    (tmp_path / "rank=00003" / "raw").mkdir(parents=True)
    found = judge(load([tmp_path], LocalExecutor(1)))
    assert [one.text for one in found.findings if "warpsight recover" in one.text]
    assert [one.values["rank"] for one in found.findings if one.rule == "cluster/straggler"] == [1]
    with pytest.raises(WarpsightError, match="warpsight recover"):
        load([tmp_path / "rank=00003"])


def test_load_that_moves_from_rank_to_rank_comes_before_communication_that_nothing_hides(
    tmp_path: Path,
) -> None:
    found = verdict(tmp_path, Job(uneven=1.3, transfer=2_000_000, clock=CLOCKS)).findings
    assert [one.rule for one in found][:2] == ["cluster/imbalance", "cluster/exposed"]
    assert found[0].values["cost"] == pytest.approx(20 * 2 * 3 * 300_000, rel=0.15)
    assert "4 different ranks of 4 in turn" in found[0].text


def test_jitter_of_kernels_is_no_imbalance_before_communication(tmp_path: Path) -> None:
    found = verdict(tmp_path, Job(transfer=2_000_000, jitter=0.03)).findings
    assert found[0].rule == "cluster/exposed"


class Sampled(Job):
    """A job whose recordings leave out some collectives, others on each rank, and number none."""

    def _run(self) -> list[list[dict[str, Any]]]:
        out = super()._run()
        for rank, rows in enumerate(out):
            places = [place for place, row in enumerate(rows) if row["what"] == "all-reduce"]
            for place in reversed(places[2 + 3 * rank :: 5 + rank]):
                del rows[place]
        return out


def test_collectives_that_cannot_belong_together_are_no_mismatch_and_no_waiting(tmp_path: Path) -> None:
    """As in traces of which events were sampled: the n-th of one rank is not the n-th of the other."""
    found = verdict(tmp_path, Sampled(ranks=2, source="names", mismatch=(1, 4, "operation"), factor={1: 1.2}))
    rules = [one.rule for one in found.findings]
    assert rules[0] == "cluster/astray"
    assert not {"cluster/mismatch", "cluster/straggler"} & set(rules)
    assert "is not known" in found.headline
    assert "the recordings are incomplete" in found.findings[0].text


@pytest.mark.parametrize("how", ["gone", "cut"])
def test_time_that_may_be_waiting_for_a_missing_rank_is_not_called_transfer(tmp_path: Path, how: str) -> None:
    """The straggler's own recording is gone, or cannot be read: the others seem to move bytes while they wait for it."""
    Job(factor={2: 1.5}, clock=CLOCKS).write(tmp_path)
    if how == "gone":
        shutil.rmtree(tmp_path / "rank=00002")
    else:
        part = next((tmp_path / "rank=00002" / "table=kernel").rglob("*.parquet"))
        part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    found = judge(load([tmp_path], LocalExecutor(1)))
    assert "or waits for a rank without a recording" in found.headline
    assert any("1 of 4 ranks have no readable recording (2)" in one.text for one in found.findings)


def test_steps_are_found_though_the_first_iteration_reduces_other_buckets(tmp_path: Path) -> None:
    """As DistributedDataParallel does, which orders its buckets anew after the first backward pass; the job was short."""
    found = verdict(tmp_path, Job(steps=12, buckets=4, warm_up=5, factor={2: 1.5}, since=6, clock=CLOCKS))
    assert found.steps == 13 and "every 4 collectives" in found.summary
    assert found.findings[0].values["rank"] == 2
    assert found.findings[0].values["first_step"] == 7  # the other buckets are a step of their own


def test_a_rank_whose_kernels_are_others_is_not_said_to_have_more_work(tmp_path: Path) -> None:
    job = Job(
        slow_kernel={1: ("gemm_forward", 4.0)},
        other_name={1: ("gemm_forward", "simt_gemm_forward")},
        clock=CLOCKS,
    )
    first = verdict(tmp_path, job).findings[0]
    assert (first.rule, first.values["rank"], first.values["cause"]) == ("cluster/straggler", 1, "kernels")
    assert "in other kernels: simt_gemm_forward where the others run gemm_forward" in first.text


def test_a_place_in_a_loader_of_one_rank_is_named_from_samples(tmp_path: Path) -> None:
    """The function around everything is on every rank's stacks, and has most of the whole time: it says nothing."""
    first = verdict(tmp_path, Job(loading={1: 12_000_000}, sampled=True, clock=CLOCKS)).findings[0]
    assert (first.values["rank"], first.values["cause"]) == (1, "host")
    assert first.values["name"] == "DataLoader.__next__, at train (train.py:9)"


def test_a_rank_that_is_late_for_two_reasons_has_both(tmp_path: Path) -> None:
    first = verdict(
        tmp_path, Job(loading={1: 6_000_000}, slow_kernel={1: ("softmax", 3.0)}, clock=CLOCKS)
    ).findings[0]
    assert (first.values["rank"], first.values["cause"]) == (1, "host")
    assert any(line.startswith("besides, softmax takes 3.00 times as long") for line in first.evidence)


@pytest.mark.parametrize(("step", "named"), [(1, False), (8, True)])
def test_one_long_step_is_a_warm_up_at_the_start_alone(tmp_path: Path, step: int, named: bool) -> None:
    found = verdict(tmp_path, Job(steps=30, loading={1: 90_000_000}, since=step, every=100, clock=CLOCKS))
    late = [one for one in found.findings if one.rule == "cluster/straggler"]
    assert bool(late) == named
    assert not named or late[0].values["first_step"] == step


@pytest.mark.parametrize(
    ("library", "named"),
    [
        (("_BaseIter.__next__ (site-packages/torch/data.py:1)", "wait (site-packages/torch/data.py:2)"), "_BaseIter.__next__"),
        (("Module._wrapped_call_impl (site-packages/torch/nn.py:1)", "Module._call_impl (site-packages/torch/nn.py:2)",
          "Linear.forward (site-packages/torch/linear.py:3)"), "Linear.forward"),
        (("Optimizer.hook.<locals>.wrapper (site-packages/torch/optim.py:1)", "SGD.step (site-packages/torch/sgd.py:1)"),
         "SGD.step"),
    ],
)  # fmt: skip
def test_what_the_program_calls_is_named_not_what_a_library_wraps_it_in(
    library: tuple[str, ...], named: str
) -> None:
    assert _places_on(("main (train.py:1)", "step (train.py:7)", *library)) == {
        "main (train.py:1)", "step (train.py:7)", f"{named}, at step (train.py:7)"
    }  # fmt: skip


def test_wrappers_alone_name_nothing() -> None:
    assert _places_on(("step (train.py:7)", "_go (site-packages/torch/a.py:1)")) == {"step (train.py:7)"}


@pytest.mark.parametrize(
    ("operations", "period", "first"),
    [
        ("", 1, 0), ("a", 1, 0), ("abcd", 1, 0), ("abcdef", 1, 0), ("abab", 2, 0), ("xyzabababab", 2, 3),
        ("aaaa", 1, 0), ("xabcabc", 3, 1), ("abcabcabx", 1, 0),
    ],
)  # fmt: skip
def test_operations_repeat_with_a_period_from_some_place_on(operations: str, period: int, first: int) -> None:
    codes = np.unique(np.array(list(operations), "U1"), return_inverse=True)[1]
    assert _period(codes) == (period, first)


def test_any_short_list_of_operations_has_a_period() -> None:
    random = np.random.default_rng(7)
    for length in range(60):
        for kinds in (1, 2, 3, 9):
            code = random.integers(0, kinds, length)
            period, first = _period(code)
            if (period, first) != (1, 0):
                assert first + 2 * period <= length
                assert (code[first + period :] == code[first:-period]).mean() >= 0.97

"""Traces with known truth, compared whole: from files to verdicts, tables and sentences."""

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.analysis.diff.traces import (
    TRAINING,
    Launch,
    Program,
    compared,
    record,
    row,
    rows,
    run_of,
    sides,
)
from warpsight.analysis.diff import alignment, runs
from warpsight.analysis.diff.answer import CALLED
from warpsight.analysis.diff.compare import _shared, compare, compare_runs
from warpsight.analysis.diff.design import Design
from warpsight.analysis.diff.rows import NOT_SHOWN
from warpsight.model import open as open_trace

PROGRAM = Program()


def path_of(found, node):
    """Names from below the root to a node of the tree."""
    nodes = rows(found, "tree")
    return [] if node["parent"] < 0 else [*path_of(found, nodes[node["parent"]]), node["name"]]


def verdicts(found, table):
    return {one["name"]: one["verdict"] for one in rows(found, table)}


@pytest.mark.parametrize("in_turn", [True, False])
def test_the_same_program_shows_no_difference(in_turn):
    found = compared(PROGRAM, PROGRAM, in_turn=in_turn, seed=100)
    assert found.verdict == "not shown"
    assert found.headline.startswith("no difference shown in the time per step: ")
    assert "could have seen" in found.headline and found.could_see > 0
    assert found.low < 0 < found.high
    for table in ("summary", "kernel", "role", "stack", "tree"):
        assert set(verdicts(found, table).values()) == {NOT_SHOWN}, table
    assert len(rows(found, "sequence")) == 0


def test_five_percent_of_one_kernel_are_found_and_no_other_is_blamed():
    found = compared(PROGRAM, PROGRAM.slower("gemm_a", 1.05))
    kernel = row(found, "kernel", "gemm_a")
    assert kernel["verdict"] in ("slower", "grew")
    assert kernel["beside_low"] < 1.05 < kernel["beside_high"]
    assert {name for name, verdict in verdicts(found, "kernel").items() if verdict in CALLED} == {"gemm_a"}
    assert (
        found.verdict in ("slower", "changed") and "gemm_a" in found.headline
    ) or found.verdict == "slower"


def test_headline_table_and_facts_are_one_statistic():
    found = compared(PROGRAM, PROGRAM.slower("gemm_a", 1.5))
    first = row(found, "summary", "iteration")
    assert found.verdict == first["verdict"] == "slower"
    assert found.change == pytest.approx(first["ratio"] - 1)
    assert (found.low, found.high) == pytest.approx((first["low"] - 1, first["high"] - 1))
    assert first["after"] / first["before"] == pytest.approx(first["ratio"])
    assert f"slower by {found.change:.1%}" in found.headline
    times = [np.log(one["time"]) for one in rows(found, "runs")]
    assert np.mean(times[5:]) - np.mean(times[:5]) == pytest.approx(np.log1p(found.change))


def test_rows_of_a_run_add_up_to_its_device_time(tmp_path):
    path = record(tmp_path / "a.warp", PROGRAM, 1)
    with open_trace(path) as trace:
        run = runs.read(trace)
        (total,) = trace.sql("SELECT sum(duration) FROM kernel").fetchall()[0]
    assert run.recording.time.sum() == pytest.approx(float(total))
    assert run.iteration.time.sum() == pytest.approx(run.iteration.measures["device time"])
    assert run.iteration.count.sum() == pytest.approx(len(TRAINING))


def test_a_change_of_the_whole_iteration_with_all_kernels_alike_points_at_the_machine():
    quicker = replace(PROGRAM, launches=tuple(replace(one, length=int(one.length * 1.2)) for one in TRAINING))
    found = compared(PROGRAM, quicker)
    assert found.verdict == "slower"
    assert any("all kernels changed alike" in note.text for note in found.result.findings)


def test_added_and_renamed_kernels_are_found_in_the_tree():
    changed = [replace(one, name="nvjet_gemm_new") if one.name == "gemm_c" else one for one in TRAINING]
    dropout = Launch("dropout_e", 15_000, ("main", "forward", "attention"))
    after = replace(PROGRAM, launches=(*changed[:2], dropout, *changed[2:]))
    found = compared(PROGRAM, after)
    assert row(found, "kernel", "dropout_e")["verdict"] == "new"
    assert row(found, "kernel", "gemm_c → nvjet_gemm_new")["verdict"] == NOT_SHOWN
    nodes = {one["name"]: one for one in rows(found, "tree")}
    assert nodes["dropout_e"]["match"] == "added"
    assert nodes["gemm_c → nvjet_gemm_new"]["match"] == "replaced"
    assert "attention (train.py)" in path_of(found, nodes["dropout_e"])
    changes = {(one["change"], one["what_before"], one["what_after"]) for one in rows(found, "sequence")}
    assert ("added", None, "dropout_e") in changes
    assert ("replaced", "gemm_c", "nvjet_gemm_new") in changes


def test_functions_that_were_renamed_or_moved_are_one_row():
    renamed = tuple(
        replace(one, frames=tuple("self_attention" if f == "attention" else f for f in one.frames))
        for one in TRAINING
    )
    found = compared(PROGRAM, replace(PROGRAM, launches=renamed, folder="/home/two/other"))
    names = [one["name"] for one in rows(found, "tree")]
    assert "attention (train.py) → self_attention (train.py)" in names
    assert {one["match"] for one in rows(found, "tree")} == {"both", "replaced"}
    assert found.verdict == NOT_SHOWN


def test_the_tree_leads_to_what_changed():
    layers = tuple(
        Launch(f"{kind}_x", length, ("main", "forward"), (f"layer {number}",))
        for number in range(3) for kind, length in (("gemm", 60_000), ("softmax", 20_000))
    )  # fmt: skip
    slow = tuple(
        replace(one, length=84_000) if (one.ranges, one.name) == (("layer 1",), "gemm_x") else one
        for one in layers
    )
    found = compared(replace(PROGRAM, launches=layers), replace(PROGRAM, launches=slow))
    nodes = {one["node"]: one for one in rows(found, "tree")}
    leaves = [one for one in nodes.values() if one["kind"] == "kernel" and one["verdict"] in CALLED]
    assert [path_of(found, one)[-2:] for one in leaves] == [["layer 1", "gemm_x"]]
    total = {one["parent"]: 0.0 for one in nodes.values()}
    for one in nodes.values():
        total[one["parent"]] += one["after"]
    assert all(total[node] == pytest.approx(nodes[node]["after"], rel=0.02) for node in total if node >= 0)


def test_two_kinds_of_iterations_are_weighed_by_how_often_they_come():
    loop = replace(PROGRAM, other=(*TRAINING, Launch("evaluate_f", 400_000, ("main", "evaluate"))), turns=40)
    same = compared(loop, loop, seed=50)
    assert same.verdict == NOT_SHOWN and {one["kinds"] for one in rows(same, "runs")} == {2}
    assert row(same, "kernel", "evaluate_f")["count_before"] == pytest.approx(0.25, abs=0.03)
    found = compared(loop, loop.slower("evaluate_f", 1.2))
    assert row(found, "kernel", "evaluate_f")["verdict"] in ("slower", "grew")


def test_a_slowdown_of_one_run_of_five_is_not_called():
    before, after = sides(PROGRAM, PROGRAM)
    after[3] = run_of(PROGRAM.slower("gemm_a", 1.5), 7, after[3].when)
    assert compare_runs(before, after).verdict == NOT_SHOWN


def test_open_traces_are_compared_as_their_runs_are(tmp_path):
    with (
        open_trace(record(tmp_path / "a.warp", PROGRAM, 1)) as one,
        open_trace(record(tmp_path / "b.warp", PROGRAM, 2)) as two,
    ):
        found = compare(one, [two])
        assert found.headline == compare_runs([runs.read(one)], [runs.read(two)]).headline
    assert [path["path"] for path in rows(found, "runs")] == [
        str(tmp_path / "a.warp"),
        str(tmp_path / "b.warp"),
    ]


def test_one_run_a_side_is_said_to_be_untested_first():
    found = compared(PROGRAM, PROGRAM.slower("gemm_a", 2.0), count=1)
    assert found.verdict == "untested" and found.low is None and found.could_see is None
    assert found.headline.startswith(
        "not tested against run-to-run noise, with one run per side: the second is "
    )
    assert set(verdicts(found, "kernel").values()) == {"untested"}
    assert all(one["p"] is None and one["low"] is None for one in rows(found, "kernel"))


def test_a_recording_beside_itself_takes_the_same_time(tmp_path):
    with open_trace(record(tmp_path / "a.warp", PROGRAM, 1)) as trace:
        found = compare(trace, [trace])
    assert ": the second takes the same time, " in found.headline


@pytest.mark.parametrize(("count", "said"), [(2, "p = 0.33"), (3, "p = 0.10")])
def test_too_few_runs_say_what_they_cannot_reach(count, said):
    found = compared(PROGRAM, PROGRAM.slower("gemm_a", 2.0), count=count)
    assert found.verdict == "untested" and said in found.headline


def test_four_runs_are_tested_and_say_what_they_cannot_tell():
    found = compared(PROGRAM, PROGRAM.slower("gemm_a", 2.0), count=4)
    assert found.verdict == "slower"
    assert any("smallest p of an exact test is 0.029" in note.text for note in found.result.findings)


def test_sides_taken_one_after_the_other_are_told():
    apart = compared(PROGRAM, PROGRAM, in_turn=False)
    assert not apart.in_turn and "one side after the other" in apart.headline
    assert any("not taken in turn" in note.text for note in apart.result.findings)
    untimed = compared(PROGRAM, PROGRAM, timed=False)
    assert any("do not say when they were recorded" in note.text for note in untimed.result.findings)
    assert {one["order"] for one in rows(untimed, "runs")} == {None}


def test_iterations_are_named_by_the_program_and_never_by_a_library():
    named = compared(replace(PROGRAM, announced="batch "), replace(PROGRAM, announced="batch "), count=1)
    assert named.iteration == "batch" and "per batch" in named.headline
    library = replace(PROGRAM, announced="ncclGroupEnd ")
    assert compared(library, library, count=1).iteration in ("iteration", "recording")


def test_runs_without_a_loop_in_common_are_compared_as_wholes():
    found = compared(PROGRAM, replace(PROGRAM, announced="epoch "))
    assert found.iteration == "recording" and rows(found, "summary")[0]["name"] == "recording"
    assert any("no loop in common" in note.text for note in found.result.findings)
    assert found.verdict == NOT_SHOWN


def test_a_loop_found_twice_as_long_in_some_runs_is_the_same_loop():
    """What repeats with another kernel every second turn repeats with twice the period."""
    plain = replace(PROGRAM, announced=None, turns=40)
    marked = replace(plain, other=(*TRAINING[:-1], replace(TRAINING[-1], name="adam_other")), other_every=2)
    loops = {"plain": run_of(plain, 1), "marked": run_of(marked, 1)}
    assert loops["marked"].iteration.work == pytest.approx(2 * loops["plain"].iteration.work)
    found = compare_runs([loops["plain"]], [loops["marked"]])
    assert found.iteration == "iteration"
    assert row(found, "summary", "iteration")["ratio"] == pytest.approx(1, abs=0.05)


def test_other_vendors_align_by_role_and_place():
    names = {"gemm_a": "Cijk_Alik_MT128", "softmax_b": "hip_softmax", "gemm_c": "Cijk_Ailk_MT64",
             "add_functor": "triton_poi_fused_add", "adam_d": "multi_tensor_apply"}  # fmt: skip
    other = replace(PROGRAM, launches=tuple(replace(one, name=names[one.name]) for one in TRAINING))
    found = compared(PROGRAM, other)
    assert found.by_role and found.verdict == NOT_SHOWN
    assert set(verdicts(found, "role").values()) == {NOT_SHOWN}
    assert {one["name"] for one in rows(found, "kernel")} == {f"{a} → {b}" for a, b in names.items()}


def test_machines_that_differ_are_told():
    found = compared(PROGRAM, PROGRAM, count=1)
    assert not any("different machines" in note.text for note in found.result.findings)
    before, after = (rows(found, "runs")[i] for i in (0, 1))
    assert before["machine"] == after["machine"]
    run = run_of(PROGRAM, 0)
    told = compare_runs([run], [replace(run, machine="elsewhere, another GPU")])
    assert any(
        "different machines" in note.text and "another GPU" in note.text for note in told.result.findings
    )


def test_what_slows_down_every_third_iteration_shows_in_the_slowest_tenth_alone():
    slow = tuple(replace(one, length=2 * one.length) for one in TRAINING)
    found = compared(PROGRAM, replace(PROGRAM, other=slow, other_every=3))
    assert found.verdict == "changed"
    assert row(found, "summary", "iteration")["verdict"] == NOT_SHOWN
    assert row(found, "summary", "slowest tenth")["verdict"] == "slower"
    assert "slowest tenth is slower" in found.headline
    assert row(found, "kernel", "gemm_a")["ratio"] == pytest.approx(1, abs=0.03)


def test_loops_that_the_runs_announce_differently_are_not_compared():
    one, other = run_of(PROGRAM, 1), run_of(PROGRAM, 2)
    assert alignment.loop([one, other]).found and one.iteration is not None
    elsewhere = alignment.loop([one, replace(other, source="another source")])
    assert not elsewhere.found and "another source" in elsewhere.note
    assert not alignment.loop([one, replace(other, iteration=None)]).found
    neither = alignment.loop([replace(run, iteration=None) for run in (one, other)])
    assert (neither.name, neither.note) == ("recording", "")


def test_the_share_of_kernels_that_both_sides_have_is_that_of_the_side_with_less():
    #         both  gone  new   copies  renamed
    names = ["gemm", "old", "new", "copies", "a → b"]
    one, two = np.array([0, 1, 3, 4]), np.array([0, 2, 3, 4])
    kernels = alignment.Labeled(names, [one, two])
    times = [np.array([50.0, 30.0, 10.0, 10.0]), np.array([80.0, 10.0, 5.0, 5.0])]
    assert _shared(kernels, times, Design.of([1], [2])) == pytest.approx(0.5)
    assert _shared(kernels, times[::-1], Design.of([1], [2])) == pytest.approx(0.5)
    nothing = [np.zeros(4), np.zeros(4)]
    assert _shared(kernels, nothing, Design.of([1], [2])) == 1.0


def test_runs_of_which_one_has_no_time_are_compared_without_a_test():
    """A test on logarithms has no place for it."""
    turns = [run_of(PROGRAM, seed) for seed in range(8)]
    nothing = dict.fromkeys(turns[7].iteration.measures, 0.0)
    empty = replace(turns[7], iteration=replace(turns[7].iteration, measures=nothing))
    assert compare_runs(turns[:4], turns[4:]).verdict != "untested"
    assert compare_runs(turns[:4], [*turns[4:7], empty]).verdict == "untested"

"""Host time by functions, from samples and from the stacks of the calls on both sides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.account.rows import THREAD, frame, sample
from tests.unit.analysis.conftest import launch
from warpsight.analysis.account import stacks_over
from warpsight.analysis.account.calls_held import axis
from warpsight.model import calls as host_calls

MAIN, LOAD, PARSE, STEP = (
    frame("main", "m.py", 1),
    frame("load", "m.py", 5),
    frame("parse", "p.py", 7),
    frame("step", "m.py", 9),
)
#: Stacks 1 to 7; 6 is a function that calls itself, 7 has another file's parse.
STACKS = (
    (MAIN,), (MAIN, LOAD), (MAIN, LOAD, PARSE), (MAIN, STEP), (MAIN, LOAD, frame("parse", "p.py", 8)), (MAIN, LOAD, LOAD),
    (MAIN, LOAD, frame("parse", "q.py", 7)),
)  # fmt: skip


def over(build, pieces, *, call=None, **tables):
    """Time at or below each function, and its mean depth, for pieces (begin, end) of thread 100."""
    trace = build(stacks=STACKS, **tables)
    begin, end = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    on = axis(np.array([0]), np.array([THREAD]), 0, 1_000)
    calls = host_calls.load(trace, api=True)
    issued = np.array(call if call is not None else [-1] * len(pieces))
    found = stacks_over.over(trace, on, calls, np.zeros(len(begin), np.int64), begin, end, issued)
    tree = stacks_over.functions(trace)
    time, depth = stacks_over.by_function(tree, found)
    return {
        name: (float(t), float(d))
        for name, t, d in zip(tree.names, time.tolist(), depth.tolist(), strict=True)
        if t
    }, found


def test_the_samples_of_a_piece_share_its_time_however_many_there_are(build):
    # 0 to 100: four samples, 25 ns each; 200 to 210: one sample, 10 ns.
    at = [(0, 2), (20, 2), (60, 4), (99, 2), (205, 4), (300, 1)]
    found, timed = over(build, [(0, 100), (200, 210)], sample=[sample(t, stack) for t, stack in at])
    assert timed.piece.tolist() == [0, 0, 0, 0, 1]
    assert found == {"main": (110.0, 1.0), "load": (75.0, 2.0), "step": (35.0, 2.0)}


def test_samples_at_the_end_of_a_piece_and_of_other_threads_are_not_in_it(build):
    rows = [
        sample(50, 2),
        sample(100, 4),
        sample(20, 4, thread=THREAD + 1),
        sample(20, 4, process=1),
        sample(30, 4) | {"stack": None},
    ]
    found, _ = over(build, [(0, 100)], sample=rows)
    assert found == {"main": (100.0, 1.0), "load": (100.0, 2.0)}


def test_functions_are_told_from_lines_and_by_their_file(build):
    # Stacks 3 and 5 are two lines of parse: one function, deeper than load. Stack 7 is another file's parse.
    found, stacked = over(build, [(0, 90)], sample=[sample(10, 3), sample(20, 5), sample(30, 7)])
    assert found["load"] == (90.0, 2.0)
    assert sorted(np.bincount(stacked.node, weights=stacked.time).tolist())[-2:] == [30.0, 60.0]


def test_a_function_that_calls_itself_has_its_time_once(build):
    found, _ = over(build, [(0, 100)], sample=[sample(10, 6), sample(20, 2)])
    assert found["load"][0] == 100.0


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (3, 5, {"main", "load", "parse"}),  # two lines of one function: it ran all the while
        (3, 2, {"main", "load"}),
        (2, 3, {"main", "load"}),
        (3, 4, {"main"}),
        (4, 4, {"main", "step"}),
    ],
)
def test_without_samples_the_functions_that_both_calls_came_from_ran_in_between(
    build, before, after, expected
):
    rows = [launch(5, 5, 1, stack=before), launch(90, 5, 2, stack=after)]
    found, stacked = over(build, [(20, 90)], call=[1], launch=rows)
    assert set(found) == expected
    assert all(time == 70.0 for time, _ in found.values())
    assert stacked.sampled.tolist() == [False]


@pytest.mark.parametrize(
    "rows",
    [
        [launch(5, 5, 1), launch(90, 5, 2, stack=2)],  # no stack before
        [launch(5, 5, 1, stack=2), launch(90, 5, 2)],  # none after
        [launch(5, 5, 1, stack=2, thread=THREAD + 1), launch(90, 5, 2, stack=2)],  # another thread's
        [launch(20, 5, 1, stack=2), launch(90, 5, 2, stack=2)],  # it begins with the piece, not before
    ],
)
def test_a_stack_on_one_side_alone_says_nothing(build, rows):
    assert over(build, [(20, 90)], call=[1], launch=rows)[0] == {}


def test_the_call_before_is_the_last_that_began(build):
    rows = [launch(1, 2, 1, stack=4), launch(5, 5, 2, stack=2), launch(90, 5, 3, stack=2)]
    assert set(over(build, [(20, 90)], call=[2], launch=rows)[0]) == {"main", "load"}


def test_where_a_piece_has_samples_the_calls_around_it_do_not_count(build):
    rows = [launch(5, 5, 1, stack=2), launch(90, 5, 2, stack=2)]
    found, stacked = over(build, [(20, 90)], call=[1], launch=rows, sample=[sample(50, 4)])
    assert set(found) == {"main", "step"}
    assert stacked.sampled.tolist() == [True]


def test_samples_in_short_pieces_stand_for_short_pieces_without_one(build):
    """Nine in ten of the short pieces have no sample: without them the long one would hold half of the time."""
    pieces = [(0, 100), *((200 + 10 * n, 210 + 10 * n) for n in range(80))]
    at = [(50, 2), *((200 + 100 * n, 4) for n in range(8))]
    found, _ = over(build, pieces, sample=[sample(t, stack) for t, stack in at])
    assert found["main"][0] == pytest.approx(900)
    assert found["step"][0] == pytest.approx(800)


def loop(turns, samples, *, later=()):
    """Turns of 20 ns: 10 of host code between two calls of `load`; samples of `parse` in some turns, at equal distances."""
    rows = [
        row
        for n in range(turns)
        for row in (launch(20 * n, 5, 2 * n + 1, stack=2), launch(20 * n + 15, 5, 2 * n + 2, stack=2))
    ]
    pieces = [(20 * n + 5, 20 * n + 15) for n in range(turns)]
    at = [(20 * n + 10, 3) for n in samples]
    return {"pieces": pieces, "launch": rows, "call": [2 * n + 1 for n in range(turns)],
            "sample": [sample(t, one) for t, one in (*at, *later)]}  # fmt: skip


def test_samples_between_the_same_calls_tell_what_ran_in_turns_without_one(build):
    """A sample in every fifth turn: `parse` had the turns that have one, and the calls' own function all the others."""
    found, stacked = over(build, **loop(50, range(0, 50, 5)))
    assert found["load"][0] == pytest.approx(500) and found["main"][0] == pytest.approx(500)
    assert found["parse"][0] == pytest.approx(100 + 400 * 10 / 12)
    assert stacked.time.sum() == pytest.approx(500)


def test_a_single_sample_says_little_of_other_turns(build):
    found, _ = over(build, **loop(50, [7], later=[(2000, 1), (2100, 1)]))  # later: two outside of all turns
    assert found["parse"][0] == pytest.approx(10 + 490 / 3)
    assert found["load"][0] == pytest.approx(500)


def test_samples_in_long_pieces_and_between_other_calls_say_nothing_of_turns(build):
    """A stretch of 200 ns with its ten samples is not like the turns, nor is what follows another call."""
    made = loop(20, range(0, 20, 10))
    rows = [
        *made["launch"],
        launch(400, 5, 100, stack=2),
        launch(605, 5, 101, stack=2),
        launch(700, 5, 102, stack=4),
    ]
    rows += [launch(715, 5, 103, stack=4)]
    pieces = [*made["pieces"], (405, 605), (705, 715)]
    at = [*made["sample"], *(sample(405 + 20 * n, 4) for n in range(10)), sample(710, 4)]
    found, _ = over(build, pieces, call=[*made["call"], 41, 43], launch=rows, sample=at)
    assert found["step"][0] == pytest.approx(210)
    assert found["parse"][0] == pytest.approx(20 + 180 * 2 / 4)


def test_each_function_has_the_time_below_it_once_and_its_mean_depth():
    """root → a (1) → b (2) → a (3); root → b (4)"""
    tree = stacks_over.FunctionTree(
        np.arange(5),
        np.array([-1, 0, 1, 2, 0]),
        np.array([0, 1, 2, 3, 1]),
        np.array([0, 0, 1, 0, 1]),
        ["a", "b"],
        ["", ""],
    )
    node, spent = np.array([3, 1, 4, 3, 0]), np.array([10, 5, 2, 20, 7])
    time, depth = stacks_over.by_function(tree, stacks_over.StackedTime(node, spent, node, node > 9, node))
    assert time.tolist() == [35, 32]
    # Of a recursive function the innermost call counts: a is 3 deep for 30 and 1 deep for 5, b 2 deep for 30 and 1 for 2.
    assert depth.tolist() == pytest.approx([(3 * 30 + 5) / 35, (2 * 30 + 2) / 32])
    alone = stacks_over.FunctionTree(
        np.arange(3), np.array([-1, 0, 1]), np.arange(3), np.zeros(3, int), ["a"], [""]
    )
    node = np.array([1, 2, 2])
    time, depth = stacks_over.by_function(
        alone, stacks_over.StackedTime(node, np.array([4, 1, 3]), node, node > 9, node)
    )
    assert (time.tolist(), depth.tolist()) == ([8], pytest.approx([(4 + 8) / 8]))

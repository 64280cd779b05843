"""Loops among announced ranges, against looking at every range by itself."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import marker, operator
from tests.unit.analysis.conftest import Build
from warpsight.analysis.steps import announced, loops

NAMES = ("step 1", "step 2", "step 3", "batch", "aten::mm", "Layer_0", "ProfilerStep#1", "ProfilerStep#2")
RANGES = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(1, 12), st.integers(0, 7), st.integers(0, 1), st.integers(0, 1)
    ),
    max_size=14,
)
Range = tuple[int, int, int, int, int]


def counting(labels: list[str], named: bool) -> bool:
    numbers = [[int(one) for one in re.findall(r"\d+", text)] for text in labels]
    distinct = len(labels) > 1 and len(set(labels)) == len(labels)
    changing = sum(len(set(column)) > 1 for column in zip(*numbers, strict=False))
    return distinct and (changing == 1 or named) and all(a < b for a, b in itertools.pairwise(numbers))


def by_thread_and_pattern(rows: list[Range]) -> dict[tuple[int, int, str], list[Range]]:
    out: dict[tuple[int, int, str], list[Range]] = {}
    for row in rows:
        out.setdefault((row[3], row[4], re.sub(r"#?\d+", "#", NAMES[row[2]])), []).append(row)
    return out


@settings(derandomize=True, max_examples=60)
@given(RANGES)
def test_ranges_of_one_thread_whose_names_differ_in_numbers_are_one_loop(rows: list[Range]) -> None:
    """Ranges inside one of their own name are left out; where those are most, the name is that of a function."""
    expected = []
    groups = by_thread_and_pattern(rows)
    for (process, thread, pattern), own in groups.items():
        outer: list[Range] = []
        reach = -1
        for row in sorted(own, key=lambda one: (one[0], -one[1])):
            if row[0] >= reach:
                outer.append(row)
            reach = max(reach, row[0] + row[1])
        if 2 * len(outer) < len(own):
            continue
        labels = [NAMES[row[2]] for row in outer]
        turn = pattern in ("step #", "batch")
        rank = loops.REPEATED
        if pattern == "ProfilerStep#":
            rank = loops.FRAMEWORK
        elif counting(labels, turn):
            rank = loops.COUNTED
        shown = labels[0] if rank == loops.REPEATED else pattern
        begin, length = [row[0] for row in outer], [row[1] for row in outer]
        part = pattern in ("aten::mm", "Layer_#")
        expected.append((process, thread, rank, f"range '{shown}'", begin, length, labels, turn, part))
    start, duration, name, process_of, thread_of = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else [[]] * 5)
    )
    columns = {"start": start, "duration": duration, "process": process_of, "thread": thread_of}
    found = [
        (one.process, one.thread, one.rank, one.source, one.begin.tolist(), (one.end - one.begin).tolist(), one.label,
         one.named, one.part)
        for one in loops._grouped(columns, name, dict(enumerate(NAMES)), "range")
    ]  # fmt: skip
    assert sorted(found) == sorted(expected)
    # Frameworks' own steps come first, then what takes longest in all.
    length = [
        sum(row[1] for row in groups[one[0], one[1], re.sub(r"#?\d+", "#", one[6][0])]) for one in found
    ]
    keys = [(one[2] != loops.FRAMEWORK, -taken) for one, taken in zip(found, length, strict=True)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    ("labels", "named", "up"),
    [
        (["batch 1", "batch 2"], False, True),
        (["batch 2", "batch 1"], True, False),
        (["batch 1"], True, False),
        (["batch 1", "batch 1"], True, False),
        (["layer 3 of 9", "layer 4 of 9"], False, True),
        (["epoch 1 step 9", "epoch 2 step 0"], True, True),
        (["conv 3 32", "conv 6 64"], False, False),  # sizes, not turns
        (["a", "b"], False, False),
    ],
)
def test_names_count_up(labels: list[str], named: bool, up: bool) -> None:
    assert loops._counts_up(labels, named) == up


@pytest.mark.parametrize("most", [1, 2])
def test_ranges_that_come_too_often_are_no_turns(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(loops, "MOST", most)
    columns = {"start": np.array([0, 5]), "duration": np.array([1, 1]), "process": np.zeros(2, int),
               "thread": np.zeros(2, int)}  # fmt: skip
    assert len(list(loops._grouped(columns, np.zeros(2, int), {0: "step"}, "range"))) == most - 1


def test_what_is_announced_in_each_table(build: Build) -> None:
    names = (
        "step 1",
        "step 2",
        "drawn",
        "ProfilerStep#1",
        "enumerate(DataLoader)#next",
        "aten::mm",
        "called",
    )
    event = {"duration": 0, "kind": "step", "name": "step", "thread": 7, "process": 0}
    trace = build(
        names=names,
        user_event=[event | {"start": 30}, event | {"start": 10}, event | {"start": 20, "thread": 8},
                    event | {"start": 40, "duration": 5, "name": "load", "kind": "range"},
                    event | {"start": 50, "duration": 5, "kind": "step"}],
        marker=[marker(10, 5, 1), marker(20, 5, 2), marker(20, 0, 3), marker(30, 5, 3, category="Trace"),
                marker(40, 5, 7, category="python_function"), marker(50, 5, 3, category="gpu_user_annotation")],
        op=[operator(10, 5, 4), operator(20, 5, 5), operator(30, 5, 6), operator(40, 0, 4)],
    )  # fmt: skip
    found = [
        (one.source, one.thread, one.begin.tolist(), one.end.tolist(), one.rank) for one in loops.load(trace)
    ]
    none = np.iinfo(np.int64).min
    assert found == [
        ("ws.step()", 7, [none, 10], [10, 30], loops.MARKED),
        ("ws.step()", 8, [none], [20], loops.MARKED),
        ("event 'step'", 7, [50], [55], loops.REPEATED),
        ("event 'load'", 7, [40], [45], loops.REPEATED),
        ("range 'step #'", 100, [10, 20], [15, 25], loops.COUNTED),
        ("operator 'ProfilerStep#'", 100, [10], [15], loops.FRAMEWORK),
        ("operator 'enumerate(DataLoader)#next'", 100, [20], [25], loops.FRAMEWORK),
    ]
    assert loops.load(trace)[0].label == ["0", "1"]
    assert loops.load(build()) == ()


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0), (3, 2), (2, 4)])
def test_layers_belong_to_the_turn_that_begins_after_the_longest_pause(before: int, after: int) -> None:
    """Turns of some launches, three layers of two launches each, and some more; a pause of 100 between turns, else of 10."""
    # A launch long before the loop is in no turn, unless nothing is between it and the first layer.
    when, begin, end, turn = [0], [], [], [-1 if before else 0]
    time = 1_000
    for number in range(4):
        for kind in ("first",) * before + ("layer",) * 3 + ("last",) * after:
            begin += [time - 1] if kind == "layer" else []
            for _ in range(2 if kind == "layer" else 1):
                when.append(time)
                turn.append(number)
                time += 10 if kind != "layer" else 4
            end += [time] if kind == "layer" else []
        time += 100
    loop = loops.Loop(
        loops.REPEATED, "range 'layer'", 0, 1, np.array(begin), np.array(end), ["layer"] * 12, False
    )
    found = announced._groups(loop, np.array(when))
    assert found is not None and found.of_launch.tolist() == turn
    assert (found.source, found.label, found.announced) == ("range 'layer', 3 in a turn", [""] * 4, False)
    once = loops.Loop(
        loops.REPEATED, "range 'layer'", 0, 1, np.array(begin[::3]), np.array(end[::3]), ["layer"] * 4, False
    )
    assert announced._groups(once, np.array(when)) is None

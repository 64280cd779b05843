"""Time that ranges cover, by name: annotations, functions, operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.account.rows import THREAD, marker, operator
from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.account import ranges_over
from warpsight.analysis.account.calls_held import axis
from warpsight.analysis.account.ranges_over import ANNOTATION, FUNCTION, OPERATOR, measure

STRETCH = st.tuples(st.integers(0, 50), st.integers(0, 20))


def columns(rows, origin=0):
    begin = np.array([b for b, _ in rows], np.int64) + origin
    return begin, begin + np.array([d for _, d in rows], np.int64)


@settings(deadline=None)
@given(
    st.lists(STRETCH, max_size=10), st.lists(st.integers(-5, 80), max_size=10), st.sampled_from((0, EPOCH))
)
def test_time_before_a_moment_is_that_of_every_stretch(rows, at, origin):
    begin, end = columns(rows, origin)
    found = measure(begin, end)(np.array(at, np.int64) + origin)
    assert found.tolist() == [sum(min(max(t - b, 0), d) for b, d in rows) for t in at]


@settings(deadline=None)
@given(st.lists(st.tuples(STRETCH, st.integers(0, 2)), max_size=12))
def test_ranges_inside_another_of_the_same_name_count_once(rows):
    begin, end = columns([stretch for stretch, _ in rows])
    code = np.array([name for _, name in rows], np.int64)
    kept = set(ranges_over._outermost(begin, end, code).tolist())
    for name in range(3):
        mine = [i for i, (_, one) in enumerate(rows) if one == name]
        # All of the time is kept, and nothing that is inside something else that is kept.
        covered = {t for i in mine for t in range(begin[i], end[i])}
        assert {t for i in mine if i in kept for t in range(begin[i], end[i])} == covered
        own = [(begin[i], end[i]) for i in mine if i in kept]
        assert not [
            1
            for i, a in enumerate(own)
            for j, b in enumerate(own)
            if i != j and a[0] <= b[0] and b[1] <= a[1]
        ]


def loaded(build, stretches=((0, 1_000),), names=("a",), **tables):
    """Name, level, time covered and summed length of each name that covers some of the stretches."""
    begin, end = columns(stretches)
    trace = build(names=names, **tables)
    on = axis(np.array([0]), np.array([THREAD]), 0, 1_000)
    found = ranges_over.load(trace, on, measure(begin, end))
    time, length = found.over(begin, end)
    return [
        (name, int(level), int(t), int(n))
        for name, level, t, n in zip(found.names, found.level, time, length, strict=True)
    ]


def test_time_and_length_of_a_name_are_those_of_all_its_ranges_that_cover_any(build):
    # stretches    |10..30|        |50..60|
    # a          |0 ----- 20|    |45 -- 55|  |70..90| (covers none: not in its length either)
    found = loaded(
        build, ((10, 20), (50, 10)), marker=[marker(0, 20, 1), marker(45, 10, 1), marker(70, 20, 1)]
    )
    assert found == [("a", ANNOTATION, 10 + 5, 20 + 10)]


def test_ranges_of_other_threads_without_length_or_open_are_none(build):
    rows = [
        marker(0, 50, 1, thread=THREAD + 1),
        marker(0, 50, 1, process=1),
        marker(10, 0, 1),
        marker(10, 5, 1) | {"duration": None},
    ]
    assert loaded(build, marker=rows) == []


def test_names_that_differ_in_numbers_are_one_at_each_level(build):
    rows = [marker(0, 10, 1), marker(10, 10, 2), marker(20, 10, 3, category="python_function")]
    found = loaded(build, names=("step 1", "step 27", "step 3"), marker=rows)
    assert found == [("step #", ANNOTATION, 20, 20), ("step 3", FUNCTION, 10, 10)]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("aten::copy_", OPERATOR),
        ("c10d::allreduce_", OPERATOR),
        ("autograd::engine::evaluate_function: MulBackward0", OPERATOR),
        ("AddmmBackward0", OPERATOR),
        ("AddmmBackward", OPERATOR),
        ("torch::autograd::AccumulateGrad", OPERATOR),
        ("detach", OPERATOR),
        ("Optimizer.step#SGD.step", ANNOTATION),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", ANNOTATION),
        ("ProfilerStep#3", ANNOTATION),
        ("## forward ##", ANNOTATION),
        ("BackwardPass of mine", ANNOTATION),
        ("load batch", ANNOTATION),
    ],
)
def test_operators_of_a_framework_are_told_from_annotations_that_old_profilers_list_among_them(
    build, name, level
):
    assert loaded(build, names=(name,), op=[operator(0, 10, 1)]) == [(name, level, 10, 10)]


def test_events_of_the_program_are_annotations(build):
    event = {"start": 5, "duration": 10, "name": "tokenize", "kind": "event", "thread": THREAD, "process": 0}
    mark = {"start": 5, "duration": 0, "name": "step", "kind": "step", "thread": THREAD, "process": 0}
    assert loaded(build, user_event=[event, mark]) == [("tokenize", ANNOTATION, 10, 10)]


def test_ranges_of_many_names_over_a_long_time_count_once_each():
    # Names and moments together would not fit into 64 bits.
    span = 1 << 40
    begin = np.array([0, span // 4, 0, span // 2], np.int64)
    end = np.array([span, span // 2, span // 2, span], np.int64)
    code = np.array([0, 0, 1 << 30, 1 << 30], np.int64)
    assert sorted(ranges_over._outermost(begin, end, code).tolist()) == [0, 2, 3]


def test_the_sign_before_a_number_is_part_of_it():
    assert ranges_over.pattern("ProfilerStep#12") == ranges_over.pattern("ProfilerStep#7") == "ProfilerStep#"
    assert ranges_over.pattern("step 12 of 40") == "step # of #"

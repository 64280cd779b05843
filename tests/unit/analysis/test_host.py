"""The host's side of a dependency graph: points of nested calls, in the order of their threads."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.path.host import Points

#: Calls of a thread as a tree of lengths: the time before each call, and the calls inside of it.
CALLS = st.recursive(
    st.lists(st.tuples(st.integers(0, 3), st.just([])), max_size=3),
    lambda inner: st.lists(st.tuples(st.integers(0, 3), inner), max_size=3),
    max_leaves=6,
)


def walked(calls: list, at: int, out: list[tuple[int, int]], line: list[tuple[int, bool]]) -> int:
    """When all have ended; also each call's begin and end, and the points of the thread as (call, whether it is the end)."""
    for pause, inner in calls:
        at += pause
        number = len(out)
        out.append((at, at))
        line.append((number, False))
        at_once = pause == 3 and not inner  # a call may take no time at all
        at = walked(inner, at, out, line) + (not at_once)
        out[number] = out[number][0], at
        line.append((number, True))
        at += at_once
    return at


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(CALLS, min_size=1, max_size=3))
def test_points_of_nested_calls_follow_each_other_as_the_threads_went(threads: list) -> None:
    start, end, thread, expected = [], [], [], []
    for number, calls in enumerate(threads):
        found: list[tuple[int, int]] = []
        line: list[tuple[int, bool]] = []
        walked(calls, 100 * number, found, line)
        first = len(start)
        start += [begin for begin, _ in found]
        end += [finish for _, finish in found]
        thread += [number] * len(found)
        expected.append([2 * (first + call) + over for call, over in line])
    points = Points.of(*(np.array(column, np.int64) for column in (start, end, thread)))
    before = {
        point: previous for line in expected for previous, point in zip([-1, *line], line, strict=False)
    }
    after = {
        point: following for line in expected for point, following in zip(line, [*line[1:], -1], strict=False)
    }
    every = np.arange(len(points.time))
    assert points.previous.tolist() == [before[point] for point in every.tolist()]
    assert points.following()(every).tolist() == [after[point] for point in every.tolist()]
    if points.sequence is not None:
        assert points.sequence.tolist() == [point for line in expected for point in line]
    else:
        assert [point for line in expected for point in line] == every.tolist()

"""The host's side of a dependency graph: points of nested calls, in the order of their threads."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.path.host import HANDOVER_SILENCE, Points, handovers
from warpsight.model.calls import ByThread

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


#: Of each thread the process, and its calls: the time since the one before in half silences, and how long it takes.
THREADS = st.lists(
    st.tuples(
        st.integers(0, 1), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=4)
    ),
    min_size=1,
    max_size=3,
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(THREADS, st.integers(-1, 1))
def test_a_silent_thread_goes_on_right_after_another_that_is_silent_then(
    threads: list[tuple[int, list[tuple[int, int]]]], more: int
) -> None:
    """Another thread's last point is the end of a call, and its next one comes after the next two calls begin and end."""
    half = HANDOVER_SILENCE // 2
    times, owner = [], []
    for number, (_, calls) in enumerate(threads):
        at = number  # no two points of two threads at one moment
        for pause, length in calls:
            at += pause * half + 3 * (more + 1)
            times += [at, at + length * half]
            owner.append(number)
            at += length * half
    time = np.array(times, np.int64)
    keys = tuple((process, number) for number, (process, _) in enumerate(threads))
    by_thread = ByThread(np.arange(len(owner)), np.array(owner, np.int64), keys)
    points = Points.of(time[0::2], time[1::2], by_thread.thread)
    found = dict(zip(*(column.tolist() for column in handovers(by_thread, points)), strict=True))
    expected = {}
    lines = {
        number: [p for p in range(len(times)) if owner[p >> 1] == number] for number in range(len(threads))
    }
    for target in range(0, len(times), 2):
        line = lines[owner[target >> 1]]
        place = line.index(target)
        others = [
            p for n, other in lines.items() if n != owner[target >> 1] and keys[n][0] == keys[owner[target >> 1]][0]
            for p in other if times[p] <= times[target]
        ]  # fmt: skip
        if not others or (place and times[target] - times[line[place - 1]] < HANDOVER_SILENCE):
            continue
        source = max(others, key=lambda p: (times[p], p))
        theirs = lines[owner[source >> 1]]
        onward = line[min(place + 3, len(line) - 1)]
        following = theirs[theirs.index(source) + 1 :][:1]
        silent = not following or times[following[0]] >= times[onward]
        if not place or (times[source] >= times[line[place - 1]] and source % 2 == 1 and silent):
            expected[target] = source
    assert found == expected

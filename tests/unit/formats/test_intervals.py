import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpsight.formats.writing.intervals import lanes, nesting
from warpsight.formats.writing.placing import Depths, LaneAllocator

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=60)


def columns(pairs, key):
    rows = sorted(((s, s + d) for s, d in pairs), key=key)
    return np.array([s for s, _ in rows], np.int64), np.array([e for _, e in rows], np.int64)


def overlap(a, b):
    return a[0] < max(b[1], b[0] + 1) and b[0] < max(a[1], a[0] + 1)


@given(INTERVALS)
def test_lanes_never_hold_overlapping_work_and_are_as_few_as_possible(pairs):
    start, end = columns(pairs, lambda r: r)
    lane = lanes(start, end)
    rows = list(zip(start, end, lane, strict=True))
    for i, a in enumerate(rows):
        assert not [b for b in rows[:i] if b[2] == a[2] and overlap(a, b)]
    deepest = max((sum(overlap((s, s + 1), r) for r in rows) for s in start), default=0)
    assert lane.max(initial=-1) + 1 == deepest


def test_work_goes_back_to_the_first_lane_after_a_pause():
    start, end = np.array([0, 5, 100, 105]), np.array([10, 15, 110, 115])
    assert lanes(start, end).tolist() == [0, 1, 0, 1]


@given(INTERVALS)
def test_nested_depths_are_stacks(pairs):
    start, end = columns(pairs, lambda r: (r[0], -r[1]))
    depth = nesting(start, end)
    stack = []
    for s, e, d in zip(start, end, depth, strict=True):
        if d < 0:
            continue
        while stack and stack[-1][1] <= s and (stack[-1][0] < s or stack[-1][1] > stack[-1][0]):
            stack.pop()
        stack = [x for x in stack if x[1] > s or x[0] == s == x[1]]
        assert d <= len(stack)
        stack = stack[:d]
        assert not stack or e <= stack[-1][1]
        stack.append((s, e))


def test_properly_nested_calls_keep_their_depth():
    start, end = np.array([0, 1, 2, 6, 20]), np.array([10, 5, 3, 9, 30])
    assert nesting(start, end).tolist() == [0, 1, 2, 1, 0]


def test_a_crossing_interval_is_told_apart():
    start, end = np.array([0, 5]), np.array([10, 15])
    assert nesting(start, end).tolist() == [0, -1]


def test_a_call_across_the_end_of_a_range_goes_instead_of_the_range():
    # Two ranges one after another, each with calls; one call reaches from the first into the second.
    rows = [(0, 100), (10, 20), (95, 105), (101, 200), (110, 120), (150, 160)]
    start, end = (np.array(c) for c in zip(*rows, strict=True))
    assert nesting(start, end).tolist() == [0, 1, -1, 0, 1, 1]


@given(INTERVALS, st.integers(1, 9))
def test_lanes_placed_in_windows_never_hold_overlapping_work(pairs, size):
    start, end = columns(pairs, lambda r: r)
    lanes_of = LaneAllocator()
    cut = [i for i in range(1, len(start)) if i % size == 0 and start[i] > start[i - 1]]
    lane = [lanes_of.place(s, e) for s, e in zip(np.split(start, cut), np.split(end, cut), strict=True)]
    rows = list(zip(start, end, np.concatenate(lane), strict=True))
    for i, a in enumerate(rows):
        assert not [b for b in rows[:i] if b[2] == a[2] and overlap(a, b)]


@given(INTERVALS, st.integers(1, 9))
def test_depths_placed_in_windows_are_stacks(pairs, size):
    start, end = columns(pairs, lambda r: (r[0], -r[1]))
    depths = Depths()
    cut = [i for i in range(1, len(start)) if i % size == 0 and start[i] > start[i - 1]]
    depth = [depths.place(s, e) for s, e in zip(np.split(start, cut), np.split(end, cut), strict=True)]
    stack = []
    for s, e, d in zip(start, end, np.concatenate(depth), strict=True):
        if d < 0:
            continue
        while stack and stack[-1] <= s:
            stack.pop()
        assert not stack or e <= stack[-1]
        stack.append(e)

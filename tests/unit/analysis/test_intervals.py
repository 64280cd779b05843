"""Interval algebra against sets of integers: on small times every moment can be written down."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.model import intervals

#: Kernels of now in ns since 1970, of a machine that just booted, of a clock that began below zero.
ORIGINS = (1_790_000_000_123_456_789, 0, -50)
RAW = st.lists(st.tuples(st.integers(0, 60), st.integers(-5, 15)), max_size=25)
ORIGIN = st.sampled_from(ORIGINS)


def columns(raw, origin=0):
    start = np.array([s + origin for s, _ in raw], np.int64)
    return start, start + np.array([d for _, d in raw], np.int64)


def moments(raw, origin=0):
    return {origin + t for s, d in raw for t in range(s, s + d)}


def members(whole):
    assert (whole.end > whole.start).all()
    assert (whole.start[1:] > whole.end[:-1]).all()
    return {t for s, e in zip(whole.start.tolist(), whole.end.tolist(), strict=True) for t in range(s, e)}


@given(RAW, ORIGIN)
def test_union_is_the_moments_that_any_interval_covers(raw, origin):
    whole = intervals.union(*columns(raw, origin))
    assert members(whole) == moments(raw, origin)
    assert whole.total == len(moments(raw))


@given(RAW, RAW, ORIGIN)
def test_intersection_difference_and_merging_are_those_of_sets(one, other, origin):
    a, b = intervals.union(*columns(one, origin)), intervals.union(*columns(other, origin))
    x, y = moments(one, origin), moments(other, origin)
    assert members(intervals.intersection(a, b)) == x & y
    assert members(intervals.difference(a, b)) == x - y
    assert members(intervals.merged(a, b)) == x | y


@given(RAW, st.integers(-10, 70), st.integers(-10, 70), ORIGIN)
def test_set_and_complement_share_a_window_out(raw, begin, end, origin):
    whole = intervals.union(*columns(raw, origin))
    window = set(range(origin + begin, origin + end))
    assert members(intervals.clipped(whole, origin + begin, origin + end)) == moments(raw, origin) & window
    assert members(intervals.complement(whole, origin + begin, origin + end)) == window - moments(raw, origin)


@given(RAW, st.lists(st.tuples(st.integers(-9, 80), st.integers(0, 40)), max_size=9), ORIGIN)
def test_coverage_counts_the_moments_of_each_window(raw, asked, origin):
    whole = intervals.union(*columns(raw, origin))
    begin, end = columns(asked, origin)
    expected = [len(moments(raw) & set(range(b, b + w))) for b, w in asked]
    assert intervals.coverage(whole, begin, end).tolist() == expected


@given(RAW, ORIGIN)
def test_depth_is_how_many_intervals_hold(raw, origin):
    start, end = columns(raw, origin)
    times, level = intervals.depth(start, end)
    for t in range(-1, 80):
        place = int(np.searchsorted(times, t + origin, "right")) - 1
        assert (level[place] if place >= 0 else 0) == sum(s <= t < s + d for s, d in raw)
    assert (np.diff(times) > 0).all()
    assert not len(level) or level[-1] == 0
    expected: dict[int, int] = {}
    for t in range(80):
        held = sum(s <= t < s + d for s, d in raw)
        if held:
            expected[held] = expected.get(held, 0) + 1
    assert dict(zip(*(c.tolist() for c in intervals.time_at_depth(start, end)), strict=True)) == expected


@given(RAW, st.lists(st.integers(-9, 80), max_size=9), ORIGIN)
def test_integral_is_the_interval_time_before_each_moment(raw, asked, origin):
    start, end = columns(raw, origin)
    at = np.array([t + origin for t in asked], np.int64)
    expected = [sum(max(0, min(s + max(d, 0), t) - s) for s, d in raw) for t in asked]
    assert intervals.integral(start, end, at).tolist() == expected


def test_integral_survives_sums_beyond_64_bits():
    start = np.full(1_000_000, 1 << 50, np.int64)
    end = start + (1 << 42)
    at = np.array([(1 << 50) + (1 << 43)], np.int64)
    assert int(intervals.integral(start, end, at)[0]) == 1_000_000 * (1 << 42)


@settings(max_examples=30)
@given(st.integers(0, 1 << 61), st.integers(0, 1000), st.integers(1, 20))
def test_windows_share_time_out_without_gaps(begin, length, count):
    edges = intervals.windows(begin, begin + length, count)
    assert (edges[0], edges[-1]) == (begin, begin + length)
    assert len(edges) == (min(count, length) + 1 if length else 1)
    widths = np.diff(edges)
    assert not len(widths) or int(widths.max()) - int(widths.min()) <= 1


@pytest.mark.parametrize(("width", "expected"), [(4, [0, 4, 8, 10]), (10, [0, 10]), (99, [0, 10])])
def test_windows_of_a_width_end_with_the_rest(width, expected):
    assert intervals.windows(0, 10, width=width).tolist() == expected

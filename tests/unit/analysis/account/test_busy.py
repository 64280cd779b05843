"""Busy and idle time of one device: every nanosecond once, and rows share what they have in common."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH
from warpsight.analysis.account.busy import TIER, busy, whole
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, KINDS, SET

ROW = st.tuples(st.integers(0, 40), st.integers(-2, 14), st.sampled_from((KERNEL, COMMUNICATION, COPY, SET)))


def columns(rows, origin=0):
    rows = sorted(rows, key=lambda row: row[0])
    start = np.array([s for s, _, _ in rows], np.int64) + origin
    end = start + np.array([d for _, d, _ in rows], np.int64)
    return start, end, np.array([k for _, _, k in rows], np.int8)


def account(start, end, kind):
    """Every nanosecond by a loop: the time of each tier, each row's share, and the moments in which nothing ran."""
    total, own, idle = [0, 0, 0], [Fraction(0)] * len(start), []
    moments = [t for s, e in zip(start, end, strict=True) for t in range(s, e)]
    for t in range(min(moments, default=0), max(moments, default=-1) + 1):
        running = [i for i in range(len(start)) if start[i] <= t < end[i]]
        if not running:
            idle.append(t)
            continue
        tier = min(int(TIER[kind[i]]) for i in running)
        first = [i for i in running if TIER[kind[i]] == tier]
        total[tier] += 1
        for i in first:
            own[i] += Fraction(1, len(first))
    return tuple(total), own, idle


def test_kernels_come_before_collectives_and_those_before_copies_and_fills():
    assert {kind: int(TIER[number]) for number, kind in enumerate(KINDS)} == {
        "kernel": 0, "communication": 1, "copy": 2, "set": 2,
    }  # fmt: skip


@settings(deadline=None)
@given(st.lists(ROW, max_size=12), st.sampled_from((0, EPOCH, -30)))
@example([(0, 10, KERNEL), (5, 10, KERNEL), (20, 5, COPY), (22, 1, SET)], 0)
@example([(0, 10, COPY), (2, 3, COMMUNICATION), (3, 9, KERNEL), (3, 9, KERNEL)], EPOCH)
def test_busy_and_idle_time_are_those_of_every_nanosecond(rows, origin):
    start, end, kind = columns(rows, origin)
    found = busy(start, end, kind)
    total, own, idle = account(start.tolist(), end.tolist(), kind)
    assert found.total == total
    assert found.own == pytest.approx([float(one) for one in own])
    stretches = list(zip(found.idle_begin.tolist(), found.idle_end.tolist(), strict=True))
    assert [t for begin, stop in stretches for t in range(begin, stop)] == idle
    assert all(stop < begin for (_, stop), (begin, _) in pairwise(stretches))
    assert found.span == sum(total) + len(idle)
    ran = {
        t
        for s, e, k in zip(start.tolist(), end.tolist(), kind, strict=True)
        if k == KERNEL
        for t in range(s, e)
    }
    others = [range(start[i], end[i]) for i in np.flatnonzero(kind != KERNEL)]
    assert found.exposed.tolist() == [len(set(one) - ran) for one in others]


@settings(deadline=None)
@given(st.lists(ROW, max_size=12))
def test_the_work_that_ends_a_stretch_is_the_first_that_begins_there(rows):
    start, end, kind = columns(rows)
    found = busy(start, end, kind)
    assert len(found.next) == len(found.idle_end)
    for stop, row in zip(found.idle_end.tolist(), found.next.tolist(), strict=True):
        assert row == start.tolist().index(stop)


def test_rows_that_run_together_share_the_time():
    # 0        10        20        30
    # |---- a -----|                       0 to 13
    #           |---- b -----|            10 to 24; 10 to 13 belongs to both
    found = busy(np.array([0, 10]), np.array([13, 24]), np.array([KERNEL, KERNEL]))
    assert found.own.tolist() == [11.5, 12.5]
    assert found.total == (24, 0, 0)


def test_a_collective_has_only_what_no_kernel_hides_and_a_copy_what_neither_does():
    # kernel          |0 --- 10|
    # collective           |5 ------- 20|
    # copy                      |12 ---------- 30|
    found = busy(np.array([0, 5, 12]), np.array([10, 20, 30]), np.array([KERNEL, COMMUNICATION, COPY]))
    assert found.own.tolist() == [10, 10, 10]
    assert found.total == (10, 10, 10)


def test_work_of_no_length_at_either_end_has_no_part_in_the_span():
    start = np.array([0, 10, 20, 90])
    found = busy(start, np.array([0, 15, 25, 90]), np.array([KERNEL] * 4))
    assert (found.span, found.idle_begin.tolist(), found.idle_end.tolist()) == (15, [15], [20])


def test_nothing_is_nothing():
    none = np.zeros(0, np.int64)
    found = busy(none, none, none)
    assert (found.total, found.span, len(found.own), len(found.next)) == ((0, 0, 0), 0, 0, 0)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_groups_add_up_to_the_total_and_none_is_off_by_more_than_rounding(times):
    exact = np.array(times)
    total = round(float(exact.sum()))
    found = whole(exact, total)
    assert int(found.sum()) == total
    largest = int(np.argmax(np.rint(exact)))
    others = np.arange(len(exact)) != largest
    assert (np.abs(found - exact)[others] <= 0.5).all()
    assert abs(found[largest] - exact[largest]) <= len(exact)


def test_what_rounding_left_goes_to_the_largest_group():
    # 0.5 + 9.0 + 0.5: both halves round to 0 (to even), so the largest gets the nanosecond that is missing
    assert whole(np.array([0.5, 9.0, 0.5]), 10).tolist() == [0, 10, 0]


def test_whole_nanoseconds_stay_exact_beyond_what_floats_hold():
    total = (1 << 53) + 1  # a float holds the even neighbor
    assert whole(np.array([float(total)]), total).tolist() == [total]


def test_a_short_row_inside_a_long_one_shares_with_it_whatever_came_between():
    # Ten of A's hundred nanoseconds are B's too, and ten C's; D begins as A ends.
    start, end = np.array([0, 10, 30, 100]), np.array([100, 20, 40, 110])
    assert busy(start, end, np.zeros(4, np.int8)).own.tolist() == [90, 5, 5, 10]


def test_no_groups_have_no_time():
    assert whole(np.zeros(0), 0).tolist() == []
    assert whole(np.zeros(2), 0).tolist() == [0, 0]

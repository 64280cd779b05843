"""Joining work with its calls, and numbering rows, against dictionaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import kernel
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.calls import joined
from warpsight.model.selection import Rows

#: Dense keys, keys of another CUPTI session (widened to 64 bits), and none.
KEYS = st.one_of(
    st.integers(0, 30), st.integers((5 << 32), (5 << 32) + 30), st.just(-1), st.just((1 << 62) + 3)
)
PAIRS = st.lists(st.tuples(st.integers(0, 2), KEYS), max_size=40)


def columns(pairs):
    return np.array([p for p, _ in pairs], np.int32), np.array([k for _, k in pairs], np.int64)


@settings(max_examples=200)
@given(PAIRS, PAIRS)
def test_joined_finds_the_first_equal_pair(wanted, among):
    first = {}
    for i, pair in enumerate(among):
        first.setdefault(pair, i)
    expected = [first.get(pair, -1) if pair[1] >= 0 else -1 for pair in wanted]
    assert joined(*columns(wanted), *columns(among)).tolist() == expected


COLUMNS = st.lists(
    st.tuples(st.integers(-1, 2), st.sampled_from([-(1 << 15), (1 << 15) - 1]), st.sampled_from([-(1 << 31), 0, (1 << 31) - 1])),
    min_size=1, max_size=30,
)  # fmt: skip


@given(COLUMNS)
def test_numbered_tells_rows_apart_at_the_limits_of_their_types(rows):
    raw = [
        np.array(c, t) for c, t in zip(zip(*rows, strict=True), (np.int16, np.int16, np.int32), strict=True)
    ]
    code, distinct = device_work.numbered(raw)
    listed = sorted(set(rows))
    assert [tuple(r) for r in zip(*(c.tolist() for c in distinct), strict=True)] == listed
    assert code.tolist() == [listed.index(row) for row in rows]


@given(st.lists(st.integers(0, 5), max_size=30))
def test_split_gives_the_rows_of_each_group_in_order(groups):
    parts = device_work.split(np.array(groups, np.int32), 6)
    assert [p.tolist() for p in parts] == [[i for i, g in enumerate(groups) if g == n] for n in range(6)]


def call_row(start, duration, thread, process, **more):
    return {
        "start": start,
        "duration": duration,
        "thread": thread,
        "process": process,
        "function": "cudaMalloc",
        **more,
    }


@pytest.fixture
def called(build):
    """Calls of three threads, some at the same moment, number 3 of which had not returned."""
    rng = np.random.default_rng(7)
    rows = [call_row(int(rng.integers(0, 12)), int(rng.integers(0, 5)), int(rng.choice([5, 9])), int(rng.integers(0, 2)),
                     correlation=i) for i in range(60)]  # fmt: skip
    launches = [row | {"function": "cudaLaunchKernel", "captured": False} for row in rows[:30]]
    launches[3] |= {"duration": None}
    return build(launch=launches, api=rows[30:], kernel=[kernel(3, 90, correlation=2)]), rows


WINDOWS = (Rows(), Rows(3, 9), Rows(begin=4), Rows(end=4), Rows(processes=(1,)), Rows(2, 8, processes=(0,)))


@pytest.mark.parametrize("window", WINDOWS)
def test_calls_stand_in_order_of_thread_and_begin_and_others_before_launches(called, window):
    trace, rows = called
    number = calls.load(trace, api=True).correlation.tolist()  # in the order of the table

    def wanted(row):
        return ((window.begin is None or row["start"] >= window.begin) and (window.end is None or row["start"] < window.end)
                and (not window.processes or row["process"] in window.processes))  # fmt: skip

    def thread(place):
        return rows[number[place]]["process"], rows[number[place]]["thread"]

    order = [place for place in range(60) if wanted(rows[number[place]])]
    order.sort(key=lambda place: (thread(place), rows[number[place]]["start"], number[place] < 30, place))
    found = calls.by_thread(trace, window)
    assert found.call.tolist() == order
    owners = [thread(place) for place in order]
    assert [found.threads[one] for one in found.thread.tolist()] == owners
    assert found.edges.tolist() == [owners.index(one) for one in found.threads] + [len(order)]
    assert found.places(60).tolist() == [order.index(i) if i in order else -1 for i in range(60)]


def test_a_call_that_had_not_returned_ends_with_the_last_work_or_call(called, build):
    trace, rows = called
    found = calls.load(trace, api=True)
    number = found.correlation.tolist()
    assert [number[place] for place in found.unreturned.tolist()] == [3]
    assert found.end.tolist() == [93 if i == 3 else rows[i]["start"] + rows[i]["duration"] for i in number]
    assert calls.load(trace).end.tolist() == found.end[:30].tolist()
    assert calls.load(trace).unreturned.tolist() == found.unreturned.tolist()
    later = build(api=[call_row(5, None, 1, 0), call_row(100, 20, 1, 0)], kernel=[kernel(3, 90)])
    assert calls.load(later, api=True).end.tolist() == [120, 120]
    assert calls.load(later).unreturned.tolist() == []


def test_calls_of_more_functions_than_sixteen_bits_number_keep_their_own(build):
    """A tracer of the user's own functions names each; half of 65,536 is where a signed number of 16 bits ends."""
    count = (1 << 15) + 2
    rows = [
        {"start": n, "duration": 1, "function": f"f{n}", "thread": 1, "process": 0, "correlation": n}
        for n in range(count)
    ]
    found = calls.load(build(api=rows), api=True)
    assert [found.functions[number] for number in found.function.tolist()] == [f"f{n}" for n in range(count)]

"""What threads wait for, against going through their calls one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.retime import polls, waiting
from warpsight.analysis.retime.usual import by_code

LAUNCH, TOLD, OTHER = range(3)
FUNCTIONS = ["cudaLaunchKernel", "cudaStreamWaitEvent", "cudaEventRecord"]
THREADS = st.lists(st.lists(st.sampled_from((LAUNCH, TOLD, OTHER)), max_size=7), min_size=1, max_size=3)


def program(**graph: Any) -> Any:
    """What the functions look at; calls are `by_thread`, in the order of their threads."""
    own = {name: graph.pop(name) for name in ("delay", "place", "before", "lag", "base") if name in graph}
    return cast(Any, SimpleNamespace(graph=SimpleNamespace(**graph), **own))


@settings(derandomize=True, max_examples=80)
@given(THREADS, st.integers(0, 1 << 20))
def test_work_was_told_to_wait_when_its_thread_said_so_since_its_launch_before(
    threads: list[list[int]], late: int
) -> None:
    calls = [(thread, kind) for thread, kinds in enumerate(threads) for kind in kinds]
    places = [place for place, (_, kind) in enumerate(calls) if kind == LAUNCH]
    delay = [late >> node & 1 for node in range(len(places))]
    expected = []
    for node, place in enumerate(places):
        since = place - 1
        while since >= 0 and calls[since][0] == calls[place][0] and calls[since][1] != LAUNCH:
            since -= 1
        if delay[node] and any(kind == TOLD for _, kind in calls[since + 1 : place]):
            expected.append(node)
    found = waiting.after_stream_waits(program(
        calls=SimpleNamespace(functions=FUNCTIONS, function=np.array([kind for _, kind in calls], np.int64)),
        by_thread=SimpleNamespace(call=np.arange(len(calls)), thread=np.array([thread for thread, _ in calls], np.int64)),
        delay=np.array([*delay, 5], np.int64), place=np.array([*places, -1], np.int64),  # and one of no known call
    ))  # fmt: skip
    assert found.tolist() == expected


@st.composite
def nested(draw: st.DrawFn) -> list[int]:
    """Points of one thread in order: 2n is the begin of call n, 2n + 1 its end; calls lie inside of others."""
    order, opened, count = [], [], 0
    for opens in draw(st.lists(st.booleans(), max_size=16)):
        if opens or not opened:
            order.append(2 * count)
            opened.append(count)
            count += 1
        else:
            order.append(2 * opened.pop() + 1)
    return order + [2 * one + 1 for one in opened[::-1]]


@settings(derandomize=True, max_examples=80)
@given(nested(), st.integers(0, 1 << 16), st.integers(0, 1 << 16))
def test_points_inside_of_calls_and_calls_that_launch_nothing_inside(
    sequence: list[int], chosen: int, launching: int
) -> None:
    calls = range(len(sequence) // 2)
    ends = [2 * one + 1 for one in calls if chosen >> one & 1]
    launched = [one for one in calls if launching >> one & 1]
    whole = program(
        sequence=np.array(sequence, np.int64), base=len(sequence), place=np.array([*launched, -1], np.int64)
    )
    within = {end: sequence[sequence.index(end - 1) + 1 : sequence.index(end)] for end in ends}
    inside = {point for points in within.values() for point in points}
    assert sorted(waiting.inside(whole, np.array(ends, np.int64)).tolist()) == sorted(inside)
    silent = [end for end in ends if not {2 * one + 1 for one in launched} & set(within[end])]
    assert waiting._only_waiting(whole, np.array(ends, np.int64)).tolist() == silent
    flat = program(sequence=None, base=len(sequence), place=np.array(launched, np.int64))
    assert waiting.inside(flat, np.array(ends, np.int64)).tolist() == []
    assert waiting._only_waiting(flat, np.array(ends, np.int64)).tolist() == ends


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=9))
def test_the_latest_of_each_group(rows: list[tuple[int, int]]) -> None:
    group, time = (np.array(column) for column in zip(*rows, strict=True))
    expected = [max((i for i, row in enumerate(rows) if row[0] == one), key=lambda i: (rows[i][1], i))
                for one in sorted({row[0] for row in rows})]  # fmt: skip
    assert waiting._last_of_each(group, time).tolist() == expected


CALLS = st.lists(
    st.tuples(st.integers(0, 5_000), st.booleans(), st.integers(0, 1), st.integers(0, 5_000)),
    min_size=1,
    max_size=9,
)


@settings(derandomize=True, max_examples=60)
@given(CALLS)
def test_a_call_that_waited_costs_what_calls_of_its_function_cost_that_did_not(
    rows: list[tuple[int, bool, int, int]],
) -> None:
    length, waited, function, lag = (np.array(column) for column in zip(*rows, strict=True))
    time = np.cumsum(np.stack([np.full(len(rows), 7), length], axis=1).reshape(-1))
    point = 2 * np.arange(len(rows)) + 1
    lags = np.zeros(2 * len(rows), np.int64)
    lags[point] = lag
    found = waiting._own_costs(program(time=time, lag=lags), point, waited, function)
    # Where no call went by without a wait, the shortest of them, but no more than 2 µs, is the usual cost.
    usual = by_code(length, function, np.flatnonzero(~waited), 2, min(int(length.min()), 2_000))
    assert found.tolist() == [min(int(usual[one]), own) if was else own for _, was, one, own in rows]


@settings(derandomize=True, max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=1, max_size=26),
    st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=5),
)
def test_threads_take_turns_when_each_made_four_calls_while_the_other_was_silent(
    calls: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    calls.sort()
    owner, begins = [thread for thread, _ in calls], [time for _, time in calls]
    time = [moment for begin in begins for moment in (begin, begin)]
    before = [-1 if not one or owner[one] != owner[one - 1] else 2 * one - 1 for one in range(len(calls))]
    pairs = [(a % len(calls), b % len(calls)) for a, b in wanted]
    expected = []
    for one, two in pairs:
        silent = time[max(before[two], 0)]
        theirs = [begin for thread, begin in calls if thread == owner[one]]
        own = [begin for thread, begin in calls if thread == owner[two]]
        meanwhile = [
            i
            for i, (thread, begin) in enumerate(calls)
            if thread == owner[one] and silent <= begin and i <= one
        ]
        quiet = max((begin for begin in theirs if begin < silent), default=own[0])
        ahead = sum(begin <= silent for begin in own) - sum(begin < quiet for begin in own)
        expected.append(before[two] < 0 or (len(meanwhile) >= 4 and ahead >= 4))
    points = np.full(2 * len(calls), -1, np.int64)
    points[::2] = before
    found = waiting._working_meanwhile(
        program(
            time=np.array(time),
            by_thread=SimpleNamespace(thread=np.array(owner)),
            before=points,
            base=len(points),
        ),
        np.array([2 * one + 1 for one, _ in pairs], np.int64),
        np.array([2 * two for _, two in pairs], np.int64),
    )
    assert found.tolist() == expected


@settings(derandomize=True, max_examples=80)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=6).map(sorted),
    st.lists(st.tuples(st.integers(0, 45), st.integers(0, 1), st.integers(-1, 5)), max_size=6),
)
def test_a_run_of_queries_ends_with_the_last_work_that_ended_between_the_last_two(
    queries: list[int], work: list[tuple[int, int, int]]
) -> None:
    """Of the queries' own process (0), and launched before the query, where its launch is known."""
    nodes = [(end, process, call if call < len(queries) else -1) for end, process, call in work]
    expected = []
    for place, begun in enumerate(queries):
        known = [(end, node) for node, (end, _, _) in enumerate(nodes) if end <= begun]
        if not known:
            expected.append(-1)
            continue
        end, node = max(known)
        good = end > queries[max(place - 1, 0)] and nodes[node][1] == 0
        expected.append(node if good and (nodes[node][2] < 0 or queries[nodes[node][2]] < begun) else -1)
    found = polls._ended_between(
        program(
            time=np.repeat(queries, 2), kind=np.zeros(len(nodes), np.int8), end=np.array([end for end, _, _ in nodes], np.int64),
            queues=[SimpleNamespace(process=0), SimpleNamespace(process=1)],
            queue=np.array([process for _, process, _ in nodes], np.int64),
            calls=SimpleNamespace(process=np.zeros(len(queries), np.int64)),
            by_thread=SimpleNamespace(call=np.arange(len(queries))), place=np.array([call for _, _, call in nodes], np.int64),
        ),
        np.arange(len(queries)),
    )  # fmt: skip
    assert found.tolist() == expected


@pytest.mark.parametrize(("meanwhile", "ahead"), [(4, 4), (3, 9), (9, 3), (4, 3), (3, 4)])
def test_fewer_than_four_calls_may_be_a_chance(meanwhile: int, ahead: int) -> None:
    begins = [0, *range(50, 50 + meanwhile), *range(10, 10 + ahead), 90]
    owner = np.array([0] * (1 + meanwhile) + [1] * (ahead + 1))
    before = np.full(2 * len(begins), -1, np.int64)
    before[2::2] = 2 * np.arange(1, len(begins)) - 1
    whole = program(
        time=np.repeat(begins, 2), by_thread=SimpleNamespace(thread=owner), before=before, base=len(before)
    )
    found = waiting._working_meanwhile(whole, np.array([2 * meanwhile + 1]), np.array([2 * len(begins) - 2]))
    assert found.tolist() == [meanwhile >= 4 and ahead >= 4]

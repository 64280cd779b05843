"""The critical path in parts: the time that each cause has in a window, and the work a stream had issued before a moment."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.path import critical_path as path_of
from warpsight.analysis.path import edges, host
from warpsight.analysis.path.critical_path import CAUSES, CriticalPath, _causes, chain
from warpsight.analysis.path.edges import matched
from warpsight.analysis.path.lines import Lines
from warpsight.analysis.steps import iterations
from warpsight.model.selection import Rows
from warpsight.model.waits import EventRecords, Waits
from warpsight.model.work import Queue

LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, len(CAUSES) - 1)), min_size=1, max_size=12)


@given(LENGTHS, st.integers(-5, 60), st.integers(0, 60))
def test_a_window_has_the_part_of_each_segment_that_lies_in_it(rows, begin, length):
    end = begin + length
    ends = np.cumsum([n for n, _ in rows])
    cause = np.array([c for _, c in rows], np.int8)
    path = CriticalPath(None, np.append(0, ends[:-1]), ends, cause, np.arange(len(rows)))
    expected: dict[str, list[int]] = {}
    for first, last, kind in zip(path.begin.tolist(), ends.tolist(), cause.tolist(), strict=True):
        if last > begin and first < end and begin < end:
            one = expected.setdefault(CAUSES[kind], [0, 0])
            one[0] += min(last, end) - max(first, begin)
            one[1] += 1
    if begin == end:
        return
    found = _causes(path, begin, end).to_pylist()
    assert {row["cause"]: [row["time"], row["segments"]] for row in found} == expected
    assert [row["time"] for row in found] == sorted((row["time"] for row in found), reverse=True)
    whole = sum(time for time, _ in expected.values())
    assert [row["share"] for row in found] == pytest.approx([row["time"] / whole * 100 for row in found])


def test_the_steady_state_reaches_from_the_first_loops_begin_to_the_last_loops_end(monkeypatch):
    loops = [SimpleNamespace(window=lambda w=w: w) for w in ((50, 80), None, (20, 60), (30, 90))]
    monkeypatch.setattr(iterations, "find", lambda trace, rows: loops)
    assert path_of._steady(None, Rows()) == (20, 90)
    monkeypatch.setattr(iterations, "find", lambda trace, rows: loops[1:2])
    assert path_of._steady(None, Rows()) == (0, 0)


class Graph(SimpleNamespace):
    """What a path needs of a graph."""

    def __len__(self):
        return len(self.time)


NODES = st.lists(
    st.tuples(
        st.integers(0, 40), st.integers(0, 9), st.integers(0, 4), st.integers(1, 11), st.integers(0, 30)
    ),
    min_size=1,
    max_size=12,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(NODES, st.integers(0, 3), st.integers(1, 5))
def test_a_path_is_the_same_however_long_the_pieces_are(nodes, calls, piece):
    """Clocks may go backwards: what ends after the next begins counts up to there."""
    base = min(2 * calls, len(nodes))
    end, length, kind, cause, choice = (np.array(column, np.int64) for column in zip(*nodes, strict=True))
    parent = np.array([one % place - 1 if place else -1 for place, one in enumerate(choice.tolist())])
    graph = Graph(
        time=end, start=(end - length)[base:], kind=kind[base:], cause=cause, parent=parent, base=base
    )
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for size in (piece, 1 << 18):
            patch.setattr(path_of, "_PIECE", size)
            path = path_of.trace_back(graph)
            found.append([column.tolist() for column in (path.begin, path.end, path.cause, path.point)])
    assert found[0] == found[1]
    assert path.begin[1:].tolist() == path.end[:-1].tolist()
    assert path.length == int(end.max()) - min(int(end.min()), int(graph.start.min(initial=1 << 40)))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=30))
def test_a_chain_is_a_point_and_its_ancestors(choices):
    parent = np.array([choice % place - 1 if place else -1 for place, choice in enumerate(choices)], np.int32)
    for last in range(len(parent)):
        expected, here = [], last
        while here >= 0:
            expected.append(here)
            here = int(parent[here])
        assert chain(parent, last).tolist() == expected


NODES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 9)), max_size=10)


@settings(max_examples=150)
@given(NODES, st.lists(st.integers(-2, 25), max_size=5))
def test_before_a_moment_the_last_to_end_of_what_had_been_issued(nodes, moments):
    """Nodes are (queue, begin, length) in order of begin, issued up to two moments before they begin."""
    nodes = sorted(nodes, key=lambda node: node[1])
    queue = np.array([q for q, _, _ in nodes], np.int32)
    issue = np.array([b - (i * 7 % 3) for i, (_, b, _) in enumerate(nodes)], np.int64)
    end = np.array([b + n for _, b, n in nodes], np.int64)
    lines = Lines.of(queue, issue, end, 4)
    assert lines.queues == sorted(set(queue.tolist()))
    for number in range(4):
        order = sorted((i for i in range(len(nodes)) if queue[i] == number), key=lambda i: (issue[i], i))
        a, b = lines.places(number)
        assert lines.order[a:b].tolist() == order
        expected = []
        for moment in moments:
            issued = [i for i in order if issue[i] < moment]
            last = max((int(end[i]) for i in issued), default=0)
            # of those that end together the last to be issued
            expected.append([i for i in issued if end[i] == last][-1] if issued else -1)
        assert lines.before(number, np.array(moments, np.int64)).tolist() == expected
    assert lines.before(-1, np.array([5])).tolist() == [-1]
    assert lines.before(9, np.array([5])).tolist() == [-1]


def test_names_on_the_path_have_their_time_there_and_in_all(build):
    """gemm waits for nothing; of softmax only what is longer than gemm is on the path."""
    trace = build(
        kernel=[kernel(10_000, 50_000, 1, correlation=1), kernel(60_000, 30_000, 4, correlation=2),
                kernel(11_000, 20_000, 4, correlation=3, stream=8)],
        launch=[launch(0, 4_000, 1), launch(4_000, 2_000, 2), launch(7_000, 1_000, 3)],
    )  # fmt: skip
    rows = path_of.critical_path(trace).tables["on_path"].to_pylist()
    assert [(row["name"], row["kind"], row["time"], row["total"], row["count"]) for row in rows[:2]] == [
        ("gemm", "kernel", 50_000, 50_000, 1), ("softmax", "kernel", 30_000, 50_000, 1),
    ]  # fmt: skip


RECORD = st.tuples(st.integers(0, 12), st.sampled_from((0, 3, 1 << 40)), st.integers(0, 1))


@settings(max_examples=150)
@given(st.lists(RECORD, max_size=8), st.lists(RECORD, max_size=8))
def test_a_wait_is_for_the_last_record_of_its_event_in_its_process_before_it(waiting, recorded):
    (when, event, process), (issued, named, owner) = (
        tuple(np.array([row[i] for row in rows], np.int64) for i in range(3)) for rows in (waiting, recorded)
    )
    none = np.zeros(len(waiting), np.int64)
    waits = Waits(when, when, none, [], event, none, process, none, none, ())
    records = EventRecords(issued, named, named, owner, owner, owner)
    found = matched(waits, when, records, issued).tolist()
    for place, (moment, one, mine) in enumerate(waiting):
        before = [
            (at, i)
            for i, (at, other, theirs) in enumerate(recorded)
            if (other, theirs) == (one, mine) and at < moment
        ]
        assert found[place] == (max(before)[1] if before else -1)  # of one moment the last in the table


@settings(derandomize=True, max_examples=60)
@given(NODES, st.integers(0, 10))
def test_the_default_stream_and_blocking_streams_wait_for_each_others_work(nodes, waits):
    """Queue 0 is the legacy default stream, 1 blocks, 2 does not; nodes from some number on are waits of streams."""
    nodes = sorted(nodes, key=lambda node: node[1])
    queue, begin = ([node[place] for node in nodes] for place in (0, 1))
    end = [b + n for _, b, n in nodes]
    lines = Lines.of(*(np.array(column, np.int64) for column in (queue, begin, end)), 3)
    real = max(len(nodes) - waits, 0)
    expected = []
    for one, two in ((0, 1), (1, 0)):
        last = -1
        for node in (i for i in range(real) if queue[i] == one):
            before = [i for i in range(len(nodes)) if queue[i] == two and begin[i] < begin[node]]
            latest = max((end[i] for i in before), default=0)
            source = [i for i in before if end[i] == latest][-1] if before else -1
            if source >= 0 and source != last:
                expected.append((source, node, 5))
            last = source
    found = edges.Edges()
    queues = tuple(Queue(0, 0, context, stream) for context, stream in ((1, 0), (1, 7), (1, 8)))
    kinds = edges._StreamKinds((0,), (0, 1), ())
    edges.default_stream_edges(lines, kinds, queues, real, found, 5)
    edges.default_stream_edges(
        lines, kinds, (queues[0], Queue(0, 0, 2, 7), queues[2]), real, found, 5
    )  # another context
    joined = zip(*(column.tolist() for column in found.joined()), strict=True) if found.source else []
    assert sorted(joined) == sorted(expected)


@settings(derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=10),
    st.lists(st.integers(0, 9), max_size=5),
)
def test_the_latest_point_of_other_threads_of_the_process(calls, wanted):
    """Threads 0 and 1 are of one process, thread 2 of another; calls may lie inside each other."""
    calls = sorted([*calls, (0, 3, 1), (1, 5, 1), (2, 4, 1)])  # every thread has calls
    thread = np.array([one for one, _, _ in calls])
    time = np.array([moment for _, begin, length in calls for moment in (begin, begin + length)])
    by_thread = SimpleNamespace(
        thread=thread, threads=[(0, 10), (0, 11), (1, 10)], edges=np.searchsorted(thread, np.arange(4))
    )
    target = sorted({2 * (one % len(calls)) for one in wanted}, key=lambda point: time[point])
    found = host._last_of_others(by_thread, time, np.array(target, np.int64)).tolist()
    for point, source in zip(target, found, strict=True):
        own = calls[point // 2][0]
        others = [i for i in range(len(time)) if {own, calls[i // 2][0]} == {0, 1} and time[i] <= time[point]]
        assert (source >= 0) == bool(others)
        if others:
            assert source in others and time[source] == max(time[i] for i in others)
    inside = [
        any(one[0] == two[0] and j < i and two[1] + two[2] > one[1] for j, two in enumerate(calls))
        for i, one in enumerate(calls)
    ]
    assert host._inside(by_thread, time).tolist() == inside

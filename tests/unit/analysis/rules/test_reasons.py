"""Why streams wait for each other, which turn a slow one is compared with, and which share leads the steady state."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.analysis.conftest import kernel
from tests.unit.analysis.test_iteration_columns import made
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.rules import loops, shares, streams, verdict
from warpsight.analysis.rules.base import savings
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.selection import Rows
from warpsight.model.work import everything

DEFAULT, EVENT, LAUNCH, STREAM = dependency.DEFAULT, dependency.EVENT, dependency.LAUNCH, dependency.STREAM


@pytest.mark.parametrize(
    ("causes", "tied", "kind", "count"),
    [
        ([DEFAULT] * 2 + [STREAM] * 8, 0, "the legacy default stream", 2),  # a fifth
        ([DEFAULT] + [STREAM] * 9, 0, "", 0),
        (
            [DEFAULT] + [STREAM] * 9,
            1,
            "the legacy default stream",
            2,
        ),  # with one that its own stream released
        ([DEFAULT] * 3 + [EVENT] * 3 + [STREAM] * 4, 0, "the legacy default stream", 3),
        ([DEFAULT] * 3 + [EVENT] * 4 + [STREAM] * 3, 0, "an event of another stream", 4),
        ([EVENT] * 2 + [STREAM] * 8, 0, "an event of another stream", 2),
        ([EVENT] + [STREAM] * 9, 0, "", 0),
        ([LAUNCH] * 5 + [STREAM] * 5, 0, "the host", 5),
        ([LAUNCH] * 4 + [STREAM] * 6, 0, "", 0),
    ],
)
def test_streams_take_turns_for_what_released_most_kernels(monkeypatch, causes, tied, kind, count):
    count_of = len(causes)
    base = 4
    graph = SimpleNamespace(
        base=base, cause=np.array([0] * base + causes), time=np.full(base + count_of, 50), start=np.full(count_of, 60),
        edges=(np.full(tied, base), np.full(tied, base + count_of - 1), np.full(tied, DEFAULT)),
    )  # fmt: skip
    monkeypatch.setattr(dependency, "build", lambda trace, rows, host_rows: graph)
    facts = SimpleNamespace(window=(0, 100), trace=None, rows=Rows())
    text, found, edges = streams._reason(facts, np.arange(count_of))
    assert (found, edges) == (kind, count)
    assert bool(text) == bool(kind)
    assert kind in streams._ADVICE


@pytest.mark.parametrize(("released", "tied"), [(4_999, False), (5_000, True), (9_000, True)])
def test_edges_count_when_they_end_within_five_microseconds_of_the_begin(released, tied):
    graph = SimpleNamespace(
        base=1, cause=np.array([0, STREAM]), time=np.array([released, 0]), start=np.array([10_000]),
        edges=(np.array([0]), np.array([1]), np.array([EVENT])),
    )  # fmt: skip
    assert streams._through(graph, EVENT) == tied
    graph.cause[1] = EVENT  # it became its parent, and is counted as that
    assert streams._through(graph, EVENT) == 0


def test_the_shortest_stretch_of_turns_is_shown(build):
    turns = [0, 0, 0, 100, 110, 120, 130, 140, 150, 160, 170, 180, 900]
    rows = [kernel(t + 10 * (i % 3 if t == 0 else 0), 5, stream=7 + i % 2) for i, t in enumerate(turns)]
    work = everything(build(kernel=rows)).work
    # eight changes of the stream: nine kernels
    assert streams._turns(work, np.arange(len(work))) == (100, 185)
    assert streams._turns(work, np.arange(3)) == (0, 25)


def test_a_slow_turn_is_compared_with_a_usual_one_of_the_steady_state(build):
    """The warm-up is exactly as long as usual, and the outlier is near: neither is the usual turn."""
    one = made(build, [100, 104, 96, 400, 103, 97, 100], [0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0, 1])
    seen = []
    facts = SimpleNamespace(trace=one_trace(build), origin=0, common_stack=lambda stacks: 0)
    before = loops._by_name
    try:
        loops._by_name = lambda one, number: seen.append(number) or {}
        loops._difference(facts, one, SimpleNamespace(values={"number": 3}))
    finally:
        loops._by_name = before
    assert seen == [3, 4]


def one_trace(build):
    return build(kernel=[kernel(0, 1)])


@pytest.mark.parametrize(
    ("steady", "whole", "leads"),
    [
        (("host", "f"), ("compute", "gemm"), True),
        (("compute", "relu"), ("compute", "gemm"), True),
        (("compute", "gemm"), ("compute", "gemm"), False),
        (("host", "f"), None, True),
        (None, ("host", "f"), False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize(("window", "short"), [((100, 989), True), ((100, 1_000), False)])
def test_the_steady_state_has_its_own_first_share_where_that_differs(
    build, monkeypatch, steady, whole, leads, window, short
):
    def finding(pair):
        return None if pair is None else SimpleNamespace(kind=pair[0], name=pair[1])

    facts = Facts(build(kernel=[kernel(0, 1_000)]), Rows())
    monkeypatch.setattr(shares, "largest", lambda inside: finding(steady))
    others = [SimpleNamespace(kind=None, name="lever"), finding(whole)]
    found = verdict._first_of(facts, window, tuple(one for one in others if one is not None))
    assert (found is not None) == (leads and short)


@pytest.mark.parametrize(
    ("durations", "outlier", "usual", "slowest", "stands"),
    [
        ([900, 900, 101, 300, 102, 103, 900], [3], 5, None, 0),  # the slowest is no outlier
        ([1, 100, 101, 300, 102, 103, 1], [], 4, None, 0),
        ([1, 500, 101, 100, 102, 103, 1], [1], 4, 1, 500),
        ([1, 100, 101, 100, 102, 500, 1], [5], 2, 5, 500),
    ],
)
def test_inner_turns_stand_for_a_long_recording(
    build, monkeypatch, durations, outlier, usual, slowest, stands
):
    count = len(durations)
    one = made(build, durations, [1] * count, [i in outlier for i in range(count)])
    facts = SimpleNamespace(work=range(10**6), iterations=[one], length=5_000)
    monkeypatch.setattr(savings, "_around", lambda facts, found, number: number)
    windows, _ = savings.windows(facts)
    expected = [(usual, 5_000 - stands)] + ([(slowest, stands)] if slowest else [])
    assert [(window.program, window.stands_for) for window in windows] == expected


@pytest.mark.parametrize(
    ("steady", "window"), [([0, 1, 0], None), ([0, 1, 1], (100, 160)), ([0, 0, 0], None)]
)
def test_one_steady_turn_is_no_steady_state(build, monkeypatch, steady, window):
    one = made(build, [100, 40, 20], steady, start=0)
    monkeypatch.setattr(verdict, "_first_of", lambda facts, window, found: None)
    facts = SimpleNamespace(iterations=[one], share_busy=lambda begin, end: 0.5)
    loop = verdict._loop(facts, ())
    assert (loop.count, loop.steady, loop.steady_count, loop.busy) == (
        3,
        window,
        sum(steady),
        0.5 if window else 0.0,
    )


def test_the_main_loop_is_the_longest_and_of_equal_ones_the_first_process_has_it(build):
    short, first, second = (made(build, [9] * n) for n in (2, 4, 4))
    loops_of = [
        short,
        Iterations(**{**vars(second), "process": 3}),
        Iterations(**{**vars(first), "process": 1, "source": "steps"}),
    ]
    facts = SimpleNamespace(
        iterations=loops_of, share_busy=lambda begin, end: 0.5, length=1, trace=None, rows=Rows()
    )
    assert verdict._loop(facts, ()).source == "steps"
    assert verdict._loop(SimpleNamespace(iterations=[]), ()) is None

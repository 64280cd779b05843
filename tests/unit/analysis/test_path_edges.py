"""Edges between device work: which are kept, which record a wait is for, and who waits for the default stream."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import Build
from warpsight.analysis.path import edges as path_edges
from warpsight.analysis.path.edges import Edges
from warpsight.model.waits import EventRecords, Waits
from warpsight.model.work import Queue


def test_an_edge_has_both_its_ends() -> None:
    made = Edges()
    assert [len(column) for column in made.joined()] == [0, 0, 0]
    made.add(np.array([0, -1, 5, 4]), np.array([3, 2, -1, 0]), 2)
    made.add(np.array([7]), np.array([8]), 1)
    assert [column.tolist() for column in made.joined()] == [[0, 4, 7], [3, 0, 8], [2, 2, 1]]


KEYS = st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 12))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(KEYS, max_size=10), st.lists(KEYS, max_size=8), st.sampled_from([0, 1_790_000_000_123_456_789])
)
def test_a_wait_is_for_the_last_record_of_its_event_before_it(
    records: list[tuple[int, int, int]], waits: list[tuple[int, int, int]], origin: int
) -> None:
    def columns(rows: list[tuple[int, int, int]]) -> tuple[Any, ...]:
        event, process, time = (np.array([row[place] for row in rows], np.int64) for place in range(3))
        return event, process, time + origin

    event, process, issued = columns(records)
    none = np.zeros(len(records), np.int64)
    made = EventRecords(issued, event, none, none, process, none)
    awaited, of, when = columns(waits)
    other = np.zeros(len(waits), np.int64)
    held = Waits(when, when, other, [""], awaited, other, of, other, other, ())
    found = path_edges.matched(held, when, made, issued)
    for wait, row in zip(waits, found.tolist(), strict=True):
        before = [(one[2], n) for n, one in enumerate(records) if one[:2] == wait[:2] and one[2] < wait[2]]
        assert row == max(before, default=(0, -1))[1]


def queues(*places: tuple[int, int | None, int, int]) -> tuple[Queue, ...]:
    return tuple(Queue(*place) for place in places)


def test_streams_differ_by_their_flags_and_their_api(build: Build) -> None:
    trace = build(
        context=[
            {"process": 0, "device": 0, "context": 1, "null_stream": 7, "api": "cuda"},
            {"process": 0, "device": 0, "context": 2, "null_stream": 7, "api": "opencl"},
            {"process": 0, "device": 1, "context": 3, "api": "cuda"},
        ],
        stream=[
            {"process": 0, "device": 0, "context": 1, "stream": stream, "flags": flags}
            for stream, flags in ((7, 1), (8, 0), (9, 1), (10, None), (11, 3))
        ]
        + [
            {"process": 0, "device": 0, "context": 2, "stream": stream, "flags": flags}
            for stream, flags in ((7, 1), (8, 0), (9, 3), (10, 2), (11, None))
        ],
    )
    every = queues(*((0, 0, context, stream) for context in (1, 2) for stream in range(7, 12)), (0, 1, 3, 7))
    kinds = path_edges.stream_kinds(trace, every)
    assert kinds.default == (0,)
    assert kinds.blocking == (0, 2)
    assert kinds.unordered == (5, 7)  # the bit may stand beside others


class Lines:
    """Nodes of streams in order, each with the moment it was issued."""

    def __init__(self, nodes: list[tuple[int, int]]) -> None:
        """`nodes`: stream and moment of each node."""
        self.order = np.array(sorted(range(len(nodes)), key=lambda n: (nodes[n], n)), np.int64)
        self.issue = np.array([nodes[n][1] for n in self.order.tolist()])
        self._stream = [nodes[n][0] for n in self.order.tolist()]

    def places(self, stream: int) -> tuple[int, int]:
        first = sum(one < stream for one in self._stream)
        return first, first + self._stream.count(stream)

    def before(self, stream: int, moments: Any) -> Any:
        a, b = self.places(stream)
        place = np.searchsorted(self.issue[a:b], moments) - 1
        return (
            np.where(place >= 0, self.order[a + np.maximum(place, 0)], -1)
            if b > a
            else np.full(len(moments), -1)
        )


@pytest.mark.parametrize(
    ("device", "context", "related"), [(0, 1, True), (1, 1, False), (0, 2, False), (None, 1, False)]
)
def test_the_default_stream_and_blocking_ones_of_its_context_wait_for_each_other(
    device: int | None, context: int, related: bool
) -> None:
    nodes = [(0, 10), (0, 20), (1, 12), (1, 14), (1, 25), (0, 30)]
    kinds = SimpleNamespace(default=(0,), blocking=(0, 1), unordered=())
    every = queues((0, 0, 1, 7), (0, device, context, 8))
    made = Edges()
    path_edges.default_stream_edges(Lines(nodes), kinds, every, len(nodes), made, 3)  # type: ignore[arg-type]
    source, target, kind = (column.tolist() for column in made.joined())
    expected = (
        {(0, 2), (1, 4), (3, 1), (4, 5)} if related else set()
    )  # the second of two is behind the first anyway
    assert set(zip(source, target, strict=True)) == expected and set(kind) <= {3}


def test_a_wait_of_a_stream_is_no_target_of_the_default_stream() -> None:
    nodes = [(0, 10), (1, 12), (1, 14)]
    kinds = SimpleNamespace(default=(0,), blocking=(1,), unordered=())
    made = Edges()
    path_edges.default_stream_edges(Lines(nodes), kinds, queues((0, 0, 1, 7), (0, 0, 1, 8)), 2, made, 3)  # type: ignore[arg-type]
    source, target, _ = made.joined()
    assert list(zip(source.tolist(), target.tolist(), strict=True)) == [(0, 1)]

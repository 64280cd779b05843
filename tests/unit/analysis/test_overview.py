"""The picture that timelines are drawn from: lanes, the work of a window, and what fills each bin."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH, copy, device, kernel
from warpsight.analysis.stats import overview
from warpsight.analysis.stats.overview import Picture, dominant, edges_of
from warpsight.model.work import KINDS

WINDOWS = ((0, 5_000), (100, 101), (2_000, 2_300), (-50, 10), (4_990, 6_000))


@pytest.mark.parametrize(("begin", "end"), WINDOWS)
def test_a_window_has_the_work_of_a_lane_that_reaches_into_it(messy, begin, end):
    trace, _ = messy
    picture = Picture.of(trace)
    work = picture.work
    for lane, one in enumerate(picture.lanes):
        devices = [work.queues[q].device for q in work.queue.tolist()]
        mine = [
            i
            for i in range(len(work))
            if (devices[i] == one.device if one.queue is None else work.queue[i] == one.queue)
        ]
        expected = [i for i in mine if work.start[i] < EPOCH + end and work.end[i] > EPOCH + begin]
        assert picture.between(lane, EPOCH + begin, EPOCH + end).tolist() == expected
        assert one.rows == len(mine)


@pytest.mark.parametrize(("begin", "end"), WINDOWS)
def test_bins_say_how_much_of_them_is_covered(messy, begin, end):
    trace, _ = messy
    picture = Picture.of(trace)
    busy, which = picture.bins(EPOCH + begin, EPOCH + end, 7)
    edges = (EPOCH + begin + (np.arange(8) * (end - begin)) // 7).tolist()
    assert edges_of(EPOCH + begin, EPOCH + end, 7).tolist() == edges
    work = picture.work
    for lane in range(len(picture.lanes)):
        rows = picture.between(lane, EPOCH + begin, EPOCH + end).tolist()
        for place, (first, last) in enumerate(pairwise(edges)):
            moments = {
                t for i in rows for t in range(max(int(work.start[i]), first), min(int(work.end[i]), last))
            }
            assert busy[lane, place] == pytest.approx(len(moments) / max(last - first, 1))
            spent: Counter[int] = Counter()
            for i in rows:
                spent[int(picture.name[i])] += max(
                    min(int(work.end[i]), last) - max(int(work.start[i]), first), 0
                )
            most = max(spent.values(), default=0)
            assert spent[int(which[lane, place])] == most if most else which[lane, place] == 0


EVENTS = st.lists(st.tuples(st.integers(0, 59), st.integers(1, 40), st.integers(0, 3)), max_size=12)


@settings(max_examples=80)
@given(EVENTS, st.integers(1, 9), st.booleans())
def test_of_a_bin_the_name_with_most_time_counts(events, count, many):
    events = sorted(events)
    start, end = (
        np.array([pick(e) for e in events], np.int64)
        for pick in (lambda e: e[0], lambda e: min(e[0] + e[1], 60))
    )
    name = np.array(
        [n * (1 << 22 if many else 1) for _, _, n in events], np.int32
    )  # with many names only cells are summed
    edges = edges_of(0, 60, count)
    found = dominant(start, end, name, edges).tolist()
    for place, chosen in enumerate(found):
        spent: Counter[int] = Counter()
        for a, b, n in zip(start.tolist(), end.tolist(), name.tolist(), strict=True):
            spent[n] += max(min(b, int(edges[place + 1])) - max(a, int(edges[place])), 0)
        most = max(spent.values(), default=0)
        assert spent[chosen] == most if most else chosen == 0


def test_devices_come_with_their_streams_and_the_streams_that_did_least_have_none(build):
    trace = build(
        device=[device(0), device(1, name="H200", vendor="NVIDIA")],
        stream=[{"stream": 8, "context": 1, "device": 0, "process": 0, "name": "side"}],
        kernel=[kernel(0, 10), kernel(0, 30, stream=8), kernel(0, 20, stream=9), kernel(5, 1, device=1)],
        memcpy=[copy(50, 5, stream=9)],
    )
    picture = Picture.of(trace)
    labels = [(lane.label, lane.rows) for lane in picture.lanes]
    assert labels == [
        ("device 0 · H200", 4), ("stream 7", 1), ("stream 8 · side", 1), ("stream 9", 2), ("device 1 · H200", 1),
    ]  # fmt: skip
    assert picture.merged == 0
    few = Picture.of(trace, most_lanes=4)
    assert [lane.label for lane in few.lanes] == [
        "device 0 · H200",
        "stream 8 · side",
        "stream 9",
        "device 1 · H200",
    ]
    assert few.merged == 2  # stream 7, and the only one of device 1
    streams = [few.work.queues[q].stream for q in few.work.queue.tolist()]
    of = {
        (stream, few.work.queues[q].device): few.lane_of(i)
        for i, (q, stream) in enumerate(zip(few.work.queue.tolist(), streams, strict=True))
    }
    assert of == {(7, 0): 0, (8, 0): 1, (9, 0): 2, (7, 1): 3}


def test_names_with_most_time_have_a_place_and_the_others_share_the_first(build, monkeypatch):
    monkeypatch.setattr(overview, "NAMES", 2)
    picture = Picture.of(
        build(kernel=[kernel(0, 10, 1), kernel(20, 50, 4), kernel(100, 4, 1)], memcpy=[copy(200, 13)])
    )
    assert picture.names == ["other", "softmax", "gemm"]
    assert [KINDS[kind] for kind in picture.kinds] == ["kernel", "kernel", "kernel"]
    assert [picture.names[number] for number in picture.name.tolist()] == ["gemm", "softmax", "gemm", "other"]

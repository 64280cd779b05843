"""Waits and recorded events as they are read: which count, of which stream, by which call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.analysis.account.rows import call, sync
from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.path import dependencies
from warpsight.model import waits
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import Queue

HERE, THERE, ALONE = Queue(0, 0, 1, 7), Queue(1, 1, 1, 7), Queue(0, None, 2, 9)


@pytest.fixture
def trace(build):
    """Waits in no order, of two processes; those from 500 on are of a stream without device work."""
    return build(
        kernel=[kernel(0, 10, correlation=1), kernel(5, 10, correlation=1, process=1, device=1)],
        launch=[launch(-9, 3, 1), launch(-8, 3, 1, process=1)],
        api=[call(100, 20, "cudaStreamSynchronize", correlation=5), call(100, 20, "cudaFree", correlation=5, process=1)],
        sync=[
            sync(300, 7, "event", event=4, event_sync=44, correlation=5, process=1, device=1, result=0),
            sync(100, 20, "stream", correlation=5, device=0, result=0),
            sync(200, 20, "stream", correlation=6, device=0, result=0),
            sync(150, 20, "stream", correlation=5, device=0, result=700),
            sync(400, -5, "context", event=4, device=0, correlation=0, result=0),
            sync(500, 5, "stream wait event", stream=9, context=2, event=3, result=0),
        ],
        event=[
            {"time": 50, "event": 4, "event_sync": 44, "process": 1, "device": 1, "context": 1, "stream": 7, "correlation": 5},
            {"time": None, "event": 3, "process": 0, "device": 0, "context": 1, "stream": 7, "correlation": 1},
            {"time": 60, "event": 8, "process": 0, "context": 3, "stream": 5},
        ],
    )  # fmt: skip


def test_waits_that_succeeded_by_begin_with_stream_event_and_call(trace):
    found = waits.load(trace)
    assert found.start.tolist() == [100, 200, 300, 400, 500]
    assert found.end.tolist() == [120, 220, 307, 400, 505]
    assert found.event.tolist() == [0, 0, 44, 4, 3]
    assert [found.queues[number] for number in found.queue.tolist()] == [HERE, HERE, THERE, HERE, ALONE]
    # Call 0 and 1 are the launches; a correlation of 0 is none.
    assert found.call.tolist() == [2, -1, 3, -1, -1]
    assert [found.kinds[number] for number in found.kind.tolist()] == [
        "stream", "stream", "event", "context", "stream wait event",
    ]  # fmt: skip
    assert found.of_the_host.tolist() == [0, 1, 2, 3]
    assert found.of_streams.tolist() == [4]
    assert found.of("nothing").tolist() == []
    assert not found.start.flags.writeable


def test_events_with_their_moments_handles_and_streams(trace):
    found = waits.records(trace)
    order = np.argsort(found.handle)
    assert found.handle[order].tolist() == [3, 4, 8]
    assert found.event[order].tolist() == [3, 44, 8]
    assert found.time[order].tolist() == [-1, 50, 60]
    streams = waits.load(trace).queues
    assert [streams[number] for number in found.queue[order].tolist()] == [HERE, THERE, Queue(0, None, 3, 5)]
    assert found.call[order].tolist() == [0, 3, -1]


@pytest.mark.parametrize(
    ("rows", "begins", "events"),
    [
        (Rows(begin=200, end=400), [200, 300], 3),
        (Rows(begin=201), [300, 400, 500], 3),
        (Rows(end=401), [100, 200, 300, 400], 3),
        (Rows(processes=(1,)), [300], 1),
        (Rows(), [100, 200, 300, 400, 500], 3),
    ],
)
def test_of_a_part_only_its_waits_count_and_streams_keep_their_meaning(trace, rows, begins, events):
    whole = waits.load(trace)
    work = device_work.load(trace, Rows(processes=rows.processes))
    found, recorded = dependencies._waits(trace, rows, work)
    assert found.start.tolist() == begins
    assert len(recorded) == events
    assert found.queues[: len(work.queues)] == work.queues
    assert set(found.queues) == set(whole.queues)
    was = {int(start): whole.queues[number] for start, number in zip(whole.start, whole.queue, strict=True)}
    assert [found.queues[number] for number in found.queue.tolist()] == [was[start] for start in begins]
    streams = {
        int(event): whole.queues[n]
        for event, n in zip(waits.records(trace).event, waits.records(trace).queue, strict=True)
    }
    assert all(
        found.queues[n] == streams[int(event)]
        for event, n in zip(recorded.event, recorded.queue, strict=True)
    )

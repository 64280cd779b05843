"""Which streams waits are about."""

import numpy as np
import pytest

from tests.unit.analysis.conftest import build, copy  # noqa: F401 - a fixture
from warpsight.model import waits, work
from warpsight.model.waits import queue_numbers
from warpsight.model.work import Queue


def numbers(known, *rows):
    names = ("process", "device", "context", "stream")
    return queue_numbers(
        known, {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )


def test_a_context_and_stream_mean_one_stream_whatever_the_row_gives_as_device():
    """Nsight Systems gives waits of every context the device 1."""
    known = [Queue(0, 0, 2, 15), Queue(1, 1, 1, 7)]
    assert numbers(known, (0, 1, 2, 15), (1, 1, 1, 7), (0, 1, 2, 16)).tolist() == [0, 1, -1]


def test_where_contexts_have_no_ids_the_device_tells_streams_apart():
    known = [Queue(0, 0, 0, 7), Queue(0, 1, 0, 7)]
    assert numbers(known, (0, 1, 0, 7), (0, 0, 0, 7), (0, 2, 0, 7), (0, -1, 0, 7)).tolist() == [1, 0, -1, 0]


def test_a_device_tells_streams_without_a_context_apart_even_where_there_is_one():
    assert numbers([Queue(0, 0, 0, 7)], (0, 1, 0, 7), (0, 0, 0, 7), (0, -1, 0, 7)).tolist() == [-1, 0, 0]
    assert numbers([Queue(0, None, 3, 7)], (0, 1, 3, 7), (0, -1, 3, 7), (1, 1, 3, 7)).tolist() == [0, 0, -1]


@pytest.mark.parametrize(("correlation", "found"), [(5, 1), (0, -1), (None, -1), (6, -1)])
def test_a_wait_is_of_the_call_with_its_number_if_it_has_one(build, correlation, found):  # noqa: F811
    """0 means none, also where a call has it."""
    call = {"duration": 50, "function": "cudaStreamSynchronize", "thread": 1, "process": 0}
    trace = build(
        api=[{**call, "start": 10, "correlation": 0}, {**call, "start": 100, "correlation": 5}],
        sync=[{"start": 100, "duration": 50, "kind": "stream", "context": 1, "stream": 7, "process": 0, "result": 0,
               "correlation": correlation}],
    )  # fmt: skip
    assert waits.load(trace).call.tolist() == [found]


@pytest.mark.parametrize(("asynchronous", "held"), [(True, []), (False, [0])])
def test_a_copy_whose_call_was_to_return_at_once_held_nobody(build, asynchronous, held):  # noqa: F811
    trace = build(
        memcpy=[{**copy(100, 50), "asynchronous": asynchronous, "correlation": 5}],
        api=[
            {
                "start": 90,
                "duration": 80,
                "function": "cudaMemcpyAsync",
                "thread": 1,
                "process": 0,
                "correlation": 5,
            }
        ],
    )
    assert waits.held_copies(trace, work.load(trace)).tolist() == held

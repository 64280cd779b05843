"""Which streams waits are about."""

import numpy as np

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

"""Samples of host threads, as the timeline has them."""

from __future__ import annotations

from tests.unit.analysis.account.rows import sample
from tests.unit.analysis.conftest import build  # noqa: F401 - a fixture
from warpsight.analysis.timeline import host


def test_samples_are_those_of_their_own_thread_by_time(build):  # noqa: F811
    rows = [
        (30, 1, 5, 0),
        (10, 2, 5, 0),
        (20, 3, 6, 0),
        (15, 4, 5, 1),
        (40, 5, 6, 1),
        (12, 6, 4, 0),
        (11, 7, 1 << 30, 0),
    ]
    trace = build(
        sample=[sample(time, stack, thread, process=process) for time, stack, thread, process in rows]
    )
    found = {
        thread: (time.tolist(), stack.tolist()) for thread, (time, stack) in host._samples(trace).items()
    }
    assert found == {
        (0, 4): ([12], [6]), (0, 5): ([10, 30], [2, 1]), (0, 6): ([20], [3]), (0, 1 << 30): ([11], [7]), (1, 5): ([15], [4]),
        (1, 6): ([40], [5]),
    }  # fmt: skip
    assert host._samples(build()) == {}

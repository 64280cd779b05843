"""What has been launched and not completed, from rows that come late, out of order or never."""

from __future__ import annotations

import numpy as np

from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, Batch
from warpsight.recorder.ring.progress import Progress
from warpsight.recorder.ring.tail import News, TailedArena

LAUNCH = 307  # cuLaunchKernel


def rows(kind: str, count: int, **columns: object) -> Batch:
    data = np.zeros(count, DTYPES[layout.BY_NAME[kind].kind])
    for name, value in columns.items():
        data[name] = value
    return Batch(data, np.full(count, 11, np.int32), np.zeros(count, np.int64))


def launches(first: int, count: int, stream: int = 7, start: int = 1000, **more: object) -> Batch:
    ids = np.arange(first, first + count)
    columns = {
        "correlation": ids,
        "start": start + ids,
        "flags": 1,
        "domain": 2,
        "function": LAUNCH,
        "object": stream,
    }
    return rows("Api", count, **{**columns, **more})


def kernels(*ids: int, end: int = 5000) -> Batch:
    return rows("Kernel", len(ids), correlation=list(ids), start=end - 10 if end else 0, end=end)


def take(progress: Progress, at: float = 1.0, **batches: Batch) -> None:
    progress.take(News(TailedArena("a"), batches, at))


def test_what_has_no_completed_kernel_is_outstanding() -> None:
    progress = Progress()
    take(progress, Api=launches(1, 10))
    take(progress, Kernel=kernels(*range(1, 9)))
    found = progress.outstanding()
    assert found is not None
    assert (found.count, found.oldest) == (2, 1009)
    assert (progress.launches, progress.completions, progress.last_end) == (10, 8, 5000)
    take(progress, Kernel=kernels(9, 10))
    assert progress.outstanding() is None


def test_records_that_come_before_their_launch_are_remembered() -> None:
    progress = Progress()
    take(progress, Kernel=kernels(1, 2, 3))
    take(progress, Api=launches(1, 4))
    found = progress.outstanding()
    assert found is not None
    assert (found.count, found.oldest) == (1, 1004)


def test_a_record_without_times_is_no_completion() -> None:
    progress = Progress()
    take(progress, Api=launches(1, 1), Kernel=kernels(1, end=0))
    assert progress.outstanding() is not None
    assert progress.completions == 0


def test_a_completed_kernel_proves_those_before_it_on_its_stream_and_no_other() -> None:
    progress = Progress()
    take(progress, Api=launches(1, 5))
    take(progress, Api=launches(100, 5, stream=8))
    take(progress, Kernel=kernels(5))  # the records of 1 to 4 were lost
    found = progress.outstanding()
    assert found is not None
    assert (found.count, found.oldest) == (5, 1100)


def test_failed_captured_and_host_launches_are_not_waited_for() -> None:
    progress = Progress()
    take(progress, Api=launches(1, 3, result=700))
    take(progress, Api=launches(4, 3, flags=1 | 2))
    take(progress, Api=launches(7, 3, flags=1 | 8))
    assert progress.outstanding() is None


def test_a_running_kernel_began_when_the_one_before_it_ended() -> None:
    progress = Progress()
    take(progress, Api=launches(1, 2))
    take(progress, Kernel=kernels(1, end=90_000))
    found = progress.outstanding()
    assert found is not None
    assert (found.oldest, found.running_since) == (1002, 90_000)

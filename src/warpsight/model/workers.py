"""Threads for a while, and how many are worth starting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


def processors() -> int:
    """CPUs this process may run on, which `taskset`, containers and job schedulers make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def workers(count: int, name: str = "") -> Iterator[ThreadPoolExecutor]:
    """A pool that waits for its work, unless an error or an interrupt ends the block."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()

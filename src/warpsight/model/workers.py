"""Short-lived worker threads, and how many are worth starting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path


def processors() -> int:
    """CPUs this process may use, as limited by `taskset`, job schedulers and a container's quota."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # no version 2 of cgroups, or no quota ("max")
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split())
        allowed = min(allowed, -(-quota // period))
    return max(1, allowed)


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

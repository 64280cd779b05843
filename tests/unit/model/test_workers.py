"""A pool of threads ends with the block that asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from warpsight.model.workers import workers


def test_a_block_waits_for_its_work() -> None:
    with workers(2) as pool:
        found = [pool.submit(pow, 2, number) for number in range(20)]
    assert [one.result() for one in found] == [2**number for number in range(20)]


def test_after_an_error_what_runs_is_not_waited_for_and_what_waits_is_not_begun() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()

    waiting: list[Future[None]] = []

    def fail() -> None:
        with workers(1) as pool:
            pool.submit(work)
            waiting.append(pool.submit(print))
            begun.wait()
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert waiting[0].cancelled()
    go_on.set()


@pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="this system does not limit the CPUs of a process"
)
def test_as_many_threads_read_a_trace_as_there_are_cpus_for_it() -> None:
    program = """
import os, sys, warpsight
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with warpsight.open(sys.argv[1]) as trace:
    before = len(os.listdir("/proc/self/task"))
    print(trace.query("SELECT current_setting('threads') AS n").to_pydict()["n"][0])
    print(len(os.listdir("/proc/self/task")) - before < 3)
"""
    trace = Path(__file__).parents[2] / "golden" / "planted_leak.warp.zip"
    run = subprocess.run([sys.executable, "-c", program, trace], capture_output=True, text=True, check=True)
    assert run.stdout == "1\nTrue\n"

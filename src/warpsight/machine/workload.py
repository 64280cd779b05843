"""A program that only makes small launches, for `warpsight bench` and `doctor --selftest` to record.

`python -m warpsight.machine.workload PLATFORM LAUNCHES` prints one JSON object when it has finished. With `-` for LAUNCHES it
launches once and says so. Each line of its input is then a number of launches to issue, after which it prints the same object for
them. Launches come from a stack of three functions of this file, so that every recorded stack can be checked.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable

SOURCE = "__kernel void touch(__global int* out) { out[get_global_id(0)] = 1; }"
ITEMS, GROUP = 64, 64


def _launch_one(launch: Callable[[], None]) -> None:
    """The innermost frame."""
    launch()


def _launch_many(launch: Callable[[], None], count: int) -> None:
    """The frame above it, with the loop."""
    for _ in range(count):
        _launch_one(launch)


def run(platform: str, count: int) -> dict[str, float | int | str]:
    """Launch `count` kernels and wait for them; the first, which compiles, is not timed."""
    launch, finish, name = _opencl() if platform == "opencl" else _cuda()
    _launch_many(launch, 1)
    finish()
    return {"platform": platform, "device": name, **timed(launch, finish, count - 1), "launches": count}


def timed(launch: Callable[[], None], finish: Callable[[], None], count: int) -> dict[str, float | int | str]:
    """Launch `count` kernels, wait for them, and return the times."""
    begin = time.perf_counter()
    _launch_many(launch, count)
    issued = time.perf_counter()
    finish()
    return {"launches": count, "issue_s": issued - begin, "total_s": time.perf_counter() - begin}


def serve(platform: str) -> None:
    """Launch as many times as each input line says."""
    launch, finish, name = _opencl() if platform == "opencl" else _cuda()
    count = 1
    while count:
        print(json.dumps({"platform": platform, "device": name, **timed(launch, finish, count)}), flush=True)
        count = int(sys.stdin.readline() or 0)


def _opencl() -> tuple[Callable[[], None], Callable[[], None], str]:
    from warpsight.machine.opencl_session import OpenclSession

    session = OpenclSession()
    kernel = session.kernel(SOURCE, "touch")
    session.set_arguments(kernel, session.buffer(ITEMS * 4))
    return lambda: session.launch(kernel, (ITEMS,), (GROUP,)), session.finish, session.device.name


def _cuda() -> tuple[Callable[[], None], Callable[[], None], str]:
    from warpsight.machine.cuda import cuda_driver
    from warpsight.machine.cuda.cuda_session import CudaSession

    session = CudaSession()
    function, memory = session.kernel(), session.allocate(ITEMS * 4)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    name = cuda_driver.devices()[0].name
    # `memory` must live as long as the parameters point to it
    return lambda kept=memory: session.launch(function, 1, ITEMS, parameters), session.synchronize, name


if __name__ == "__main__":
    if sys.argv[2] == "-":
        serve(sys.argv[1])
    else:
        print(json.dumps(run(sys.argv[1], int(sys.argv[2]))))

"""What the examples run on: which kinds of device are usable here, and one small workload for each of them."""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

DEVICES = ("cuda", "rocm", "mps", "opencl", "cpu")
SOURCE = """
__kernel void scale(__global float *x, float by) { x[get_global_id(0)] *= by; }
__kernel void add(__global float *x, __global const float *y) { x[get_global_id(0)] += y[get_global_id(0)]; }
"""
COUNT_OPENCL = "import pyopencl as cl; print(sum(len(p.get_devices()) for p in cl.get_platforms()))"


def skip(reason: str) -> NoReturn:
    """End this example as skipped; the runner shows the reason."""
    print(reason)
    sys.exit(77)


def arguments(description: str | None, devices: tuple[str, ...]) -> argparse.Namespace:
    """`--device` (one of the example's) and `--output FOLDER`; the best device that is usable here by default."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", choices=devices, help="kind of device (default: the first usable one)")
    parser.add_argument("--output", type=Path, default=Path("."), metavar="FOLDER", help="where traces go")
    options = parser.parse_args()
    if options.device is None:
        options.device = next((d for d in devices if not why_not(d)), devices[-1])
    reason = why_not(options.device)
    if reason:
        skip(reason)
    return options


@lru_cache
def why_not(device: str) -> str | None:
    """Why this kind of device cannot be used here, or None when it can."""
    if device == "cuda":
        try:
            code = ctypes.CDLL("libcuda.so.1").cuInit(0)
        except OSError:
            return "no CUDA driver"
        if code:
            return f"no usable CUDA device (cuInit: {code})"
        return None if _torch_or_cupy() else "neither PyTorch nor CuPy is installed"
    if device == "opencl":
        if not importlib.util.find_spec("pyopencl"):
            return "pyopencl is not installed (pip install 'warpsight[opencl]')"
        # In a process of its own: the OpenCL loader reads its layers once, at the first call.
        found = subprocess.run(
            [sys.executable, "-c", COUNT_OPENCL], capture_output=True, text=True, check=False
        )
        return None if found.stdout.strip() not in ("", "0") else "no OpenCL device"
    return None if device == "cpu" else f"no example has work for {device}"


def _torch_or_cupy() -> str | None:
    return next((name for name in ("torch", "cupy") if importlib.util.find_spec(name)), None)


def workload(device: str, elements: int = 1 << 16) -> Callable[[], None]:
    """A function that launches two kernels on the device (on the CPU: two NumPy calls) and waits for them."""
    return {"cuda": _cuda, "opencl": _opencl, "cpu": _cpu}[device](elements)


def _opencl(elements: int) -> Callable[[], None]:
    import numpy as np
    import pyopencl as cl

    device = next(d for platform in cl.get_platforms() for d in platform.get_devices())
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    scale, add = cl.Kernel(program, "scale"), cl.Kernel(program, "add")
    data = np.ones(elements, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    x, y = (cl.Buffer(context, flags, hostbuf=data) for _ in range(2))

    def step() -> None:
        scale(queue, (elements,), None, x, np.float32(0.5))
        add(queue, (elements,), None, x, y)
        queue.finish()

    return step


def _cuda(elements: int) -> Callable[[], None]:
    if _torch_or_cupy() == "torch":
        import torch

        x, y = (torch.ones(elements, device="cuda") for _ in range(2))
        synchronize = torch.cuda.synchronize
    else:
        import cupy

        x, y = (cupy.ones(elements, cupy.float32) for _ in range(2))
        synchronize = cupy.cuda.Device().synchronize

    def step() -> None:
        nonlocal x
        x *= 0.5
        x += y
        synchronize()

    return step


def _cpu(elements: int) -> Callable[[], None]:
    import numpy as np

    x, y = np.ones(elements, np.float32), np.ones(elements, np.float32)

    def step() -> None:
        np.multiply(x, 0.5, out=x)
        np.add(x, y, out=x)

    return step

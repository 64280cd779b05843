"""`ws.time(fn)`: how long a function takes on whatever device it uses, with the right synchronization."""

from __future__ import annotations

import statistics
import sys
import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from warpsight.errors import UsageError


@dataclass(frozen=True)
class Timing:
    """Times of one call in ns.

    `memory` is what the framework held on the device afterwards in bytes, None unknown; `synchronized` names what
    was waited for after each call.
    """

    mean: float
    median: float
    minimum: float
    standard_deviation: float
    iterations: int
    memory: int | None
    synchronized: tuple[str, ...]
    times: tuple[int, ...]

    def __str__(self) -> str:
        scales = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
        scale, unit = next((one for one in scales if self.median >= one[0]), scales[-1])
        return (f"{self.median / scale:.3f} {unit} median, {self.minimum / scale:.3f} min, {self.mean / scale:.3f} ± "
                f"{self.standard_deviation / scale:.3f} mean of {self.iterations}")  # fmt: skip


@dataclass(frozen=True)
class _Device:
    name: str
    wait: Callable[[Any], None]
    memory: Callable[[], int | None] | None = None


def time(fn: Callable[[], Any], warmup: int = 3, iterations: int = 20, *, queue: object = None) -> Timing:
    """Call `fn` and measure each call until its device work is done.

    Waits for torch (CUDA, XPU or MPS), CuPy and JAX (what `fn` returns); for OpenCL give the `queue`. Without any of them, it
    measures the call on the CPU.

    Raises:
        UsageError: when there is nothing to measure.
    """
    if iterations < 1 or warmup < 0:
        raise UsageError("time needs at least one iteration, and a warmup of 0 or more")
    result = None
    for _ in range(warmup):
        result = fn()
    devices = tuple(_devices(queue, result))
    for device in devices:
        device.wait(result)
    times = []
    for _ in range(iterations):
        begin = clock.perf_counter_ns()
        result = fn()
        for device in devices or tuple(_devices(queue, result)):
            device.wait(result)
        times.append(clock.perf_counter_ns() - begin)
    devices = devices or tuple(_devices(queue, result))
    memory = next((device.memory() for device in devices if device.memory), None)
    return Timing(statistics.fmean(times), statistics.median(times), min(times),
                  statistics.stdev(times) if len(times) > 1 else 0.0, iterations, memory,
                  tuple(device.name for device in devices) or ("cpu",), tuple(times))  # fmt: skip


def _devices(queue: Any, result: object) -> Iterator[_Device]:
    """Frameworks that this process has loaded and that have a device in use."""
    if queue is not None:
        yield _Device("opencl", lambda _: queue.finish())
    torch = sys.modules.get("torch")
    if torch is not None:
        yield from _torch(torch)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        yield _Device(
            "cupy",
            lambda _: cupy.cuda.Device().synchronize(),
            lambda: int(cupy.get_default_memory_pool().used_bytes()),
        )
    jax = sys.modules.get("jax")
    if jax is not None:
        yield _Device("jax", jax.block_until_ready, lambda: _jax_memory(jax))


def _jax_memory(jax: ModuleType) -> int | None:
    """Bytes in use on this process's devices; None on the CPU, where JAX does not count them."""
    counts = [(device.memory_stats() or {}).get("bytes_in_use") for device in jax.local_devices()]
    known = [int(count) for count in counts if count is not None]
    return sum(known) if known else None


def _torch(torch: object) -> Iterator[_Device]:
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        # Initializing a device that the function does not use would cost memory and seconds.
        if module is not None and getattr(module, "is_initialized", lambda: False)():
            yield _torch_device(name, module)
    mps = getattr(torch, "mps", None)
    backend = getattr(getattr(torch, "backends", None), "mps", None)
    if mps is not None and backend is not None and backend.is_available():
        yield _Device("torch.mps", lambda _: mps.synchronize(), lambda: int(mps.current_allocated_memory()))


def _torch_device(name: str, module: ModuleType) -> _Device:
    return _Device(f"torch.{name}", lambda _: module.synchronize(), lambda: int(module.memory_allocated()))

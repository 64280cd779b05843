"""The programs of what_if.py: pairs of steps of which the second differs from the first in one thing.

Each case makes its own tensors on the GPU. Ranges `loader` and `optimizer` are announced as a program would announce them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import warpsight as ws

Step = Callable[[], None]
#: Bytes that a fused Adam reads and writes per parameter in fp32, and the share of the bandwidth that it gets.
ADAM_BYTES, ADAM_SHARE = 28, 0.8


@dataclass(frozen=True)
class Case:
    """Two steps and the what-ifs that lead from the first to the second."""

    base: Step
    changed: Step
    what: tuple[str, ...]
    steps: int = 20


def _layers(count: int, width: int, dtype: Any = torch.bfloat16) -> Any:
    layers = []
    for _ in range(count):
        layers += [torch.nn.Linear(width, width), torch.nn.GELU()]
    return torch.nn.Sequential(*layers).to("cuda", dtype)


def _training(model: Any, rows: int, width: int, optimizer: Any, dtype: Any = torch.bfloat16) -> Step:
    x = torch.randn(rows, width, device="cuda", dtype=dtype)

    def step() -> None:
        model(x).square().mean().backward()
        with ws.annotate("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return step


def unchanged() -> Case:
    """Nothing changes: what the recording itself does to the prediction."""
    model = _layers(12, 2048)
    step = _training(model, 4096, 2048, torch.optim.SGD(model.parameters(), lr=1e-6, fused=True))
    return Case(step, step, ())


def kernel_slowed() -> Case:
    """A kernel of known length takes twice as long, among products and host code."""
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step(cycles: int) -> Step:
        def one() -> None:
            b = a
            for _ in range(6):
                b = torch.nn.functional.gelu(b @ a)
                torch.cuda._sleep(cycles)

        return one

    return Case(step(400_000), step(800_000), ("kernel:spin*2",))


def into_graph() -> Case:
    """A forward pass bound by launches, replayed from a CUDA graph."""
    model = _layers(48, 1024).eval()
    x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)

    @torch.no_grad()
    def step() -> None:
        y = x
        for _ in range(4):
            y = torch.nn.functional.layer_norm(model(y) + y, (1024,))

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()
    return Case(step, captured.replay, ("graphs",))


def sync_removed() -> Case:
    """A synchronization after each part of a step, so that host code and device take turns."""
    model = _layers(16, 4096).eval()
    x = torch.randn(1024, 4096, device="cuda", dtype=torch.bfloat16)

    def step(waits: bool) -> Step:
        @torch.no_grad()
        def one() -> None:
            for _ in range(4):
                model(x)
                if waits:
                    torch.cuda.synchronize()
                _compute(300e-6)

        return one

    return Case(step(True), step(False), ("sync:DeviceSynchronize",))


def _compute(seconds: float) -> None:
    """Host code that takes a known time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def second_stream() -> Case:
    """Sums along long rows, which use few multiprocessors, beside products that take as long in another stream."""
    long = torch.randn(8, 1 << 20, device="cuda")
    a = torch.randn(2048, 2048, device="cuda")
    side = torch.cuda.Stream()

    def sums() -> None:
        for _ in range(3):
            long.cumsum(1)

    def products(count: int) -> None:
        b = a
        for _ in range(count):
            b = (b @ a).mul_(1e-2)

    count = max(1, round(_device_time(sums) / _device_time(lambda: products(1))))

    def one_stream() -> None:
        sums()
        products(count)

    def two_streams() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            sums()
        products(count)
        torch.cuda.current_stream().wait_stream(side)

    return Case(one_stream, two_streams, ("streams:scan",))


def _device_time(step: Step) -> float:
    """Milliseconds that the device takes for a step, of ten in a row."""
    for _ in range(3):
        step()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(10):
        step()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 10


def copy_asynchronous() -> Case:
    """A copy of the result to pinned memory, which the host no longer waits for."""
    model = _layers(12, 2048).eval()
    x = torch.randn(8192, 2048, device="cuda", dtype=torch.bfloat16)
    target = torch.empty(8192, 2048, dtype=torch.bfloat16, pin_memory=True)

    def step(asynchronous: bool) -> Step:
        @torch.no_grad()
        def one() -> None:
            target.copy_(model(x), non_blocking=asynchronous)
            _compute(1500e-6)

        return one

    return Case(step(False), step(True), ("sync:StreamSynchronize|Memcpy",))


def loader_prefetched() -> Case:
    """A loader that waits for its files, read ahead by a thread; the loss is read in each step."""
    model = _layers(12, 2048)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, fused=True)
    ready: queue.Queue[Any] = queue.Queue(8)

    def load() -> Any:
        time.sleep(3e-3)
        return host_batch

    host_batch = torch.randn(2048, 2048, dtype=torch.bfloat16).pin_memory()

    def ahead() -> None:
        while True:
            ready.put(load())

    for _ in range(4):  # so many that the step never waits
        threading.Thread(target=ahead, daemon=True).start()

    def step(batch: Callable[[], Any]) -> Step:
        def one() -> None:
            with ws.annotate("loader"):
                x = batch()
            loss = model(x.to("cuda", non_blocking=True)).square().mean()
            loss.backward()
            with ws.annotate("optimizer"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            loss.item()

        return one

    return Case(step(load), step(ready.get), ("host:loader=none",))


def smaller_batch() -> Case:
    """Half the rows in a training step that the device bounds."""
    model = _layers(12, 4096)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, fused=True)
    return Case(
        _training(model, 16384, 4096, optimizer), _training(model, 8192, 4096, optimizer), ("batch/2",), 10
    )


def fused_optimizer() -> Case:
    """Adam in one kernel instead of some for each parameter."""
    width, count = 1024, 40
    models = [_layers(count, width, torch.float32) for _ in range(2)]
    parameters = sum(p.numel() for p in models[0].parameters())
    bandwidth = _bandwidth()
    fused_ns = round(1e9 * ADAM_BYTES * parameters / (ADAM_SHARE * bandwidth))
    loop = torch.optim.Adam(models[0].parameters(), lr=1e-6, foreach=False)
    fused = torch.optim.Adam(models[1].parameters(), lr=1e-6, fused=True)
    base, changed = (_training(model, 256, width, optimizer, torch.float32)
                     for model, optimizer in zip(models, (loop, fused), strict=True))  # fmt: skip
    return Case(base, changed, (f"fuse:optimizer={fused_ns}ns",), 10)


def _bandwidth() -> float:
    """Of the device's memory by its data sheet, B/s; 4.8 TB/s where it is not in the table."""
    from warpsight.analysis.ops import peaks

    found = peaks.of_device(torch.cuda.get_device_name())
    return float(found.bandwidth) if found is not None and found.bandwidth else 4.8e12


CASES: dict[str, Callable[[], Case]] = {
    "no change": unchanged, "kernel slowed": kernel_slowed, "into a graph": into_graph, "sync removed": sync_removed,
    "second stream": second_stream, "copy asynchronous": copy_asynchronous, "loader prefetched": loader_prefetched,
    "smaller batch": smaller_batch, "fused optimizer": fused_optimizer,
}  # fmt: skip

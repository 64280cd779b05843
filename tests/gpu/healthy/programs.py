"""Twelve healthy programs that a watch must leave alone: `python programs.py NAME SECONDS`. Each ends by itself with 0."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import torch

#: Cycles of one second on an H200 at its usual clock; a device that clocks lower only makes kernels longer.
SECOND = 1_830_000_000


def step(size: int = 1024) -> float:
    x = torch.randn(size, size, device="cuda")
    return float((x @ x).sum())


def long_kernels(until: float) -> None:
    """Kernels of 15 seconds, one after another."""
    while time.monotonic() < until - 16:
        torch.cuda._sleep(15 * SECOND)
        torch.cuda.synchronize()


def cpu_phase(until: float) -> None:
    """Minutes of work on the CPU between a little on the GPU."""
    while time.monotonic() < until:
        step()
        end = min(time.monotonic() + 150, until)
        while time.monotonic() < end:
            sum(i * i for i in range(20_000))


def many_short(until: float) -> None:
    """Short kernels without a pause."""
    x = torch.ones(1 << 10, device="cuda")
    while time.monotonic() < until:
        for _ in range(2_000):
            x.add_(1)
        torch.cuda.synchronize()


def graphs(until: float) -> None:
    """One CUDA graph replayed."""
    x = torch.ones(1 << 14, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        x.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            x.mul_(1.0001)
    while time.monotonic() < until:
        for _ in range(200):
            graph.replay()
        torch.cuda.synchronize()
        time.sleep(0.2)


def debugger_pause(until: float) -> None:
    """Stopped for 45 seconds at a time while work is outstanding, as a debugger would."""
    while time.monotonic() < until - 60:
        torch.cuda._sleep(2 * SECOND)
        me = os.getpid()
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -STOP {me}; sleep 45; kill -CONT {me}"])
        torch.cuda.synchronize()
        end = time.monotonic() + 55
        while time.monotonic() < end:
            step()
            time.sleep(0.5)


def work_in_child(seconds: float) -> float:
    end = time.monotonic() + seconds
    total = 0.0
    while time.monotonic() < end:
        total += sum(i for i in range(1000))
    return total


def fork(until: float) -> None:
    """Forked workers on the CPU while the parent uses the GPU."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        while time.monotonic() < until:
            results = pool.map_async(work_in_child, [5.0, 5.0])
            while not results.ready():
                step()
                time.sleep(0.05)


def sleep(until: float) -> None:
    """Sleeps for half a minute between steps."""
    while time.monotonic() < until:
        step()
        time.sleep(min(35, max(0.0, until - time.monotonic())))


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.4)
        return torch.full((256,), float(index))


def data_loader(until: float) -> None:
    """A slow loader with workers: the GPU waits for data most of the time."""
    while time.monotonic() < until:
        for batch in torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=2):
            batch.cuda().sum().item()
            if time.monotonic() > until:
                return


def threads(until: float) -> None:
    """Host threads with a stream each; one of them waits for work most of the time."""
    tasks: queue.Queue[int | None] = queue.Queue()

    def busy() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            while time.monotonic() < until:
                step(512)
                time.sleep(0.01)

    def waiting() -> None:
        while tasks.get() is not None:
            step(256)

    running = [threading.Thread(target=target) for target in (busy, busy, waiting)]
    for thread in running:
        thread.start()
    while time.monotonic() < until:
        tasks.put(1)
        time.sleep(40)
    tasks.put(None)
    for thread in running:
        thread.join()


def event_poll(until: float) -> None:
    """Polls an event over a kernel of ten seconds instead of waiting for it."""
    while time.monotonic() < until - 12:
        event = torch.cuda.Event()
        torch.cuda._sleep(10 * SECOND)
        event.record()
        while not event.query():
            time.sleep(0.01)


def in_process(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step(512)


def spawn(until: float) -> None:
    """Child processes that use the GPU for a while and end; the parent only waits."""
    context = multiprocessing.get_context("spawn")
    while time.monotonic() < until - 30:
        children = [context.Process(target=in_process, args=(20.0,)) for _ in range(2)]
        for child in children:
            child.start()
        for child in children:
            child.join()


def copies(until: float) -> None:
    """Large copies both ways."""
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    device = host.cuda()
    while time.monotonic() < until:
        for _ in range(20):
            device.copy_(host, non_blocking=True)
            host.copy_(device, non_blocking=True)
        torch.cuda.synchronize()


PROGRAMS = {
    one.__name__: one
    for one in (long_kernels, cpu_phase, many_short, graphs, debugger_pause, fork, sleep, data_loader, threads, event_poll,
                spawn, copies)
}  # fmt: skip

if __name__ == "__main__":
    signal.alarm(int(float(sys.argv[2])) + 120)
    PROGRAMS[sys.argv[1]](time.monotonic() + float(sys.argv[2]))

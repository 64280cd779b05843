"""`ws.time`: what it waits for after each call, and what it says. The frameworks are scripted stand-ins."""

from __future__ import annotations

import statistics
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

import warpsight as ws
from warpsight.inside import timing


class Framework:
    """Counts launches that nobody waited for, and remembers the most there were after a call was timed."""

    def __init__(self) -> None:
        self.pending, self.waits = 0, 0

    def launch(self) -> str:
        self.pending += 1
        return "result"

    def synchronize(self, *_: Any) -> None:
        assert self.pending <= 1, "the call before was not waited for"
        self.pending, self.waits = 0, self.waits + 1


@pytest.fixture(autouse=True)
def no_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "cupy", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def torch(framework: Framework, module: str) -> Any:
    device = SimpleNamespace(
        is_initialized=lambda: True, synchronize=framework.synchronize, memory_allocated=lambda: 4096
    )
    return SimpleNamespace(**{module: device})


def cupy(framework: Framework) -> Any:
    pool = SimpleNamespace(used_bytes=lambda: 4096)
    cuda = SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=framework.synchronize))
    return SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)


def jax(framework: Framework) -> Any:
    def ready(value: Any) -> None:
        assert value == "result"
        framework.synchronize()

    device = SimpleNamespace(memory_stats=lambda: {"bytes_in_use": 4096})
    return SimpleNamespace(block_until_ready=ready, local_devices=lambda: [device])


@pytest.mark.parametrize(
    ("module", "made", "name"),
    [
        ("torch", lambda f: torch(f, "cuda"), "torch.cuda"),
        ("torch", lambda f: torch(f, "xpu"), "torch.xpu"),
        ("cupy", cupy, "cupy"),
        ("jax", jax, "jax"),
    ],
)
@pytest.mark.parametrize("warmup", [0, 3])
def test_every_call_is_waited_for_where_its_work_is(
    module: str, made: Any, name: str, warmup: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = Framework()
    first = True

    def call() -> str:
        nonlocal first
        if first:  # a program that loads its framework when it is needed
            monkeypatch.setitem(sys.modules, module, made(framework))
            first = False
        framework.pending = framework.pending if framework.waits else 0  # the warm-up is waited for once
        return framework.launch()

    timing = ws.time(call, warmup=warmup, iterations=5)
    assert framework.pending == 0
    assert framework.waits == 5 + (1 if warmup else 0)
    assert timing.synchronized == (name,)
    assert timing.memory == 4096


def test_a_queue_of_opencl_is_waited_for() -> None:
    framework = Framework()
    timing = ws.time(
        framework.launch, warmup=1, iterations=4, queue=SimpleNamespace(finish=framework.synchronize)
    )
    assert (framework.waits, framework.pending, timing.synchronized) == (5, 0, ("opencl",))


def test_a_device_that_nobody_uses_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    framework = Framework()
    idle = torch(framework, "cuda")
    idle.cuda.is_initialized = lambda: False
    monkeypatch.setitem(sys.modules, "torch", idle)
    timing = ws.time(lambda: None, iterations=2)
    assert (framework.waits, timing.synchronized, timing.memory) == (0, ("cpu",), None)


def test_the_figures_are_those_of_the_calls() -> None:
    calls = []

    def call() -> None:
        calls.append(1)
        time.sleep(0.001)

    timing = ws.time(call, warmup=2, iterations=6)
    assert len(calls) == 8
    assert (timing.iterations, len(timing.times)) == (6, 6)
    assert timing.minimum == min(timing.times) >= 1_000_000
    assert timing.mean == pytest.approx(statistics.fmean(timing.times))
    assert timing.median == statistics.median(timing.times)
    assert timing.standard_deviation == pytest.approx(statistics.stdev(timing.times))
    assert ws.time(call, warmup=0, iterations=1).standard_deviation == 0


@pytest.mark.parametrize(("warmup", "iterations"), [(-1, 5), (0, 0)])
def test_nothing_to_measure_is_refused(warmup: int, iterations: int) -> None:
    with pytest.raises(ws.UsageError, match="at least one iteration"):
        ws.time(lambda: None, warmup=warmup, iterations=iterations)


@pytest.mark.parametrize(
    ("median", "text"),
    [(548_837_483.0, "548.837 ms median"), (12.0, "12.000 ns median"), (2.5e9, "2.500 s median")],
)
def test_times_print_in_a_unit_that_suits_them(median: float, text: str) -> None:
    assert str(timing.Timing(median, median, median, 0.0, 3, None, (), ())).startswith(text)

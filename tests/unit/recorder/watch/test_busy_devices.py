"""A device that spins: busy in every sample, moving no memory, unchanged."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warpsight.recorder.watch import counters


@pytest.mark.parametrize(
    ("compute", "memory", "spins"),
    [
        ([100] * 6, [0] * 6, True),
        ([90, 91, 90, 90, 91, 90], [1] * 6, True),
        ([89, 90, 90, 90, 90, 90], [0] * 6, False),  # below 90% once
        ([100] * 6, [2] * 6, False),  # it moves memory
        ([92, 94, 92, 92, 92, 92], [0] * 6, False),  # it changes
    ],
)
def test_a_device_spins_where_every_sample_is_busy_and_none_changes(
    monkeypatch: pytest.MonkeyPatch, compute: list[int], memory: list[int], spins: bool
) -> None:
    samples = iter(zip(compute, memory, strict=True))

    def rates(_: int) -> SimpleNamespace:
        gpu, moved = next(samples)
        return SimpleNamespace(gpu=gpu, memory=moved)

    nvml = SimpleNamespace(
        nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetUtilizationRates=rates,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr("warpsight.recorder.watch.counters.time.sleep", lambda _: None)
    assert counters.unchanged_and_busy().startswith("GPU 0 was busy") == spins

"""Units of what the system and NVML report: microseconds and the best of several times."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpsight.machine import links, topology, wall_clock


@pytest.mark.parametrize(("status", "kept"), [(0, True), (wall_clock._NOT_SYNCHRONIZED, False)])
def test_errors_of_the_wall_clock_are_microseconds_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, status: int, kept: bool
) -> None:
    def adjtimex(buffer: Any) -> int:
        wall_clock._TIMEX.pack_into(buffer, 0, 0, 0, 0, 1_500, 20, status)
        return 0

    monkeypatch.setattr(
        "warpsight.machine.wall_clock.ctypes.CDLL", lambda *_, **__: SimpleNamespace(adjtimex=adjtimex)
    )
    monkeypatch.setattr("warpsight.machine.wall_clock.sys.platform", "linux")
    found = wall_clock.state(time.time_ns() - time.monotonic_ns())["wall"]
    assert found["synchronized"] is kept
    assert (found.get("max_error"), found.get("estimated_error")) == (
        (1_500_000, 20_000) if kept else (None, None)
    )


def test_a_rate_is_that_of_the_fastest_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of 4, 2, 1, 8, 8, 8, 8 and 8 s after one that warms up."""
    times = iter([0, 4, 10, 12, 20, 21, 30, 38, 40, 48, 50, 58, 60, 68, 70, 78])
    monkeypatch.setattr("warpsight.machine.links.time.perf_counter", lambda: float(next(times)))
    copies: list[int] = []
    assert links._rate(lambda: copies.append(1), lambda: None, 100) == 100.0
    assert len(copies) == 1 + links._REPEATS


@pytest.mark.parametrize(
    ("one", "other", "speed"), [(32e9, 16e9, 16e9), (16e9, 32e9, 16e9), (None, 32e9, None)]
)
def test_the_slower_slot_limits_two_gpus(one: float | None, other: float | None, speed: float | None) -> None:
    gpus = [cast(Any, SimpleNamespace(index=n, pcie_speed=value)) for n, value in enumerate((one, other))]
    found = topology._pair(gpus[0], gpus[1], 0, "PHB")
    assert (found.kind, found.bytes_per_second) == ("PHB", speed)

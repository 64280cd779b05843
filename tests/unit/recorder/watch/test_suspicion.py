"""When a process is suspected of a hang, by its rows alone: each limit at its second."""

from __future__ import annotations

from typing import Any

import pytest

from warpsight.recorder.ring.progress import Outstanding
from warpsight.recorder.watch import counters, suspicion
from warpsight.recorder.watch.suspicion import StallLimits, Watched

NS = 1_000_000_000


class Progress:
    """What the rows of a process say."""

    def __init__(self, last_end: float = 0, started: float | None = 100, running: float = 100) -> None:
        self.last_end, self.completions, self.launches, self.heard_at = int(last_end * NS), 3, 4, 0.0
        self._open = None if started is None else Outstanding(2, int(started * NS), 0, 1, int(running * NS))

    def outstanding(self) -> Outstanding | None:
        return self._open


def judged(now: float, progress: Any, *, watched: dict[str, Any] | None = None, **limits: float) -> Any:
    one = Watched(7, "a", **{"since": 0.0, "heard": 0.0, **(watched or {})})
    found = suspicion.judge(one, progress, StallLimits(**{"hang_after": 0.0, **limits}), now)
    return found and (found.kind, found.quiet_since, found.limit)


@pytest.mark.parametrize(
    ("progress", "watched", "since"),
    [
        (Progress(), {}, 100),  # since the launch
        (Progress(last_end=130), {}, 130),
        (Progress(last_end=90), {}, 100),
        (Progress(), {"since": 120.0}, 120),
        (Progress(), {"paused": 125.0}, 125),
    ],
)
def test_a_hang_is_a_time_without_completion_since_a_launch(
    progress: Progress, watched: dict[str, Any], since: float
) -> None:
    assert judged(since + 59.9, progress, watched=watched, hang_after=60.0) is None
    assert judged(since + 60.0, progress, watched=watched, hang_after=60.0) == ("hang", since, 60.0)
    assert judged(since + 60.0, progress, watched={**watched, "told_at": 3}, hang_after=60.0) is None  # once
    assert judged(since + 9e9, progress, watched=watched) is None  # off


def test_without_outstanding_launches_nothing_is_suspected() -> None:
    limits = {"hang_after": 1.0, "kernel_timeout": 1.0, "no_data_timeout": 1.0}
    assert judged(1e6, Progress(started=None), **limits) is None
    assert judged(1e6, None, **limits) is None


def test_a_kernel_has_its_time_from_when_it_may_have_begun() -> None:
    progress = Progress(last_end=140, running=130)
    assert judged(149.9, progress, kernel_timeout=20.0) is None
    assert judged(150.0, progress, kernel_timeout=20.0) == ("kernel-timeout", 130, 20.0)
    assert judged(150.0, progress, watched={"paused": 131.0}, kernel_timeout=20.0) is None
    assert judged(151.0, progress, watched={"paused": 131.0}, kernel_timeout=20.0) == (
        "kernel-timeout",
        131,
        20.0,
    )


def test_data_must_come_while_a_kernel_runs() -> None:
    progress = Progress()
    heard = {"heard": 110.0}
    assert judged(119.9, progress, watched=heard, no_data_timeout=10.0) is None
    assert judged(120.0, progress, watched=heard, no_data_timeout=10.0) == ("no-data-timeout", 110, 10.0)
    assert judged(120.0, progress, watched={**heard, "paused": 111.0}, no_data_timeout=10.0) is None
    assert judged(109.9, progress, watched={"heard": 50.0}, no_data_timeout=10.0) is None  # launched at 100


@pytest.mark.parametrize(
    ("state", "stopped"),
    [("T (stopped)", True), ("t (tracing stop)", True), ("S (sleeping)", False), ("R (running)", False)],
)
def test_a_stopped_process_cannot_report(monkeypatch: pytest.MonkeyPatch, state: str, stopped: bool) -> None:
    monkeypatch.setattr(suspicion.Path, "read_text", lambda self: f"Name:\tTest\nState:\t{state}\nPid:\t7\n")
    assert suspicion.stopped(7) == stopped


def test_a_process_that_is_gone_is_not_stopped() -> None:
    assert not suspicion.stopped(-1)


@pytest.mark.parametrize(
    ("rates", "busy"),
    [
        ([(100, 0)] * 6, True),
        ([(90, 1)] * 6, True),
        ([(89, 0)] * 6, False),
        ([(100, 2)] * 6, False),
        ([(100, 0), (98, 0), *[(99, 0)] * 4], False),  # it changes
        ([(100, 0), (99, 1), *[(99, 0)] * 4], True),
        ([(100, 0)] * 5 + [(3, 0)], False),
    ],
)
def test_a_device_is_stuck_when_it_is_busy_without_change(
    monkeypatch: pytest.MonkeyPatch, rates: list[tuple[int, int]], busy: bool
) -> None:
    """The second of two devices; the first has nothing to do."""
    left = {0: [(0, 0)] * 6, 1: list(rates)}

    class Nvml:
        nvmlInit = nvmlShutdown = staticmethod(lambda: None)
        nvmlDeviceGetCount = staticmethod(lambda: 2)
        nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)

        @staticmethod
        def nvmlDeviceGetUtilizationRates(handle: int) -> Any:
            compute, memory = left[handle].pop(0)
            return type("Rates", (), {"gpu": compute, "memory": memory})

    monkeypatch.setitem(__import__("sys").modules, "pynvml", Nvml)
    monkeypatch.setattr(counters.time, "sleep", lambda seconds: None)
    said = counters.unchanged_and_busy()
    assert said.startswith("GPU 1 was busy (") == busy and (busy or not said)


def test_without_nvml_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert counters.unchanged_and_busy() == ""

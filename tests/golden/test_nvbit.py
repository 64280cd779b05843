"""A trace with NVBit of `tests/gpu/event_truth.cu`, recorded on an H100: accesses and registers are those that the program has.

`truth.json` is what the program printed of its buffers in the recorded run.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.golden import event_truth, nvbit_truth
from warpsight.sass.events.trace import EventTrace

HERE = Path(__file__).parent / "nvbit"


@pytest.fixture(scope="module")
def trace() -> EventTrace:
    return EventTrace(HERE / "truth.events.zst")


@pytest.fixture(scope="module")
def base() -> dict[str, int]:
    found: dict[str, int] = json.loads((HERE / "truth.json").read_text())
    return found


@pytest.mark.parametrize("kernel", event_truth.EXPECTED)
def test_every_access_of_every_lane_is_told(trace: EventTrace, base: dict[str, int], kernel: str) -> None:
    assert event_truth.recorded(trace, kernel) == event_truth.without_values(
        event_truth.EXPECTED[kernel](base)
    )


def test_registers_hold_what_is_stored(trace: EventTrace, base: dict[str, int]) -> None:
    sums = {i: {int(np.float32(0.5 * i).view(np.uint32))} for i in range(500)}
    assert nvbit_truth.stored(trace, base["c"], "add") == sums


def test_every_warp_executes_what_it_must(trace: EventTrace) -> None:
    launch = nvbit_truth.launch_of(trace, "transpose")
    events = trace.of_launch(launch.number)
    events = events.take(nvbit_truth.executed(events))
    found = Counter(zip(nvbit_truth.texts(trace, launch, events.pc), events.warp.tolist(), strict=True))
    barriers = {key: count for key, count in found.items() if key[0].startswith("BAR")}
    assert sorted(warp for _, warp in barriers) == list(range(32))
    assert set(barriers.values()) == {1}
    tail = trace.of_launch(
        nvbit_truth.launch_of(trace, "add").number
    )  # 500 elements: the last warp has 12 lanes over
    assert Counter(tail.guard[nvbit_truth.executed(tail) & (tail.lanes != tail.guard)].tolist()).keys() == {
        0,
        0xFFF00000,
    }

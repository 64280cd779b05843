"""Processes and devices that several recorders name in their own ways are one each in the trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.capture.columns import spread
from warpsight.capture.identities import DeviceIndex, Processes, TraceDevices, driver_index


def test_an_arena_is_a_process_and_a_pid_means_the_last_process_that_had_it() -> None:
    processes = Processes({"old": 0})
    assert [processes.of_arena(arena, pid) for arena, pid in (("a", 10), ("b", 10), ("a", None))] == [1, 2, 1]
    assert processes.of_pid(10) == 2
    assert processes.of_pid(11) == processes.of_pid(11) == 3  # never recorded: a process of its own
    assert processes.by_arena == {"old": 0, "a": 1, "b": 2, "pid-11": 3}


@pytest.mark.parametrize(("number", "driver"), [(0, 0), (255, 255), (256, 0), (258, 2)])
def test_opencl_counts_its_devices_from_256(number: int, driver: int) -> None:
    assert driver_index(number) == driver


def device(uuid: str, index: int, **more: object) -> dict[str, object]:
    return {"uuid": uuid, "index": index, "name": "H100", **more}


def test_a_device_is_known_by_its_uuid_whatever_number_a_process_gives_it() -> None:
    devices = TraceDevices()
    first = devices.intern(device("a", 0, memory=None))
    other = devices.intern(device("b", 0))  # another process sees another device first
    assert (first, other) == (0, 1)
    assert devices.intern(device("a", 3, memory=80, name="ignored")) == 0
    assert devices.rows[0] == {"device": 0, "uuid": "a", "index": 0, "name": "H100", "memory": 80}
    assert devices.unknown(257) == 2
    assert devices.rows[2] == {
        "device": 2, "uuid": "unknown-257", "index": 1, "name": "unknown", "vendor": "unknown", "platform": "cuda",
    }  # fmt: skip
    again = TraceDevices(devices.rows)  # a conversion that goes on
    assert [again.intern(device(uuid, 0)) for uuid in ("b", "c", "unknown-257")] == [1, 3, 2]


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.sampled_from((0, 1, 2, 9, 255, 70_000)), max_size=8), st.booleans(), st.booleans())
def test_a_column_of_device_numbers_is_translated_one_by_one(
    numbers: list[int], same: bool, none: bool
) -> None:
    """9 stands for no device where that is said; numbers that nobody defined become unknown devices."""
    index = DeviceIndex(TraceDevices())
    index.set(0, 5)
    index.set(2, 6)
    index.set(1 << 16, 7)  # damage
    missing = 9 if none else None
    if same and numbers:
        numbers = numbers[:1] * 3
    column = spread(numbers[0], 3, np.uint32) if same and numbers else np.array(numbers, np.uint32)
    if max(numbers, default=0) > 0xFFFF and same:
        return
    found = index.translate(column, missing)
    expected = [
        None
        if number == missing
        else index.get(min(number, 0xFFFF))
        if number not in (0, 2)
        else number // 2 + 5
        for number in numbers
    ]
    null = np.zeros(len(numbers), bool) if found.null is None else np.broadcast_to(found.null, len(numbers))
    values = np.broadcast_to(found.values, len(numbers))
    assert [
        None if gone else value for value, gone in zip(values.tolist(), null.tolist(), strict=True)
    ] == expected

"""What the members around the events say: devices, the process, the clock, and what must not be kept."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from warpsight.formats.kineto import header


class Target:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.source: dict[str, Any] = {}
        self.scope = "file"
        self.processes: list[dict[str, Any]] = []
        self.devices: dict[Any, dict[str, Any]] = {}
        self.rows: list[Any] = []
        self.attributes: dict[str, Any] = {}
        self.notes: list[str] = []

    def process(self, key: str, **columns: Any) -> None:
        assert key == "the process"
        self.processes.append(columns)

    def device(self, key: tuple[str, int], **columns: Any) -> None:
        self.devices[key[1]] = columns

    def add(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.rows.append((table, rows))

    def attribute(self, table: str, row: int, key: str, text: str, process: int) -> None:
        assert (table, row, process) == ("trace", 0, 4)
        self.attributes[key] = json.loads(text)

    def note(self, text: str) -> None:
        self.notes.append(text)


def applied(used: tuple[Any, ...] = (), working: tuple[int, ...] = (), **members: Any) -> Target:
    """The members of a file whose rows name some devices, some of them with work."""
    target = Target()
    placing = SimpleNamespace(
        target=target, main=4, devices=dict.fromkeys(used, 0), working=set(working), device=lambda _: 0
    )
    header.apply(members, cast(Any, placing))
    return target


@pytest.mark.parametrize(
    ("base", "clock", "rows"),
    [
        (None, "wall clock", []),
        ("soon", "wall clock", []),
        (0, "wall clock minus base_ns", [("clock", [{"monotonic": 0, "realtime": 0, "process": 4}])]),
        ((1 << 62) - 1, "wall clock minus base_ns",
         [("clock", [{"monotonic": 0, "realtime": (1 << 62) - 1, "process": 4}])]),
        (1 << 62, "wall clock minus base_ns", []),
        (-1, "wall clock minus base_ns", []),
    ],
)  # fmt: skip
def test_the_clock_is_the_wall_clock_or_what_is_left_of_it(base: Any, clock: str, rows: list[Any]) -> None:
    target = applied(baseTimeNanoseconds=base, schemaVersion=1, trace_id="t")
    assert target.rows == rows
    assert target.source == {
        "tool": "Kineto (torch.profiler)", "version": 1, "trace_id": "t", "clock": clock,
        "base_ns": base if isinstance(base, int) else None, "versions": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "columns"),
    [
        (None, {}),
        ("a job", {}),
        ({}, {"rank": None, "world_size": None}),
        ({"rank": 3, "world_size": 8}, {"rank": 3, "world_size": 8}),
        ({"rank": -1, "world_size": (1 << 31) - 1}, {"rank": -1, "world_size": (1 << 31) - 1}),
        ({"rank": -2, "world_size": 1 << 31}, {"rank": None, "world_size": None}),
        ({"rank": "3", "world_size": 2.0}, {"rank": None, "world_size": None}),
    ],
)
def test_the_process_has_its_rank(job: Any, columns: dict[str, Any]) -> None:
    (process,) = applied(distributedInfo=job).processes
    assert process == {"settings": None, **columns}


H100 = {
    "id": 0,
    "name": "NVIDIA H100",
    "totalGlobalMem": 80 << 30,
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}


def test_a_device_has_its_properties() -> None:
    (columns,) = applied(deviceProperties=[H100 | {"driverVersion": "550"}]).devices.values()
    assert (
        columns["name"] == "NVIDIA H100"
        and columns["memory_bytes"] == 80 << 30
        and columns["multiprocessors"] == 132
    )
    assert (columns["vendor"], columns["platform"]) == ("NVIDIA", "cuda")
    assert (columns["compute_capability"], columns["driver"]) == ("9.0", "550")


@pytest.mark.parametrize(
    ("memory", "units", "kept"),
    [((1 << 62) - 1, (1 << 31) - 1, {"memory_bytes", "multiprocessors"}), (1 << 62, 1 << 31, set()), (-1, -1, set()),
     ("80", 1.5, set()), (0, 0, {"memory_bytes", "multiprocessors"})],
)  # fmt: skip
def test_numbers_that_no_column_holds_are_left_out(memory: Any, units: Any, kept: set[str]) -> None:
    (columns,) = applied(
        deviceProperties=[H100 | {"totalGlobalMem": memory, "numSms": units}]
    ).devices.values()
    assert {"memory_bytes", "multiprocessors"} & columns.keys() == kept
    assert {name: columns[name] for name in kept} == dict(zip(sorted(kept), (memory, units), strict=False))


@pytest.mark.parametrize(
    ("properties", "vendor", "platform"),
    [({"name": "Tesla V100"}, "NVIDIA", "cuda"), ({"name": "AMD Instinct MI300X"}, "AMD", "rocm"),
     ({"name": "Radeon"}, "AMD", "rocm"), ({"name": "Max 1550", "vendor": "Intel Corp."}, "Intel", "xpu"),
     ({"name": "MTIA v2"}, "Meta", "mtia"), ({"name": "TPU", "vendor": "G"}, "G", ""), ({}, "", "")],
)  # fmt: skip
def test_vendors_are_known_by_names(properties: dict[str, Any], vendor: str, platform: str) -> None:
    known = {"id": 1, "computeMajor": 9, "computeMinor": 4, **properties}
    (columns,) = applied(deviceProperties=[known]).devices.values()
    assert (columns["vendor"], columns["platform"]) == (vendor, platform)
    assert ("compute_capability" in columns) == (vendor == "NVIDIA")


@pytest.mark.parametrize(
    ("listed", "used", "working", "devices"),
    [
        ((0, 1), (), (), {0, 1}),  # no rows: all of them
        ((0, 1), (1,), (1,), {1}),
        ((0, 1), ("CPU",), (), {0, 1}),
        ((0,), (4,), (4,), {4}),  # one visible device that the records number otherwise
        ((0,), (0, 4), (4,), {0, 4}),
        ((0,), (0, 4), (0, 4), {0}),
        ((0, 1), (4,), (4,), set()),
    ],
)
def test_devices_that_have_rows_are_described(
    listed: tuple[int, ...], used: tuple[Any, ...], working: tuple[int, ...], devices: set[int]
) -> None:
    properties = [H100 | {"id": number} for number in listed]
    target = applied(used, working, deviceProperties=[*properties, "x", {"id": "0"}])
    assert target.devices.keys() == devices
    assert bool(target.notes) == (4 in devices)
    assert not applied(used, working, deviceProperties="none").devices


def test_environments_are_left_out_at_any_depth_and_the_rest_is_kept() -> None:
    secret = {"a": [{"ENV": {"TOKEN": "x"}, "b": 1}], "environ": {}, "c": "env"}
    target = applied(job=secret, env_vars="PASSWORD=1", schemaVersion=1, note=[1, 2])
    assert target.attributes == {"job": {"a": [{"b": 1}], "c": "env"}, "note": [1, 2]}
    assert "(ENV, env_vars, environ) were not taken over" in target.notes[0]
    assert applied(note=1).notes == []

"""The speed of the paths between host and devices: measured for these devices, else what the memory allows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.unit.analysis.conftest import Build, device
from warpsight.analysis.stats.links import path, speeds


def link(source: object, destination: object, rate: object, memory: str = "pinned") -> dict[str, object]:
    return {"platform": "cuda", "source": source, "destination": destination, "memory": memory, "bytes": 64,
            "bytes_per_second": rate}  # fmt: skip


DEVICES = [
    device(0, memory_bandwidth=4e12),
    device(1, name="Other", memory_bandwidth=None),
    device(2, name="Third", memory_bandwidth=0.0),
]


def test_measured_paths_of_these_devices_count_by_uuid_or_name(build: Build) -> None:
    links = [
        link("host", "GPU-0", 5e10), link("GPU-0", "host", 4e10), link("GPU-0", "GPU-1", 3e10), link("Other", "GPU-0", 2e10),
        link("Third", "Third", 1e10, "device"), link("host", "host", 9e9), link("host", "GPU-1", 8e9, "pageable"),
        link("host", "GPU-7", 7e9), link("GPU-7", "host", 7e9), link("GPU-1", "host", 0), link("GPU-1", "GPU-1", None),
    ]  # fmt: skip
    found = speeds(build(device=DEVICES, manifest={"links": links}))
    assert found == {
        (None, 0): (5e10, "measured"), (0, None): (4e10, "measured"), (0, 1): (3e10, "measured"), (1, 0): (2e10, "measured"),
        (2, 2): (1e10, "measured"), (0, 0): (2e12, "half of the memory's peak"),
    }  # fmt: skip


def test_a_measurement_within_a_device_counts_instead_of_half_the_peak(build: Build) -> None:
    found = speeds(build(device=DEVICES, manifest={"links": [link("GPU-0", "GPU-0", 1.5, "device")]}))
    assert found == {(0, 0): (1.5, "measured")}


@pytest.mark.parametrize(
    "bad", [7, None, {}, link(["host"], "GPU-0", 1.0), link("host", {}, 1.0), link("host", "GPU-0", "fast"),
            link("host", "GPU-0", [1]), link(0, 1, 1.0), link(None, "GPU-0", 1.0)],
)  # fmt: skip
def test_what_is_no_measurement_is_passed_over(build: Build, bad: object) -> None:
    found = speeds(build(device=DEVICES, manifest={"links": [bad, link("GPU-1", "host", 1e9)]}))
    assert found == {(0, 0): (2e12, "half of the memory's peak"), (1, None): (1e9, "measured")}


@pytest.mark.parametrize(
    ("document", "there"),
    [
        ({"links": [link("host", "GPU-0", 5e10)]}, True),
        ({"links": [{"source": "host"}]}, False),
        ({"links": 3}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
)
def test_without_measurements_in_the_trace_those_of_this_machine_count(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: object, there: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "warpsight").mkdir()
    (tmp_path / "warpsight" / "links.json").write_text(json.dumps(document) if document is not None else "{")
    kept = {(None, 0): (5e10, "measured")} if there else {}
    assert speeds(build(device=DEVICES[:1])) == {(0, 0): (2e12, "half of the memory's peak"), **kept}
    assert speeds(build(device=DEVICES[1:], manifest={"links": []})) == {}


def test_the_ends_of_a_copy_are_those_of_its_kind() -> None:
    ends = {"H": None, "D": 3, "A": 3}
    for source, destination in itertools.product("HDA", repeat=2):
        wanted = None if source == destination == "H" else (ends[source], ends[destination])
        assert path(f"{source}to{destination}", 3, 8, 9) == wanted
    assert path("PtoP", 3, 0, 1) == (0, 1) and path("PtoP", 3, 8, 9) == (8, 9)
    assert path("PtoP", 3, None, 9) is path("PtoP", 3, 8, None) is path("unknown", 3, 8, 9) is None

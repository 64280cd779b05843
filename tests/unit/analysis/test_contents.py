"""What `info` tells beyond counting rows."""

import pytest

from warpsight.analysis.stats.contents import contents
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

DEVICE = {"device": 0, "index": 0, "uuid": "u", "name": "GPU", "vendor": "NVIDIA", "platform": "cuda"}


def told(path, runtime="CUPTI 130001", clocks=(), **manifest):
    with TraceWriter(path) as writer:
        writer.describe(**manifest)
        writer.add("device", [{**DEVICE, "runtime": runtime, "driver": "CUDA 13.0"}])
        writer.add("clock", [{"realtime": 10**18 + m, "monotonic": m, "device": 0, "device_time": d, "uncertainty": u}
                             for m, d, u in clocks])  # fmt: skip
    with open_trace(path) as trace:
        return contents(trace)


def test_settings_and_overhead_are_those_of_the_manifest(tmp_path):
    given = {"settings": {"trace": ["kernel"]}, "overhead": {"own_cuda_calls": 3}}
    found = told(tmp_path / "t.warp", **given)
    assert {name: found[name] for name in given} == given
    without = told(tmp_path / "u.warp")
    assert (without["settings"], without["overhead"]) == ({}, {})


def test_sizes_and_times_are_those_of_the_rows(tmp_path):
    both = {"context": 1, "stream": 7, "process": 0, "device": 0}
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add(
            "kernel",
            [{**both, "start": 5_000 + 100 * i, "duration": 40, "graph_level": False} for i in range(4)],
        )
        writer.add("memset", [{**both, "start": 4_000, "duration": 2_500, "bytes": 8, "value": 0,
                               "memory_kind": "device", "asynchronous": True}])  # fmt: skip
        writer.add(
            "clock",
            [{"realtime": 10**18 + m + ahead, "monotonic": m} for m, ahead in ((4_100, 7), (9_000, 90))],
        )
    with open_trace(tmp_path / "t.warp") as trace:
        found = contents(trace)
    rows = {one["table"]: one["rows"] for one in found["tables"]}
    assert rows == {"kernel": 4, "memset": 1, "clock": 2}
    assert found["bytes"] == sum(one["bytes"] for one in found["tables"]) > 0
    assert found["bytes_per_kernel"] == found["bytes"] / 4
    assert (found["begin"], found["duration"]) == (4_000, 2_500)
    assert found["realtime"] == 10**18 + 4_007  # by the reading next to it


def test_faults_of_the_recorders_cupti_are_told(tmp_path):
    assert any("graph ids" in text for text in told(tmp_path / "t.warp")["known_faults"])


@pytest.mark.parametrize("runtime", ["OpenCL 3.0", "CUPTI 990000", None])
def test_no_faults_without_a_cupti_that_has_some(tmp_path, runtime):
    assert told(tmp_path / "t.warp", runtime)["known_faults"] == []


def test_a_drift_that_the_uncertainty_can_explain_is_not_told(tmp_path):
    short = told(tmp_path / "a.warp", clocks=[(0, 500, 10_000), (46_000_000, 46_016_500, 10_000)])
    assert short["clocks"][0]["drift_ppm"] is None
    long = told(tmp_path / "b.warp", clocks=[(0, 500, 10_000), (60_000_000_000, 60_003_000_500, 10_000)])
    assert long["clocks"][0]["drift_ppm"] == pytest.approx(50, rel=0.01)

"""What `info` tells beyond counting rows."""

import pytest

from warpsight.analysis.stats.contents import contents
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

DEVICE = {"device": 0, "index": 0, "uuid": "u", "name": "GPU", "vendor": "NVIDIA", "platform": "cuda"}


def told(path, runtime="CUPTI 130001", clocks=()):
    with TraceWriter(path) as writer:
        writer.add("device", [{**DEVICE, "runtime": runtime, "driver": "CUDA 13.0"}])
        writer.add("clock", [{"realtime": 10**18 + m, "monotonic": m, "device": 0, "device_time": d, "uncertainty": u}
                             for m, d, u in clocks])  # fmt: skip
    with open_trace(path) as trace:
        return contents(trace)


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

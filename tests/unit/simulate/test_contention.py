"""Compute beside communication: what a recording shows of it, and what becomes of it when either moves."""

import pytest

from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.simulate.simulation import simulate

US = 1_000
ALONE, BESIDE, COLLECTIVE = 100 * US, 150 * US, 400 * US
STEPS = 8


@pytest.fixture
def trace(tmp_path):
    """Steps of four GEMMs: two beside an all-reduce, which makes them half as long again, then two alone."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        gemm, reduce = (
            writer.name("gemm"),
            writer.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"),
        )
        rows = {"launch": [], "kernel": [], "user_event": []}
        correlation, host, device = 0, 0, 50 * US

        def work(name, stream, start, duration):
            nonlocal correlation, host
            correlation += 1
            rows["launch"].append({"start": host, "duration": 2 * US, "function": "cudaLaunchKernel", "thread": 1, "process": 0,
                                   "correlation": correlation, "captured": False})  # fmt: skip
            host += 3 * US
            rows["kernel"].append({"start": start, "duration": duration, "name_id": name, "device": 0, "context": 1,
                                   "stream": stream, "process": 0, "correlation": correlation, "graph_level": False})  # fmt: skip

        for step in range(STEPS):
            begin = device
            rows["user_event"].append({"start": host, "duration": 12 * US, "name": f"step {step}", "kind": "range", "thread": 1,
                                       "process": 0})  # fmt: skip
            work(reduce, 9, begin, COLLECTIVE)
            for _ in range(2):
                work(gemm, 7, device, BESIDE)
                device += BESIDE
            device = begin + COLLECTIVE
            for _ in range(2):
                work(gemm, 7, device, ALONE)
                device += ALONE
            device += 5 * US
        for table, listed in rows.items():
            writer.add(table, listed)
    with open_trace(tmp_path / "t.warp") as opened:
        yield opened


def gemms(trace, *what):
    """Predicted time of all GEMMs, ns; as recorded where nothing changed."""
    found = simulate(trace, what).result.tables["kernels"].to_pylist()
    return next((row["predicted"] for row in found if row["kernel"] == "gemm"), STEPS * 2 * (ALONE + BESIDE))


def test_without_a_change_of_what_overlaps_kernels_stay_as_long_as_they_were(trace):
    assert gemms(trace) == STEPS * 2 * (ALONE + BESIDE)
    assert gemms(trace, "launch*1.0") == STEPS * 2 * (ALONE + BESIDE)


def test_without_the_collective_the_kernels_beside_it_are_as_quick_as_those_that_ran_alone(trace):
    assert gemms(trace, "kernel:AllReduce=none") == pytest.approx(STEPS * 4 * ALONE, rel=0.01)


def test_a_collective_half_as_long_slows_half_as_much(trace):
    predicted = gemms(trace, "kernel:AllReduce/2")
    # 200 µs of collective: the first GEMM (150) is beside it whole, the second for 50 of what was 150.
    assert STEPS * (150 + 100 + 100 + 100) * US < predicted < STEPS * (150 + 130 + 100 + 100) * US


def test_the_answer_says_how_much_longer_kernels_take_beside_collectives(trace):
    notes = [note.text for note in simulate(trace, ["kernel:AllReduce/2"]).result.findings]
    assert any("50% longer beside collectives" in note for note in notes)

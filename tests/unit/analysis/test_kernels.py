"""Kernel times and their distribution."""

import numpy as np

from tests.unit.analysis.conftest import kernel
from warpsight.analysis.stats.kernels import kernel_durations, kernel_times
from warpsight.model.selection import Rows


def test_the_timing_table_has_the_columns_readers_expect(messy):
    trace, rows = messy
    table = kernel_times(trace).tables["kernel-times"]
    assert table.column_names == ["name", "count", "total", "avg", "min", "max", "p50", "p95", "p99", "std"]
    durations = np.array([k["duration"] for k in rows["kernel"] if k["name_id"] == 1 and k["start"]])
    (gemm,) = [r for r in table.to_pylist() if r["name"] == "gemm"]
    assert (gemm["count"], gemm["total"], gemm["max"]) == (len(durations), durations.sum(), durations.max())
    assert gemm["p99"] == np.percentile(durations, 99)
    assert abs(gemm["std"] - durations.std()) < 1e-9


def test_every_kernel_is_in_one_row_of_the_distribution(messy):
    trace, rows = messy
    table = kernel_durations(trace).tables["durations"].to_pylist()
    for number in (0, 1):
        durations = [k["duration"] for k in rows["kernel"] if k["start"] and k["device"] == number]
        own = [r for r in table if r["device"] == number]
        for row in own:
            inside = [d for d in durations if row["from"] <= d < row["below"]]
            assert (row["kernels"], row["total"]) == (len(inside), sum(inside))
        assert (sum(r["kernels"] for r in own), own[-1]["time_up_to"]) == (len(durations), 1.0)


def test_a_kernel_at_the_edge_of_the_time_asked_for_has_its_whole_duration(build):
    trace = build(kernel=[kernel(100, 64), kernel(200, 1_000)])
    (row,) = kernel_durations(trace, Rows(150, 300)).tables["durations"].to_pylist()
    assert (row["from"], row["kernels"], row["total"]) == (512, 1, 1_000)

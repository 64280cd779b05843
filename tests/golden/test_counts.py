"""Recordings on an H100, most of `known` (tests/gpu/counts): counts and metrics are those that its source says.

Paths in them were replaced and environments emptied; nothing else was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.counts.known import KNOWN, LANES, added_by_cupti, counted_as_known, launches
from warpsight.device_code.disassembly import find_tool
from warpsight.model import StoredTrace
from warpsight.model import open as open_trace
from warpsight.sass.counts.kernels import CountedKernel, counted_kernels

RECORDED = Path(__file__).parent / "counters"
REPETITIONS = 3
needs_text = pytest.mark.skipif(find_tool("nvdisasm") is None, reason="nvdisasm is not here")


@pytest.fixture(scope="module")
def kernels() -> Iterator[list[CountedKernel]]:
    with open_trace(str(RECORDED / "h100_known.warp.zip")) as trace:
        yield counted_kernels(trace)[0]


@pytest.fixture(scope="module")
def plain(kernels: list[CountedKernel]) -> list[dict[str, Any]]:
    return [kernel.to_json() for kernel in kernels]


@needs_text
@pytest.mark.parametrize(("name", "text"), KNOWN)
def test_counts_are_those_of_the_source(plain: list[dict[str, Any]], name: str, text: str) -> None:
    counted_as_known(plain, name, text, REPETITIONS)


def test_each_warp_executes_code_without_branches_once_with_all_lanes(plain: list[dict[str, Any]]) -> None:
    for launch in launches():
        if launch.kernel in ("trips", "diverge"):
            continue
        [kernel] = [kernel for kernel in plain if f"{launch.name}(" in kernel["name"]]
        warps = launch.warps * REPETITIONS
        of_each = {(one["executions"], one["threads"]) for one in kernel["instructions"]}
        assert of_each == {(warps, warps * len(LANES))}


@needs_text
def test_a_loop_runs_its_branch_once_more_than_it_jumps_back(plain: list[dict[str, Any]]) -> None:
    [launch] = [launch for launch in launches() if launch.kernel == "trips"]
    [kernel] = [kernel for kernel in plain if kernel["name"].startswith("trips(")]
    warps, count = launch.warps * REPETITIONS, launch.numbers[0]
    [branch] = [one for one in kernel["instructions"] if " BRA " in one["sass"] and one["executions"] > warps]
    body = [
        one
        for one in kernel["instructions"]
        if int(branch["sass"].split()[-1], 16) <= one["pc"] <= branch["pc"]
    ]
    assert {one["executions"] for one in body} == {warps * count}
    assert branch["predicated_off"] == warps * len(LANES)
    assert kernel["executions"] == warps * (len(kernel["instructions"]) + len(body) * (count - 1))


@needs_text
def test_arithmetic_and_bytes_are_those_of_the_source(kernels: list[CountedKernel]) -> None:
    by_name = {kernel.demangled.removeprefix("void ").partition("(")[0]: kernel for kernel in kernels}
    for launch in launches():
        kernel = by_name[launch.name]
        threads = launch.warps * len(LANES) * REPETITIONS
        fused = 2 * threads * launch.numbers[0] if launch.kernel == "trips" else 0
        assert kernel.arithmetic == ({("fp32", False): fused} if fused else {})
        words = {"predicated": 1.5, "strided": 2}.get(launch.kernel, 1)  # of each thread, in global memory
        assert kernel.requested["global"] == 4 * words * threads
        if (
            launch.kernel == "trips"
        ):  # each thread: the stack's place, count, out; each warp: 64 bits, the block's size
            assert (
                kernel.requested["constant"] == (4 + 4 + 8) * threads + (8 + 4) * launch.warps * REPETITIONS
            )
        if launch.kernel == "banks":
            assert kernel.requested["shared"] == 4 * 2 * threads


@contextmanager
def recorded(name: str) -> Iterator[StoredTrace]:
    with open_trace(str(RECORDED / f"{name}.warp.zip")) as trace:
        yield trace


@pytest.mark.parametrize(("name", "repetitions"), [("h100_metrics", 3), ("h100_metrics_of_8_passes", 1)])
def test_metrics_of_launches_are_the_counts_and_what_cupti_adds(
    kernels: list[CountedKernel], name: str, repetitions: int
) -> None:
    by_name = {kernel.demangled.removeprefix("void ").partition("(")[0]: kernel for kernel in kernels}
    counted = {
        by_name[launch.name].name: by_name[launch.name].executions // REPETITIONS + added_by_cupti(launch)
        for launch in launches()
    }
    with recorded(name) as trace:
        measured = trace.sql(
            """SELECT name, value FROM range_metric WHERE metric = 'smsp__inst_executed.sum' AND kind = 'kernel' ORDER BY range"""
        ).fetchall()
    order = [by_name[launch.name].name for launch in launches()] * repetitions
    assert measured == [(kernel, counted[kernel]) for kernel in order]


def test_measured_launches_have_kernels_with_times_and_nothing_of_cupti_s_own() -> None:
    with recorded("h100_metrics") as trace:
        joined = """SELECT count(*), min(k.duration) > 0, bool_and(k.duration < r.duration) FROM kernel k
            JOIN range_metric r USING (process, correlation, name) WHERE metric = 'smsp__inst_executed.sum'"""
        assert trace.sql(joined).fetchall() == [(len(launches()) * REPETITIONS, True, True)]
        assert trace.count("kernel") == len(launches()) * REPETITIONS
        assert trace.sql("SELECT count(*) FROM loss WHERE severity <> 'note'").fetchall() == [(0,)]


def test_metrics_of_8_passes_are_of_all_launches() -> None:
    with recorded("h100_metrics_of_8_passes") as trace:
        rows = trace.sql(
            """SELECT passes, value FROM range_metric WHERE metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed'"""
        ).fetchall()
    assert len(rows) == len(launches())
    assert all(passes == 8 and 0 < value < 100 for passes, value in rows)


def test_samples_stand_where_the_kernel_ran() -> None:
    """A kernel of 10 ms kept every multiprocessor busy: samples of 100 µs that it begins or ends in have its share of cycles."""
    with recorded("h100_samples") as trace:
        [(start, end)] = trace.sql(
            "SELECT start, start + duration FROM kernel WHERE name LIKE '%spin%'"
        ).fetchall()
        samples = np.array(trace.sql(
            "SELECT time, value FROM counter WHERE name = 'sm__cycles_active.avg' AND source = 'pm sampling' ORDER BY time"
        ).fetchall())  # fmt: skip
    interval = 100_000
    times, cycles = samples.T
    assert np.all(np.abs(np.diff(times) - interval) <= 2)
    ran = np.clip(np.minimum(times, end) - np.maximum(times - interval, start), 0, interval)
    busy = cycles / np.median(cycles[ran == interval]) * interval
    around = (times > start - interval) & (times < end + 2 * interval)
    assert around.sum() > (end - start) / interval
    assert np.abs(busy - ran)[around].max() < 1000

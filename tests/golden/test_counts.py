"""Recordings of `known 3` (tests/gpu/counts) on an H100: counts are those that its source says.

Paths in them were replaced and environments emptied; nothing else was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.counts.known import KNOWN, LANES, counted_as_known, launches
from warpsight.device_code.disassembly import find_tool
from warpsight.model import open as open_trace
from warpsight.sass.counts.kernels import Kernel, counted_kernels

RECORDED = Path(__file__).parent / "counters"
REPETITIONS = 3
needs_text = pytest.mark.skipif(find_tool("nvdisasm") is None, reason="nvdisasm is not here")


@pytest.fixture(scope="module")
def kernels() -> Iterator[list[Kernel]]:
    with open_trace(str(RECORDED / "h100_known.warp.zip")) as trace:
        yield counted_kernels(trace)[0]


@pytest.fixture(scope="module")
def plain(kernels: list[Kernel]) -> list[dict[str, Any]]:
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
def test_arithmetic_and_bytes_are_those_of_the_source(kernels: list[Kernel]) -> None:
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

"""A recording of `known 3` (tests/gpu/counts) made on an H100 with --sass-counts on: counts are those known by hand.

Paths in it were replaced; nothing else was.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsight.device_code.disassembly import find_tool
from warpsight.model import Trace
from warpsight.model import open as open_trace
from warpsight.sass import recorded
from warpsight.sass.counts.kernels import counted_kernels
from warpsight.sass.listing import listing
from warpsight.ui.render import counts as shown

RECORDING = Path(__file__).with_name("h100_counts.warp.zip")
REPETITIONS = 3
#: (part of the kernel's name, begin of an instruction) → in one launch: executions by warps, threads of each that no predicate
#: switched off, all threads of each, and more metrics of each execution.
KNOWN: dict[tuple[str, str], tuple[int, int, int, dict[str, int]]] = {
    ("trips", "FFMA"): (4 * 4 * 100, 32, 32, {}),
    ("diverge", "POPC"): (2 * 2 * 10, 8, 8, {}),
    ("diverge", "BREV"): (2 * 2 * 5, 24, 24, {}),
    ("predicated", "@!P0 STG"): (2 * 2, 16, 32, {}),
    ("predicated", "STG"): (2 * 2, 32, 32, {"sectors_mem_global": 4}),
    ("strided<1>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 4, "sectors_mem_global_ideal": 4}),
    ("strided<8>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 32, "sectors_mem_global_ideal": 4}),
    ("strided<32>", "LDG"): (2 * 2, 32, 32, {"sectors_mem_global": 32, "sectors_mem_global_ideal": 4}),
    ("banks<1>", "LDS"): (1, 32, 32, {"l1tex_pipe_lsu_wavefronts_mem_shared": 1}),
    ("banks<32>", "LDS"): (1, 32, 32, {"l1tex_pipe_lsu_wavefronts_mem_shared": 32}),
}


def counted_as_known(kernels: list[dict[str, Any]], name: str, text: str, repetitions: int) -> None:
    """Compare one instruction of `sass counts --json` with what is known of it."""
    executions, on, threads, more = KNOWN[name, text]
    [kernel] = [kernel for kernel in kernels if name in kernel["name"]]
    [found] = [one for one in kernel["instructions"] if one["sass"].startswith(text)]
    expected = {"inst_executed": executions, "thread_inst_executed": executions * threads,
                "thread_inst_executed_pred_on": executions * on,
                **{metric: value * executions for metric, value in more.items()}}  # fmt: skip
    assert {metric: found["metrics"][metric] for metric in expected} == {
        metric: value * repetitions for metric, value in expected.items()
    }
    assert kernel["launches"] == repetitions


@pytest.fixture(scope="module")
def trace() -> Iterator[Trace]:
    with open_trace(RECORDING) as opened:
        yield opened


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="needs nvdisasm")
@pytest.mark.parametrize(("name", "text"), KNOWN)
def test_counts_equal_what_is_known(trace: Trace, name: str, text: str) -> None:
    kernels, _ = counted_kernels(trace)
    counted_as_known([kernel.to_json() for kernel in kernels], name, text, REPETITIONS)


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="needs nvdisasm")
def test_work_of_a_kernel_follows_from_its_counts(trace: Trace) -> None:
    kernels = {kernel.demangled: kernel for kernel in counted_kernels(trace)[0]}
    trips = kernels["trips(float*, int)"]
    assert trips.arithmetic == {("fp32", False): 2 * 32 * 1600 * REPETITIONS}
    assert trips.requested["global"] == 4 * 128 * 4 * REPETITIONS
    assert trips.operations["FFMA"].executions == 1600 * REPETITIONS


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="needs nvdisasm")
def test_lines_add_up_their_instructions(trace: Trace) -> None:
    for kernel in counted_kernels(trace)[0]:
        lines = sum(place.executions for place in kernel.levels["line"])
        assert lines == sum(place.executions for place in kernel.levels["instruction"]) == kernel.executions


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="needs nvdisasm")
def test_counts_stand_in_the_margin_of_a_listing(trace: Trace) -> None:
    chosen = recorded.choose(recorded.listed_kernels(trace), "predicated", "here")
    assert chosen.code is not None
    rows = listing(chosen.code, chosen.samples, chosen.counts).rows
    assert [row.figures for row in rows if "STG" in row.text] == [("12", "16", "4"), ("12", "32", "4")]


def test_kernels_are_shown_with_their_places(trace: Trace) -> None:
    stream = io.StringIO()
    shown.show(counted_kernels(trace, levels=("line",))[0], [], stream, 0, 3)
    text = stream.getvalue()
    assert "trips(float*, int)" in text
    assert "known.cu:10" in text
    assert "FFMA" in text or find_tool("nvdisasm") is None

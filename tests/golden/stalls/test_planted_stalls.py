"""Ten kernels, each with one slow line, sampled on an H100 (`planted` of tests/gpu/hot_lines): line and cause come first.

`planted.samples.json.xz` has each kernel's launch and its samples as (offset, reason, samples, samples in cycles without an
issue).
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.disassembly import find_tool
from warpsight.sass.code import KernelCode, kernels
from warpsight.sass.why.advice.finding import LaunchConfiguration
from warpsight.sass.why.answer import Answer, why
from warpsight.sass.why.samples import add_up

HERE = Path(__file__).resolve().parent


@cache
def recorded() -> dict[str, tuple[KernelCode, dict[str, Any]]]:
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    samples = json.loads(lzma.decompress((HERE / "planted.samples.json.xz").read_bytes()))
    cubin = Cubin(lzma.decompress((HERE / "planted.sm_90.cubin.xz").read_bytes()), "planted")
    return {
        one.short_name.split("::")[-1]: (one, samples[one.name])
        for one in kernels(cubin)
        if one.name in samples
    }


@cache
def answer(name: str) -> Answer:
    code, known = recorded()[name]
    return why(code, add_up(known["samples"]), LaunchConfiguration(**known["launch"]))


@pytest.mark.parametrize(
    ("name", "line", "detail", "advised"),
    [
        ("uncoalesced", 24, "global memory", {"coalesce"}),
        ("bank_conflict", 36, "full queue: shared memory", {"bank-conflicts"}),
        ("long_scoreboard", 44, "global memory", {"chase", "occupancy"}),
        ("barrier_imbalance", 56, "barrier", {"balance"}),
        ("spill", 68, "local memory", {"registers"}),
        ("low_occupancy", 102, "global memory", {"occupancy"}),
        ("divergent_branch", 90, None, {"divergence"}),
        ("division", None, None, {"division"}),  # the routine has no lines
        ("tail", 112, "fixed latency", {"balance-blocks"}),
        ("serial_atomics", None, "atomic in global memory", {"atomics"}),  # its line is of CUDA's header
    ],
)
def test_the_planted_line_and_its_cause_come_first(
    name: str, line: int | None, detail: str | None, advised: set[str]
) -> None:
    found = answer(name)
    assert found.advice[0].name in advised, [(one.name, one.speedup) for one in found.advice]
    lines = [at for (_, at), _ in found.lines()]
    if line is not None:
        assert line in lines[:2]
    if detail is not None:
        assert detail in {part.detail for _, parts in found.lines()[:1] for part in parts}


def test_the_line_of_an_inlined_atomic_is_the_callers() -> None:
    code = recorded()["serial_atomics"][0]
    cause, _ = answer("serial_atomics").causes()[0]
    assert 124 in {frame.line for frame in code.frames(cause)}


def test_nearly_every_stall_has_one_producer_after_pruning() -> None:
    """GPA reports 0.74 to 0.97 after pruning and 0.47 to 0.71 before, on V100."""
    for name in recorded():
        blamed = answer(name).blamed
        assert blamed.single_before is not None and blamed.single_after is not None
        assert blamed.single_after >= 0.9 > blamed.single_before


def test_hardly_a_sample_is_unexplained() -> None:
    """Scoreboard stalls are at instructions whose wait mask says so: the fields are read as the hardware reads them."""
    waiting = unexplained = 0
    for name in recorded():
        found = answer(name)
        waiting += sum(row.samples for row in found.samples.rows if row.reason.endswith("_scoreboard"))
        unexplained += found.blamed.unexplained
    assert waiting > 100_000
    assert unexplained < waiting / 10_000


def test_samples_that_issue_beside_others_are_not_promised_as_savings() -> None:
    """Division keeps the schedulers busy: its stalls cost little, since other warps issue meanwhile."""
    found = answer("division")
    stalled = found.samples.stalled / found.samples.total
    assert stalled > 0.8
    assert all(one.saved < 0.05 for one in found.advice if one.name != "division")

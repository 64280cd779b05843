"""Slow kernels sampled on an H100, and what following the advice saved there (`benchmarks/gpu/advice.py`): are estimates near?

`pairs_*.json.xz` has each kernel's launch, its samples as (offset, reason, samples, samples in cycles without an issue), the
advice that its repaired twin follows and the share of time that saved. Estimates were developed on
`pairs_a`, then on `pairs_b`; `pairs_c` and `pairs_d` were recorded later.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.disassembly import find_tool
from warpsight.sass.code import kernels
from warpsight.sass.why.advice.block_lengths import BlockLengths
from warpsight.sass.why.advice.finding import KernelFacts, LaunchConfiguration
from warpsight.sass.why.answer import Answer, why
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.footprint import footprint
from warpsight.sass.why.samples import add_up

HERE = Path(__file__).resolve().parent
NEAR = 0.25


@cache
def answers(name: str) -> dict[str, tuple[Answer, dict[str, Any]]]:
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    recorded = json.loads(lzma.decompress((HERE / f"{name}.json.xz").read_bytes()))
    cubin = Cubin(lzma.decompress((HERE / f"{name}.sm_90.cubin.xz").read_bytes()), name)
    code = {one.name: one for one in kernels(cubin)}
    return {
        pair: (
            why(code[known["kernel"]], add_up(known["samples"]), LaunchConfiguration(**known["launch"])),
            known,
        )
        for pair, known in recorded.items()
    }


@pytest.mark.parametrize(("name", "least"), [("pairs_a", 8), ("pairs_b", 6), ("pairs_c", 8), ("pairs_d", 5)])
def test_as_many_estimates_as_measured_are_within_a_quarter_of_what_was_saved(name: str, least: int) -> None:
    near = 0
    for answer, known in answers(name).values():
        estimated = next((one.saved for one in answer.advice if one.name in known["followed"]), 0.0)
        near += abs(known["saved"] - estimated) <= NEAR * estimated
    assert near >= least


@pytest.mark.parametrize(
    ("name", "least"), [("pairs_a", 0.85), ("pairs_b", 0.6), ("pairs_c", 0.95), ("pairs_d", 0.8)]
)
def test_most_stalls_have_one_producer(name: str, least: float) -> None:
    shares = [answer.blamed.single_after for answer, _ in answers(name).values()]
    assert min(share for share in shares if share is not None) >= least


@pytest.mark.parametrize("name", ["pairs_a", "pairs_b"])
def test_the_advice_that_was_followed_comes_first_for_most(name: str) -> None:
    first = [
        answer.advice[0].name in known["followed"]
        for answer, known in answers(name).values()
        if answer.advice
    ]
    assert sum(first) >= 8


def lengths(name: str, pair: str) -> BlockLengths:
    answer, _ = answers(name)[pair]
    dependencies = Dependencies(answer.code.graph)
    return KernelFacts(answer.code, answer.samples, answer.blamed, dependencies, answer.launch).lengths


def test_the_lengths_of_blocks_are_read_from_the_code() -> None:
    """A triangle, and a first eighth with four times the work of the others."""
    triangle, eighth = lengths("pairs_a", "tail").work, lengths("pairs_d", "tail").work
    assert triangle is not None and eighth is not None
    blocks = np.arange(len(triangle))
    assert np.allclose(triangle, (200 + 4 * blocks) / (200 + 4 * blocks).mean(), atol=0.05)
    planted = np.where(np.arange(len(eighth)) < len(eighth) // 8, 32, 8)
    assert np.allclose(eighth, planted / planted.mean(), rtol=0.05)


@pytest.mark.parametrize(
    ("name", "pair"), [("pairs_d", "division"), ("pairs_c", "division"), ("pairs_c", "divergent_branch")]
)
def test_blocks_that_do_the_same_are_not_to_be_balanced(name: str, pair: str) -> None:
    """Samples are lost while all warps are ready, which looks as if multiprocessors were idle."""
    assert (answers(name)[pair][0].launch.busy or 1) < 0.85
    assert lengths(name, pair).work is None and lengths(name, pair).unknown < 0.1
    assert "balance-blocks" not in [one.name for one in answers(name)[pair][0].advice[:1]]


def test_where_the_loop_keeps_the_divisor_nearly_the_whole_division_leaves_it() -> None:
    answer, known = answers("pairs_d")["division"]
    estimated = next(one.saved for one in answer.advice if one.name == "fast-math")
    assert abs(known["saved"] - estimated) <= NEAR * estimated


def test_loads_behind_atomics_on_one_address_are_blamed_on_these() -> None:
    answer, known = answers("pairs_c")["serial_atomics"]
    estimated = next(one.saved for one in answer.advice if one.name == "atomics")
    assert abs(known["saved"] - estimated) <= NEAR * estimated


def test_masked_addresses_stay_in_the_cache() -> None:
    """`in[(i + k * threads) & 0xfffff]` stays within 4 MiB; rows by the block's number do not, nor does a gather."""

    def loads(name: str, pair: str) -> list[int | None]:
        code = answers(name)[pair][0].code
        dependencies = Dependencies(code.graph)
        return [footprint(dependencies, one.index) for one in code.instructions if one.operation == "LDG"]

    assert loads("pairs_d", "low_occupancy") == [4 << 20]
    assert set(loads("pairs_a", "uncoalesced")) == {None}
    assert None in loads("pairs_c", "long_scoreboard")

"""Addresses of lanes, read from the code of kernels whose source says where they are."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.disassembly import find_tool
from warpsight.sass.code import KernelCode, kernels
from warpsight.sass.why.dependencies import Dependencies
from warpsight.sass.why.lane_addresses import LaneAddresses

PLANTED = Path(__file__).parents[2] / "golden" / "stalls" / "planted.sm_90.cubin.xz"


def planted(name: str) -> KernelCode:
    if find_tool("nvdisasm") is None:
        pytest.skip("nvdisasm is not installed (pip install nvidia-cuda-nvdisasm)")
    cubin = Cubin(lzma.decompress(PLANTED.read_bytes()), "planted")
    return next(one for one in kernels(cubin) if one.short_name.endswith(f"::{name}"))


def parts(code: KernelCode, operation: str, width: int = 256) -> list[tuple[int, int] | None]:
    lanes = LaneAddresses(Dependencies(code.graph), width)
    return [lanes.parts(one.index) for one in code.instructions if one.operation == operation]


def test_lanes_far_apart_take_a_sector_each() -> None:
    assert set(parts(planted("uncoalesced"), "LDG")) == {(32, 4)}
    assert set(parts(planted("uncoalesced"), "STG")) == {(4, 4)}


def test_lanes_in_one_bank_take_a_pass_each() -> None:
    found = parts(planted("bank_conflict"), "LDS")
    assert found and set(found) == {(32, 1)}
    assert set(parts(planted("bank_conflict"), "STS")) == {(1, 1)}


def test_addresses_that_were_loaded_are_unknown() -> None:
    assert set(parts(planted("long_scoreboard"), "LDG")) == {None}


def test_a_branch_on_the_lane_is_taken_by_the_lanes_that_its_comparison_holds_for() -> None:
    code = planted("divergent_branch")
    lanes = LaneAddresses(Dependencies(code.graph), 256)
    taken = [lanes.taken(one.index) for one in code.instructions if one.operation == "BRA"]
    assert [found for found in taken if found] == [(31 / 32, 1 / 32)] * 2, (
        "the loop's own branch is taken by all"
    )

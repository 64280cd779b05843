"""Roles of kernels: what stays the same when a library renames them."""

from __future__ import annotations

import pytest

from warpsight.analysis.diff.roles import role


@pytest.mark.parametrize("name", ["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cross_device_reduce_1stage"])
def test_collectives_of_any_library_are_communication(name: str) -> None:
    assert role(name) == "communication"


def test_other_kernels_are_not() -> None:
    assert (
        role("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n") == role("ampere_sgemm_128x64_nn") != "communication"
    )
    assert role("my_own_kernel") == "other"

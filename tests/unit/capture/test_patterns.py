"""Patterns of `--api`: those that match nothing are named, with what they may have meant."""

from __future__ import annotations

import pytest

from warpsight.capture.functions import patterns


@pytest.mark.parametrize(
    ("api", "unknown"),
    [
        ("", []),
        ("all", []),
        ("cudaMemcpy", []),
        ("cudaMem*,cuLaunchKernel", []),
        ("cudaMemcopy, cudaMalloc", ["cudaMemcopy"]),
        ("cudaMalloc all", ["all"]),
    ],
)
def test_patterns_that_match_no_function_are_named(api: str, unknown: list[str]) -> None:
    assert patterns.unknown(api) == unknown


def test_a_misspelt_function_is_found() -> None:
    assert "cudaMemcpy" in patterns.near("cudaMemcopy")


def test_what_is_unlike_every_function_has_no_suggestion() -> None:
    assert patterns.near("xyzzy") == []
    assert patterns.near("LAUNCHS")[0] == "launches"
    assert len(patterns.near("cuMemcpyAsyn")) == 3

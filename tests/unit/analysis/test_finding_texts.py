"""Findings name the calls that they count, and only gaps that are there."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import Build, copy, device, kernel, launch
from warpsight.analysis.base import words
from warpsight.analysis.base.typical import half
from warpsight.analysis.rules.verdict import verdict

MS, US = 1_000_000, 1_000


def test_a_call_is_blamed_for_its_own_waits_alone(build: Build) -> None:
    """One write that takes longest, and seven reads: each is counted under its own name."""
    tables: dict[str, list[dict[str, Any]]] = {"kernel": [], "launch": [], "memcpy": [], "api": []}
    at = 0
    for turn in range(8):
        tables["launch"].append({**launch(at, 5 * US, 2 * turn + 1), "function": "clEnqueueNDRangeKernel"})
        tables["kernel"].append(kernel(at + 10 * US, 2 * MS, correlation=2 * turn + 1))
        length = 3 * MS if turn == 0 else MS
        name = "clEnqueueWriteBuffer" if turn == 0 else "clEnqueueReadBuffer"
        begin = at + 2 * MS + 10 * US
        tables["memcpy"].append(
            copy(begin, length, kind="HtoD" if turn == 0 else "DtoH", correlation=2 * turn + 2)
        )
        tables["api"].append({"start": at + 6 * US, "duration": begin + length - at - 5 * US, "function": name,
                              "thread": 100, "process": 0, "correlation": 2 * turn + 2})  # fmt: skip
        at = begin + length + 2 * MS  # the host prepares the next turn
    found = verdict(build(device=[device(0, platform="opencl")], **tables))
    texts = [finding.text for finding in found.findings]
    assert [
        text for text in texts if "clEnqueueReadBuffer lets the GPU run dry 6 times" in text
    ]  # not after the last one
    assert [text for text in texts if "clEnqueueWriteBuffer lets the GPU run dry once" in text]


def test_kernels_that_rounding_sets_apart_are_no_gaps_between_launches(build: Build) -> None:
    """Runs of kernels that were launched ahead, 1 ns apart, between gaps for which the host is late."""
    kernels, launches, at = [], [], 0
    for turn in range(50):
        for place in range(10):
            number = 10 * turn + place + 1
            launches.append(launch(at + place * US, US, number))
            kernels.append(kernel(at + 20 * US + place * (10 * US), 10 * US - 1, correlation=number))
        at += 180 * US
    found = verdict(build(kernel=kernels, launch=launches))
    texts = " ".join(f"{finding.text} {finding.evidence}" for finding in found.findings)
    assert "launch calls" in texts and not re.search(r"\b1 ns", texts)


def test_kernels_without_names_are_not_called_one_kernel(build: Build) -> None:
    kernels = [kernel(at * MS, MS // 2) | {"name_id": 77 + at % 2} for at in range(6)]
    assert verdict(build(kernel=kernels)).headline.startswith(
        "55% of the time is in kernels whose names are not in the trace (6 times)"
    )


def test_a_graph_recorded_as_a_whole_is_no_kernel(build: Build) -> None:
    kernels = [kernel(at * MS, MS, name_id=1) for at in range(6)]
    (first, *_) = verdict(build(names=("CUDA graph 5",), kernel=kernels)).findings
    assert first.text == "100% of the time is in CUDA graph 5, recorded as a whole (6 times)"
    assert first.advice.startswith("Record the graph's kernels")


def test_half_of_the_time() -> None:
    assert half(np.array([1, 1, 500, 1, 700])) == 700
    assert half(np.array([10, 10, 10, 10])) == 10
    assert half(np.array([3])) == 3
    assert half(np.array([0, 0])) == half(np.array([], np.int64)) == 0


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (0.003, "less than 1%"),
        (0.006, "1%"),
        (0.994, "99%"),
        (0.996, "more than 99%"),
        (1, "100%"),
    ],
)
def test_what_is_neither_nothing_nor_all_is_not_called_that(share: float, text: str) -> None:
    assert words.percent(share) == text

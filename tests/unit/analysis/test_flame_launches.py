"""Launches of a trace without device work, as uprobes record them, are drawn by their calls."""

from __future__ import annotations

from tests.unit.analysis.conftest import Build, kernel, launch
from tests.unit.analysis.test_flame import paths
from warpsight.analysis.flame.graph import Shape, flame
from warpsight.model.selection import Rows

STACKS = (("main", "step"),)
LAUNCHES = [launch(10, 2, 0, stack=2, name_id=1), launch(20, 2, 0, stack=2, name_id=1), launch(30, 2, 0),
            {**launch(40, 2, 0), "captured": True}]  # fmt: skip
MARKERS = [{"start": 25, "duration": 20, "thread": 100, "process": 0, "name_id": 2, "kind": "push/pop", "open": False,
            "source": "nvtx"}]  # fmt: skip


def test_launches_without_kernels_are_drawn_by_their_calls(build: Build) -> None:
    trace = build(names=("gemm", "range"), stacks=STACKS, launch=LAUNCHES, marker=MARKERS)
    graph = flame(trace, shape=Shape("launches"))
    assert paths(graph) == {
        ("main", "step", "gemm"): 2,
        ("range", "cudaLaunchKernel"): 1,  # the fourth was captured into a graph and launched nothing
    }
    part = flame(trace, Rows(begin=15, end=35, name="gemm"), Shape("launches"))
    assert paths(part) == {("main", "step", "gemm"): 1}


def test_with_kernels_the_kernels_count(build: Build) -> None:
    trace = build(stacks=STACKS, launch=LAUNCHES, kernel=[kernel(100, 5, correlation=9)])
    assert list(paths(flame(trace, shape=Shape("launches"))).values()) == [1]

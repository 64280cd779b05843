"""Findings about the recording itself: losses, and calls that failed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.rules.program import US, Program
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import recording
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows


def judged(program: Program) -> list[Finding]:
    program.launch("gemm", 50 * US)
    with program.open() as trace:
        return list(recording.check(Facts(trace, Rows())))


def loss(cause: str, count: int, severity: str = "lost") -> dict[str, Any]:
    return {"source": "ring", "cause": cause, "severity": severity, "count": count}


@pytest.mark.parametrize(
    ("losses", "said", "count"),
    [
        ([loss("late", 1), loss("full", 2)], "2 lost in ring: full and 1 more cause", 2),
        ([loss("full", 2), loss("late", 3), loss("full", 2)], "4 lost in ring: full and 1 more cause", 4),
        ([loss("full", 1_200), loss("noted", 5_000, "note")], "1,200 lost in ring: full", 1_200),
    ],
)
def test_losses_add_up_by_cause_and_the_largest_is_named(
    program: Program, losses: list[dict[str, Any]], said: str, count: int
) -> None:
    for one in losses:
        program.add("loss", **one)
    (found,) = (one for one in judged(program) if one.rule == "recording/lost")
    assert found.text == f"the trace is incomplete: {said}; what follows is about the rest"
    assert found.values == {"count": count}


def test_notes_are_no_losses(program: Program) -> None:
    program.add("loss", **loss("noted", 7, "note"))
    assert not [one for one in judged(program) if one.rule == "recording/lost"]


def test_calls_that_failed_are_counted_by_function_and_result(program: Program) -> None:
    begin = program.host
    program.call("api", "cudaMalloc", 3 * US, result=2)
    program.call("api", "cudaMalloc", 5 * US, result=2)
    program.call("api", "cudaStreamQuery", 1 * US, result=600)  # not ready: an answer
    program.call("api", "cudaFree", 1 * US, result=0)
    late = program.host
    program.call("launch", "cudaLaunchKernel", 0, captured=False, result=600)
    found = [one for one in judged(program) if one.rule == "recording/failed-calls"]
    assert [(one.severity, one.text, one.at) for one in found] == [
        ("warning", "cudaMalloc returned error 2 twice", (begin, begin + 3 * US)),
        ("error", "cudaLaunchKernel returned error 600 once", (late, late + 1)),
    ]


@pytest.mark.parametrize(
    ("code", "after", "said"), [(709, False, False), (4, False, False), (709, True, True), (700, False, True)]
)
def test_a_call_after_the_context_is_gone_is_a_failure_only_if_launches_follow(
    program: Program, code: int, after: bool, said: bool
) -> None:
    """CUPTI's own `cuCtxSynchronize` at the end of a process finds the context destroyed."""
    program.launch("gemm", 50 * US)
    program.call("api", "cuCtxSynchronize", 3 * US, result=code)
    if after:
        program.launch("gemm", 50 * US)
    with program.open() as trace:
        found = [
            one.text for one in recording.check(Facts(trace, Rows())) if one.rule == "recording/failed-calls"
        ]
    assert found == ([f"cuCtxSynchronize returned error {code} once"] if said else [])

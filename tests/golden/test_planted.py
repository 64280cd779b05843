"""Recordings of programs with one planted problem each (tests/planted): the verdict names the planted cause first."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from warpsight.analysis.rules.verdict import Verdict, verdict
from warpsight.analysis.steps.iterations import find
from warpsight.model import open as open_trace

HERE = Path(__file__).parent
#: Program → rule that must come first, words that its first line must have, and the place in the program that it must name.
PLANTED = {
    "sync_every_step": (
        "waits/synchronise",
        ("cudaDeviceSynchronize", "once per iteration"),
        "sync_every_step.py:25",
    ),
    "pageable_copies": ("copies/pageable", ("pageable copies",), "pageable_copies.py:16"),
    "tiny_kernels": ("launches/launch-bound", ("launch-bound",), "tiny_kernels.py:10"),
    "slow_step": ("loops/slow-iteration", ("slow iteration", "step 27"), "slow_step.py:32"),
    "data_loading": ("host/data-loading", ("data loading",), "data_loading.py:20"),
    "leak": ("memory/leak", ("leak", "32.0 MiB per iteration"), "leak.py:21"),
    "throttled": ("clocks/throttled", ("clock throttling", "the power limit"), None),
    "serialised_streams": ("streams/serialised", ("serialised streams", "legacy default stream"), None),
}


@cache
def judged(program: str) -> Verdict:
    with open_trace(HERE / f"planted_{program}.warp.zip") as trace:
        return verdict(trace)


@pytest.mark.parametrize("program", PLANTED)
def test_the_planted_cause_is_named_first(program):
    rule, words, place = PLANTED[program]
    found = judged(program)
    first = found.findings[0]
    assert first.rule == rule
    assert all(word in found.headline for word in words), found.headline
    if place is not None:
        assert any(place in str(text) for text in (first.text, *first.evidence)), first.evidence
    assert first.advice


def test_an_iteration_of_tiny_kernels_is_its_innermost_loop():
    """The steps of ten tensors leave no trace: same kernels, same stacks, no pause. What repeats is lines 10 and 11."""
    with open_trace(HERE / "planted_tiny_kernels.warp.zip") as trace:
        (loop,) = find(trace)
        lines = trace.stacks(set(loop.work.stack.tolist()) - {0})
        turns = {
            tuple(lines[s][-1] for s in loop.work.stack[loop.rows_of(i)].tolist())
            for i in range(1, len(loop))
        }
    assert len(loop) == 1_000
    assert turns == {("update (tiny_kernels.py:10)", "update (tiny_kernels.py:11)")}


@pytest.mark.parametrize("program", PLANTED)
def test_nothing_costs_more_than_the_time_there_is(program):
    found = judged(program)
    assert all(0 <= f.cost_ns <= found.length * 1.01 for f in found.findings if f.cost_ns is not None)
    costs = [f.cost_ns or 0 for f in found.findings if f.severity != "error"]
    assert costs == sorted(costs, reverse=True)

"""Recordings of programs with one planted problem each (tests/planted): the headline names the planted cause."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from warpsight.analysis.rules.verdict import Verdict, verdict
from warpsight.analysis.steps.iterations import find
from warpsight.model import open as open_trace

HERE = Path(__file__).parent
#: Program → rule of the finding that names its cause, words that the headline must have, and the place in the program.
PLANTED = {
    "sync_every_step": (
        "waits/run-dry",
        ("cudaDeviceSynchronize lets the GPU run dry", "once per iteration"),
        "sync_every_step.py:25",
    ),
    "pageable_copies": ("copies/pageable", ("pageable copies",), "pageable_copies.py:16"),
    "tiny_kernels": ("launches/launch-bound", ("launch-bound",), "tiny_kernels.py:10"),
    "slow_step": ("loops/slow-iteration", ("slow iteration", "step 27"), "slow_step.py:32"),
    "data_loading": (
        "account/host",
        ("the host runs code between two launches", "Images.__getitem__"),
        "data_loading.py:20",
    ),
    "leak": ("memory/leak", ("leak", "32.0 MiB per iteration"), "leak.py:21"),
    "throttled": ("clocks/throttled", ("clock throttling", "the power limit"), None),
    "serialised_streams": ("streams/serialised", ("serialised streams", "legacy default stream"), None),
}


@cache
def judged(program: str) -> Verdict:
    with open_trace(HERE / f"planted_{program}.warp.zip") as trace:
        return verdict(trace)


@pytest.mark.parametrize("program", PLANTED)
def test_the_headline_names_the_planted_cause(program):
    rule, words, place = PLANTED[program]
    found = judged(program)
    (finding,) = [one for one in found.leading if one.rule == rule]
    assert all(word in found.headline for word in words), found.headline
    if place is not None:
        assert any(place in str(text) for text in (finding.text, *finding.evidence)), finding.evidence
    assert finding.advice


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
def test_the_account_adds_up_and_nothing_saves_more_than_the_time_there_is(program):
    found = judged(program)
    assert sum(entry.time for entry in found.account.entries) == found.account.span
    assert all(0 <= f.saves_ns <= found.length for f in found.findings if f.saves_ns is not None)
    shares = [f.share_ns for f in found.findings if f.share_ns is not None]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= found.account.span

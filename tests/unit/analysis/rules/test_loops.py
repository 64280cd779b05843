"""What is said of iterations that stand out and of those that vary, recounted from the rows."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from tests.unit.analysis.rules.program import MS, US, Program
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import loops
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.steps import iterations
from warpsight.model.selection import Rows


def loop(
    program: Program, lengths: list[int], more: dict[int, list[tuple[str, int]]] | None = None
) -> list[Finding]:
    """Turns that launch `gemm` and `relu`, some of them more, and then leave the device idle up to a length."""
    for number, length in enumerate(lengths):
        begin = max(program.host, program.device)
        program.host = begin
        for name, duration in [("gemm", 100 * US), ("relu", 50 * US), *(more or {}).get(number, [])]:
            program.launch(name, duration)
        program.host = begin + length
        program.annotated(f"step {number}", begin)
    with program.open() as trace:
        return list(loops.check(Facts(trace, Rows())))


def of(found: list[Finding], rule: str) -> list[Finding]:
    return [one for one in found if one.rule == rule]


def test_a_slow_iteration_says_what_it_has_more_of_than_a_usual_one(program: Program) -> None:
    found = loop(program, [300 * US] * 7 + [9 * MS] + [300 * US] * 12,
                 {7: [("eval", 3 * MS), ("gemm", 2 * MS), ("save", 1 * MS)]})  # fmt: skip
    (one,) = of(found, "loops/slow-iteration")
    kernels = program.rows["kernel"]
    worst = [row for row in kernels if row["duration"] >= MS]
    begin = kernels[14]["start"]
    assert one.text.startswith("slow iteration: step 7 took ")
    assert one.values["number"] == 7 and one.at is not None
    assert one.at[0] == begin and one.at[1] >= max(row["start"] + row["duration"] for row in worst)
    assert [str(line) for line in one.evidence] == [
        f"begins at {words.moment(begin - MS)}, with 5 kernels and copies instead of 2",
        "3.00 ms more in eval",
        "2.00 ms more in gemm",
    ]


def test_copies_and_fills_are_named_as_such(program: Program) -> None:
    for number in range(20):
        begin = program.host = max(program.host, program.device)
        program.launch("gemm", 100 * US)
        if number == 9:
            for table, length in (("memcpy", 4 * MS), ("memset", 3 * MS)):
                call = program.call("api", f"cuda{table}Async", 2 * US)
                own = {"kind": "HtoD", "source_kind": "pinned", "destination_kind": "device"} if table == "memcpy" else {
                    "value": 0, "memory_kind": "device"}  # fmt: skip
                program.device = max(program.device, program.host)
                program.add(table, start=program.device, duration=length, bytes=1 << 20, asynchronous=True, context=1, stream=7,
                            device=0, correlation=call, **own)  # fmt: skip
                program.device += length
        program.host = max(begin + 200 * US, program.host)
        program.annotated(f"step {number}", begin)
    with program.open() as trace:
        (one,) = of(list(loops.check(Facts(trace, Rows()))), "loops/slow-iteration")
    assert [str(line) for line in one.evidence][1:] == ["4.00 ms more in copies", "3.00 ms more in fills"]
    assert "with 3 kernels and copies instead of 1" in str(one.evidence[0])


@pytest.mark.parametrize("count", [1, 3])
def test_the_stack_that_launched_more_is_one_that_usual_iterations_do_not_have(
    program: Program, count: int
) -> None:
    usual, unusual = program.stack("train"), program.stack("evaluate", line=40)
    for number in range(20):
        begin = program.host = max(program.host, program.device)
        for turn in range(1 + (count + 1 if number == 11 else 0)):
            program.launch("gemm", 100 * US if not turn else 2 * MS)
            program.rows["kernel"][-1]["stack"] = unusual if turn and turn <= count else usual
        program.host = max(begin + 200 * US, program.host)
        program.annotated(f"step {number}", begin)
    with program.open() as trace:
        (one,) = of(list(loops.check(Facts(trace, Rows()))), "loops/slow-iteration")
    assert str(one.evidence[-1]) == "launched by evaluate (train.py:40) ← main (train.py:1)"


@pytest.mark.parametrize("seed", range(5))
def test_iterations_that_vary_say_by_how_much(program: Program, seed: int) -> None:
    rng = random.Random(seed)
    spread = rng.choice((5, 40, 90, 200))
    found = loop(program, [(400 + rng.randrange(-spread, spread)) * US for _ in range(40)])
    with_loop = program  # the trace is on disk
    from warpsight.model import open as open_trace

    with open_trace(with_loop.path) as trace:
        (one,) = iterations.find(trace, Rows(), Facts(trace, Rows()).work)
    usual = [int(one.duration[n]) for n in range(len(one)) if one.steady[n] and not one.outlier[n]]
    mean, std = float(np.mean(usual)), float(np.std(usual))
    jitter = of(found, "loops/jitter")
    assert bool(jitter) == (std >= 0.15 * mean)
    for finding in jitter:
        assert finding.values == {"mean": pytest.approx(mean), "std": pytest.approx(std)}
        assert (
            f"vary by {std / mean:.0%} (standard deviation {words.duration(std)} of {words.duration(mean)})"
            in finding.text
        )
        assert finding.at is not None and finding.at[1] - finding.at[0] == max(usual)
        assert finding.text.startswith(
            "iterations vary" if one.steady.all() else "the iterations of the steady state vary"
        )


@pytest.mark.parametrize(("count", "found"), [(10, False), (11, True)])
def test_iterations_are_said_to_vary_from_ten_of_known_length(
    program: Program, count: int, found: bool
) -> None:
    """The first is warm-up or counts, and the last has no next one."""
    lengths = [300 * US, 500 * US] * 20
    program_found = loop(program, lengths[:count])
    from warpsight.model import open as open_trace

    with open_trace(program.path) as trace:
        (one,) = iterations.find(trace, Rows(), Facts(trace, Rows()).work)
    usual = int((one.steady & ~one.outlier).sum())
    assert bool(of(program_found, "loops/jitter")) == (usual >= 10)


def test_iterations_of_one_process_are_not_said_to_be_of_it(program: Program) -> None:
    for process in (0, 1):
        for number in range(24):
            begin = program.host = max(program.host, program.device)
            program.launch("gemm", 100 * US)
            program.rows["launch"][-1]["process"] = program.rows["kernel"][-1]["process"] = process
            program.host = begin + (300 + 400 * (number % 2)) * US
            program.annotated(f"step {number}", begin)
            program.rows["marker"][-1]["process"] = process
    with program.open() as trace:
        texts = [one.text for one in of(list(loops.check(Facts(trace, Rows()))), "loops/jitter")]
    assert Counter(text.partition(" vary")[0].rpartition(" of ")[2] for text in texts) == {
        "process 0": 1,
        "process 1": 1,
    }


def test_a_slow_iteration_that_costs_less_than_a_hundredth_is_not_worth_a_word(program: Program) -> None:
    assert of(loop(program, [300 * US] * 10 + [800 * US] + [300 * US] * 200), "loops/slow-iteration") == []

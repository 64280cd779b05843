"""Where findings begin, to the last nanosecond, and which of them lead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, Build, copy, device, kernel, launch
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import loops, shares, verdict
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows


def lever(saves_ns: int | None, severity: str = "warning") -> Finding:
    return Finding(severity, f"saves {saves_ns}", saves_ns=saves_ns)


@pytest.mark.parametrize(("saves_ns", "leads"), [(50, True), (49, False), (None, False), (400, True)])
def test_a_change_leads_from_a_twentieth_of_the_time(saves_ns: int | None, leads: bool) -> None:
    facts: Any = SimpleNamespace(length=1_000)
    share = Finding("note", "kernels", kind="compute")
    found = (share, lever(saves_ns), lever(900), Finding("note", "copies", kind="copy"))
    expected = (share, lever(saves_ns if leads else 900))
    assert verdict._leading(facts, found) == expected


def test_an_error_leads_once_even_where_it_saves_time() -> None:
    facts: Any = SimpleNamespace(length=1_000)
    error, other = lever(500, "error"), lever(600, "error")
    share = Finding("note", "kernels", kind="compute")
    assert verdict._leading(facts, (share, error, other)) == (error, share)
    assert verdict._leading(facts, (lever(100), share, error)) == (error, share, lever(100))


def iterations(
    durations: list[int], steady: list[bool] | None = None, outlier: list[bool] | None = None
) -> Any:
    length = np.array(durations, np.int64)
    return SimpleNamespace(
        duration=length, start=np.cumsum(length) - length, process=0,
        steady=np.array(steady or [True] * len(durations)), outlier=np.array(outlier or [False] * len(durations)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("durations", "said"),
    [
        ([85, 115] * 5, True),  # a standard deviation of 15%
        ([86, 114] * 5, False),
        ([85, 115] * 4 + [115], False),  # too few
        ([0] * 10, False),
    ],
)
def test_iterations_vary_from_fifteen_percent_of_ten(durations: list[int], said: bool) -> None:
    found = list(loops._jitter(iterations(durations), ""))
    assert bool(found) == said
    if said:
        assert found[0].values == {"mean": 100.0, "std": 15.0}
        assert found[0].text == "iterations vary by 15% (standard deviation 15 ns of 100 ns)"
        assert found[0].at == (85, 200)


def test_only_usual_iterations_of_the_steady_state_vary() -> None:
    durations = [85, 115] * 5 + [9_000, 5]
    steady = [True] * 11 + [False]
    outlier = [False] * 10 + [True, False]
    (found,) = loops._jitter(iterations(durations, steady, outlier), " of process 3")
    assert found.values == {"mean": 100.0, "std": 15.0}
    assert found.text.startswith("the iterations of the steady state of process 3 vary by 15%")


@pytest.mark.parametrize(("saves_ns", "said"), [(10, True), (9, False), (None, False)])
def test_slow_iterations_are_told_from_a_hundredth_of_the_time(
    monkeypatch: pytest.MonkeyPatch, saves_ns: int | None, said: bool
) -> None:
    finding = Finding("warning", "turn 1 took long", {"number": 1}, saves_ns=saves_ns)
    monkeypatch.setattr(loops.iterations, "slow", lambda one: [finding])
    monkeypatch.setattr(loops, "_difference", lambda facts, one, finding: ("more",))
    one = iterations([100, 300, 100])
    facts: Any = SimpleNamespace(iterations=[one], length=1_000)
    found = list(loops.check(facts))
    assert len(found) == said
    if said:
        assert (found[0].text, found[0].at) == ("slow iteration: turn 1 took long", (100, 400))


def kernels(build: Build, lengths: list[int]) -> Any:
    """Kernels of different names that follow each other without a gap."""
    rows, at = [], EPOCH
    for number, length in enumerate(lengths, 1):
        rows.append(kernel(at, length, number, correlation=number))
        at += length
    names = tuple(f"kernel_{chr(96 + n)}" for n in range(1, len(lengths) + 1))
    launches = [launch(EPOCH - 1_000 + n, 1, n + 1) for n in range(len(lengths))]
    return build(names=names, device=[device(0)], kernel=rows, launch=launches)


def told(trace: Any) -> list[str | None]:
    return [one.name for one in shares.check(Facts(trace, Rows()))]


def test_kernels_are_told_from_a_twentieth_of_the_time(build: Build) -> None:
    assert told(kernels(build, [900, 50, 50])) == ["kernel_a", "kernel_b", "kernel_c"]
    assert told(kernels(build, [901, 50, 49])) == ["kernel_a", "kernel_b"]
    assert told(kernels(build, [951, 49])) == ["kernel_a"]


def test_five_kernels_at_most_are_told(build: Build) -> None:
    assert told(kernels(build, [200, 190, 170, 160, 150, 130])) == [f"kernel_{letter}" for letter in "abcde"]
    assert len(told(kernels(build, [200] * 5))) == 5


@pytest.mark.parametrize(("large", "part"), [(950, ""), (949, "95% of it ")])
def test_the_largest_copy_stands_for_all_from_nineteen_twentieths(
    build: Build, large: int, part: str
) -> None:
    rows = [copy(EPOCH, large, kind="HtoD"), copy(EPOCH + large, 1_000 - large, kind="DtoH")]
    (finding,) = shares.check(Facts(build(device=[device(0)], memcpy=rows), Rows()))
    assert ("(95% of it " in finding.text) == bool(part)
    assert finding.values["count"] == 2 and finding.share_ns == 1_000  # of all rows of the class


@pytest.mark.parametrize(("small", "said"), [(10, True), (9, False)])
def test_copies_are_told_from_a_hundredth_of_the_time(build: Build, small: int, said: bool) -> None:
    trace = build(names=("gemm",), device=[device(0)], kernel=[kernel(EPOCH, 1_000 - small, 1)],
                  memcpy=[copy(EPOCH + 1_000 - small, small)])  # fmt: skip
    found = [one.kind for one in shares.check(Facts(trace, Rows()))]
    assert found == (["compute", "copy"] if said else ["compute"])


def test_the_largest_share_is_told_however_small_it_is(build: Build) -> None:
    trace = kernels(build, [10] * 100)
    assert told(trace) == ["kernel_a"]
    first = shares.largest(Facts(trace, Rows()))
    assert first is not None and first.text.startswith("kernel_a takes 1% of the time")
    (leading,) = shares.check(Facts(trace, Rows()))
    assert leading.text.startswith("1% of the time is in one kernel, kernel_a")

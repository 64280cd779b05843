"""The words of a comparison: which way, by how much, how sure."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest

from warpsight.analysis.diff import sentences
from warpsight.analysis.diff.design import Design


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1.0005, "0.05%"), (1.00099, "0.10%"), (1.001, "0.1%"), (1.051, "5.1%"), (0.9, "10.0%"), (1.9994, "99.9%"),
     (1.9996, "100%"), (21.0, "2,000%"), (0.5, "50.0%")],
)  # fmt: skip
def test_a_change_in_percent_of_what_was_before(ratio: float, text: str) -> None:
    assert sentences.percent(log(ratio)) == text


def test_intervals_with_and_without_signs() -> None:
    assert sentences.interval(log(0.989), log(1.019), signed=True) == "−1.1 to +1.9%"
    assert sentences.interval(0.0, log(1.019), signed=True) == "0.0 to +1.9%"
    assert sentences.interval(log(0.989), log(1.019), signed=False) == "1.1 to 1.9%"


def test_slower_and_faster_with_the_nearer_end_first() -> None:
    assert sentences.changed(log(1.051), log(1.039), log(1.062), "99%") == "slower by 5.1% (99%: 3.9 to 6.2%)"
    assert sentences.changed(log(0.9), log(0.88), log(0.92), "95%") == "faster by 10.0% (95%: 8.0 to 12.0%)"


@pytest.mark.parametrize(
    ("change", "needed", "loop", "text"),
    [
        (1.004, log(1.023), "step", "in the time per step: +0.4% (99%: −1.1 to +1.9%), could have seen 2.3%"),
        (0.996, 3.0, "recording", "in the time of the recording: −0.4% (99%: −1.1 to +1.9%), only a change by several times "
         "could have been seen"),
        (1.004, 2.99, "step", "in the time per step: +0.4% (99%: −1.1 to +1.9%), could have seen 1,889%"),
    ],
)  # fmt: skip
def test_no_difference_shown_says_what_could_have_been_seen(
    change: float, needed: float, loop: str, text: str
) -> None:
    found = sentences.not_shown(log(change), log(0.989), log(1.019), needed, loop)
    assert found == f"no difference shown {text}"


@pytest.mark.parametrize(
    ("row", "more", "text"),
    [
        ({"verdict": "new"}, 0, "attend is new"),
        ({"verdict": "gone"}, 2, "attend is gone, and 2 more rows by kernel changed"),
        ({"verdict": "slower", "ratio": 1.302, "low": 1.261, "high": 1.345}, 0,
         "attend is slower by 30.2% (95%: 26.1 to 34.5%)"),
        ({"verdict": "faster", "ratio": 0.8, "low": 0.7, "high": 0.9}, 0, "attend is faster by 20.0% (95%: 10.0 to 30.0%)"),
        ({"verdict": "grew", "beside": 1.302, "beside_low": 1.261, "beside_high": None, "ratio": 9, "low": 9, "high": 9}, 1,
         "attend grew by 30.2% (95%: 0.0 to 26.1%) beside the rest of the device work, and 1 more row by kernel changed"),
    ],
)  # fmt: skip
def test_the_part_that_changed(row: dict[str, Any], more: int, text: str) -> None:
    assert sentences.part({"name": "attend", **row}, more, "kernel") == text


def test_spans() -> None:
    assert sentences.spans(1_230_000, 1_290_000, "step") == "1.23 ms → 1.29 ms per step"
    assert sentences.spans(5, 6, "recording") == "5 ns → 6 ns from the first to the last device work"


@pytest.mark.parametrize(
    ("one", "two", "runs", "untested"),
    [
        ([None], [None], "1 and 1 runs", "with one run per side"),
        (
            [None] * 2,
            [None] * 5,
            "2 and 5 runs",
            "with two and 5 runs an exact test cannot get below p = 0.10",
        ),
        ([1, 3, 5], [2, 4, 6], "3 and 3 runs, taken in turn", "with three and three runs"),
        ([1, 2, 3], [4, 5, 6], "3 and 3 runs, one side after the other", "with three and three runs"),
    ],
)
def test_how_the_runs_were_taken(one: list[Any], two: list[Any], runs: str, untested: str) -> None:
    design = Design.of(one, two)
    assert sentences.runs_of(design) == runs
    assert untested in sentences.untested(design)


def notes(one: list[Any], two: list[Any], machines: tuple[str, str] = ("a", "a")) -> list[str]:
    from types import SimpleNamespace
    from typing import cast

    design = Design.of(one, two)
    runs = [cast(Any, SimpleNamespace(machine=machines[int(second)])) for second in design.after]
    return [finding.text for finding in sentences.notes(design, runs)]


def test_notes_say_how_far_to_trust_a_comparison() -> None:
    order = list(range(10))
    assert notes(order[::2], order[1::2]) == []
    (text,) = notes(order[::2], order[1::2], ("a", ""))
    assert text == "the sides were recorded on different machines: a, and unknown"
    (text,) = notes([1], [2])
    assert text.startswith("a test needs four runs per side, better five")
    (text,) = notes(order[:8:2], order[1:8:2])
    assert text.startswith("with four and four runs the smallest p of an exact test is")
    (text,) = notes([None] * 5, [None] * 5)
    assert text.startswith("the traces do not say when they were recorded")
    (text,) = notes(order[:5], order[5:])
    assert text.startswith("the sides were not taken in turn")
    assert np.allclose(Design.of(order[:5], order[5:]).counts, (5, 5))

"""What rules ask of a trace: how busy its devices were, and which code is most often behind something."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.analysis.conftest import device, kernel, launch
from warpsight.analysis.base.result import Finding, in_order
from warpsight.analysis.rules import verdict, waits
from warpsight.analysis.rules.base import evidence
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.model.selection import Rows


def test_the_share_of_two_devices_is_their_mean(build) -> None:
    trace = build(
        device=[device(0), device(1)],
        kernel=[kernel(0, 100), kernel(100, 100), kernel(0, 50, device=1), kernel(190, 10, device=1)],
    )
    facts = Facts(trace, Rows())
    assert facts.share_busy(0, 200) == pytest.approx((200 + 60) / 400)
    assert facts.share_busy(100, 200) == pytest.approx((100 + 10) / 200)
    assert facts.share_busy(100, 100) == 0.0


def test_the_stack_that_occurs_most_often_is_one_that_is_known(build) -> None:
    facts = Facts(build(kernel=[kernel(0, 100)]), Rows())
    assert facts.common_stack(np.array([0, 0, 0, 2, 5, 5])) == 5
    assert facts.common_stack(np.array([0, -1])) == 0


def test_the_longest_of_equals_is_the_first() -> None:
    assert longest(np.array([10, 20, 50]), np.array([15, 30, 60])) == (20, 30)
    assert longest(np.zeros(0, np.int64), np.zeros(0, np.int64)) is None


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (7, "0.7 times per iteration"),
        (8, "once per iteration"),
        (12, "once per iteration"),
        (13, "1.3 times per iteration"),
    ],
)
def test_about_one_wait_an_iteration_is_called_one(count, said) -> None:
    class Ten:
        iterations = (range(4), range(6))

    assert waits._rate(Ten(), count) == said


def test_findings_stand_in_the_order_in_which_they_are_read() -> None:
    note, loss, error = (Finding(severity, severity, {}) for severity in ("note", "loss", "error"))
    small, large = (Finding("warning", str(saved), {}, saves_ns=saved) for saved in (5, 50))
    host = Finding("note", "host", {}, kind="host", share_ns=10)
    compute = Finding("note", "compute", {}, kind="compute", share_ns=90)
    assert in_order([note, small, host, large, loss, compute, error]) == (
        error, loss, compute, host, large, small, note,
    )  # fmt: skip
    assert [one.class_name for one in (loss, note, small, host)] == ["loss", "note", "lever", "host"]


def test_evidence_names_the_stack_that_holds_most_of_the_time() -> None:
    class Named:
        def stack_text(self, stack: int) -> str:
            return f"stack {stack}" if stack != 3 else ""

    def text(stacks: list[int], times: list[int]) -> list[str]:
        return evidence._text(Named(), "launched by", np.array(stacks), np.array(times))

    assert text([1, 1, 2, 0], [5, 5, 9, 100]) == ["launched by stack 1"]
    assert text([1, 2, 2], [5, 9, -9]) == ["launched by stack 2"]
    assert text([0, 0], [5, 5]) == []
    assert text([3], [5]) == []


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        ([1_000_000], "1 ms"),
        ([1_000_000, 1_000_000], "1 ms each"),
        ([1_000_000, 1_100_000], "1.05 ms each"),
        ([1_100_001, 1_000_000], "their time, 1 ms to 1.10 ms from first to last work"),
        ([1_000_000, 3_000_000], "their time, 1 ms to 3 ms from first to last work"),
    ],
)
def test_devices_that_worked_for_unlike_times_have_no_common_one(spans, said) -> None:
    assert verdict._spans(spans).replace(".00", "") == said


def test_counters_are_in_order_of_time_by_device_and_name(build) -> None:
    def row(time, value, name, **more):
        return {"time": time, "value": value, "name": name, "unit": "W", "source": "nvml", **more}

    trace = build(
        kernel=[kernel(0, 100)],
        counter=[row(30, 3.0, "power", device=1), row(10, 1.0, "clock", device=1), row(20, 2.0, "power", device=1),
                 row(5, 9.0, "power", device=0), row(7, 8.0, "load")],
    )  # fmt: skip
    found = Facts(trace, Rows()).counters_by_device
    assert sorted(found) == [-1, 0, 1]
    time, value, rows = found[1]
    assert (time.tolist(), value.tolist()) == ([10, 20, 30], [1.0, 2.0, 3.0])
    assert {name: places.tolist() for name, places in rows.items()} == {
        "clock": [0],
        "power": [1, 2],
        "load": [],
    }
    assert found[-1][1].tolist() == [8.0]


def loop(begin: int, end: int, steady: int) -> SimpleNamespace:
    """A loop with a steady state."""
    return SimpleNamespace(steady=np.arange(9) < steady, window=lambda: (begin, end))


def test_the_loops_window_is_that_of_every_loop_with_a_steady_state(build) -> None:
    trace = build(
        kernel=[
            kernel(100, 50, correlation=1),
            kernel(200, 50, correlation=2),
            kernel(300, 50, correlation=3),
            kernel(400, 50),
        ],
        launch=[launch(10, 5, 1), launch(20, 5, 2), launch(30, 250, 3)],
    )
    facts = Facts(trace, Rows())
    vars(facts)["iterations"] = [loop(200, 260, 5), loop(150, 301, 5), loop(0, 900, 1)]
    assert facts.loop_window == (150, 301)
    assert facts.host_window == (20, 280)  # the calls of the kernels that begin in it
    assert facts.steady
    bare = Facts(trace, Rows())
    vars(bare)["iterations"] = []
    assert (bare.window, bare.loop_window, bare.length, bare.steady) == ((100, 450), (100, 450), 350, False)
    assert bare.host_window == (10, 280)
    late = Facts(trace, Rows())
    vars(late)["iterations"] = [loop(400, 450, 5)]
    assert late.host_window == (400, 450)  # work without a call says nothing of the host

"""What recording cost: the device that lost the largest part of its time decides."""

from __future__ import annotations

import pytest

from tests.unit.analysis.account.rows import overhead
from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.account.own_cost import OwnCost, own_cost

MEASURED = {"overhead": {"own_flush": 1}}


def test_the_device_that_lost_most_decides(build):
    """Device 0 waits 20 of 1,000 ns for the recorder, device 1 30 of 2,000."""
    trace = build(
        manifest=MEASURED,
        kernel=[kernel(0, 400, correlation=1), kernel(600, 400, correlation=2),
                kernel(0, 900, correlation=3, device=1), kernel(1_500, 500, correlation=4, device=1)],
        launch=[launch(-9, 3, 1), launch(590, 5, 2), launch(-5, 3, 3), launch(1_490, 5, 4)],
        overhead=[overhead(450, 20, "buffer flush"), overhead(1_000, 30, "buffer flush")],
    )  # fmt: skip
    found = own_cost(trace)
    assert found == OwnCost(1_000, 20)
    assert found.longer == pytest.approx(20 / 980)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_its_span_and_its_wait_are_those_of_one_device(build, lost):
    """Each device idles 100 ns in a span of its own; on one of them the recorder worked meanwhile."""
    spans = [1_000, 2_000, 3_000]
    kernels, launches = [], []
    for device, span in enumerate(spans):
        for begin, end, number in ((0, 400, 2 * device), (500, span, 2 * device + 1)):
            kernels.append(kernel(5_000 * device + begin, end - begin, correlation=number, device=device))
            launches.append(launch(5_000 * device + begin - 5, 3, number))
    trace = build(
        manifest=MEASURED,
        kernel=kernels,
        launch=launches,
        overhead=[overhead(5_000 * lost + 410, 30, "buffer flush")],
    )
    assert own_cost(trace) == OwnCost(spans[lost], 30)


def test_without_waiting_there_is_no_cost_and_without_measurement_no_answer(build):
    work = {"kernel": [kernel(0, 400)], "overhead": [overhead(100, 20, "buffer flush")]}
    assert own_cost(build(manifest=MEASURED, **work)) == OwnCost(400, 0)
    assert own_cost(build(manifest={"overhead": {"drain": 1}}, **work)) is None
    assert own_cost(build(**work)) is None
    assert own_cost(build(manifest=MEASURED)) is None


def test_a_run_that_only_waited_is_not_divided_by_zero():
    assert OwnCost(50, 50).longer == 50

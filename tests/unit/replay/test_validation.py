"""Operations are checked against the one before them in their stream, and against what events make them wait for."""

from __future__ import annotations

import numpy as np

from tests.unit.replay.test_schedule import FORKED, capsule, launch
from warpsight.replay.capsule import manifest as m
from warpsight.replay.schedules.sequence import sequence
from warpsight.replay.schedules.validation import OrderCheck, validate


def checked(*operations: m.Operation, times: list[tuple[float, float]]) -> OrderCheck:
    begin, end = np.array(times, float).T
    return validate(sequence(capsule(*operations)), begin, end, 0)


NONE = (float("nan"), float("nan"))


def test_what_keeps_every_order_is_counted() -> None:
    found = checked(*FORKED, times=[(0, 10), NONE, (10, 20), NONE, (10, 15)])
    assert (found.ordered, found.depending, found.violations) == (1, 1, ())


def test_what_begins_too_early_is_named() -> None:
    found = checked(*FORKED, times=[(0, 10), NONE, (9, 20), NONE, (4, 15)])
    assert [(v.kind, v.operation, v.waited_for, v.early_ns) for v in found.violations] == [
        ("order", 2, 0, 1),
        ("dependency", 4, 0, 6),
    ]


def test_an_event_recorded_after_a_wait_hands_the_wait_on() -> None:
    handed = (
        launch(0, 0),
        m.EventRecord(0, 0),
        m.EventWait(1, 0),
        m.EventRecord(1, 1),
        m.EventWait(2, 1),
        launch(2, 1),
    )
    held = capsule(*handed, streams=3)
    begin, end = np.array([(0, 10), NONE, NONE, NONE, NONE, (5, 6)], float).T
    (violation,) = validate(sequence(held), begin, end, 0).violations
    assert (violation.operation, violation.waited_for) == (5, 0)


def test_the_host_that_waits_orders_what_it_launches_later() -> None:
    steps = (launch(0, 0), m.Synchronize(stream=0), launch(1, 1))
    found = checked(*steps, times=[(0, 10), NONE, (5, 6)])
    assert [(v.operation, v.waited_for) for v in found.violations] == [(2, 0)]

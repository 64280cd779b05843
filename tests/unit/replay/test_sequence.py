"""The recorded order is kept without host waits and without a default stream."""

from __future__ import annotations

from typing import Any

import pytest

from warpsight.errors import UsageError
from warpsight.replay.capsule import manifest as m
from warpsight.replay.schedules.sequence import OperationSequence, sequence

DEVICE = m.RecordedDevice("G", (9, 0), 1, 1, 13000)


def of(work: list[Any], streams: list[m.Stream], **part: Any) -> OperationSequence:
    held = m.Manifest(
        format="warpsight capsule", version=1, device=DEVICE, chunk_bytes=4096, streams=streams, events=1,
        allocations=[m.Allocation(1 << 30, 4096, "malloc")], operations=work,
    )  # fmt: skip
    return sequence(held, **part)


def fill(stream: int) -> m.Set:
    return m.Set(stream, 1 << 30, 0, 1, 1)


def order(found: OperationSequence) -> list[set[int]]:
    """Of each operation, those that must have ended before it begins: by streams and events."""
    last: dict[int, set[int]] = {}
    events: dict[int, set[int]] = {}
    before: dict[int, set[int]] = {}
    for step in found.steps:
        done = last.setdefault(step.work.stream, set())
        if isinstance(step.work, m.EventRecord):
            events[step.work.event] = set(done)
        elif isinstance(step.work, m.EventWait):
            done |= events.get(step.work.event, set())
        else:
            assert step.operation is not None
            before[step.operation] = set(done)
            done.add(step.operation)
    return [before.get(i, set()) for i in range(max(before) + 1)]


DEFAULT, BLOCKING, FREE = m.Stream(default=True), m.Stream(), m.Stream(flags=1)


def test_the_default_stream_waits_and_is_waited_for() -> None:
    found = of([fill(1), fill(0), fill(1), fill(2)], [DEFAULT, BLOCKING, FREE])
    assert order(found) == [set(), {0}, {0, 1}, set()]


def test_one_stream_needs_no_events() -> None:
    found = of([fill(0), m.Synchronize(), fill(0)], [DEFAULT])
    assert [type(step.work) for step in found.steps] == [m.Set, m.Set] and found.complete


@pytest.mark.parametrize(
    ("wait", "waited"),
    [(m.Synchronize(), {0, 1}), (m.Synchronize(stream=0), {0}), (m.Synchronize(event=0), {0})],
)
def test_what_the_host_waits_for_comes_first(wait: m.Synchronize, waited: set[int]) -> None:
    found = of([fill(0), fill(1), m.EventRecord(0, 0), wait, fill(2)], [FREE, FREE, FREE])
    assert order(found)[4] == waited


def test_parts() -> None:
    work = [fill(0), fill(1), fill(0)]
    part = of(work, [FREE, FREE], operations=(1, 1))
    assert [s.operation for s in part.steps] == [0, 1] and part.first == 1 and not part.complete
    part = of(work, [FREE, FREE], stream=0)
    assert [s.operation for s in part.steps] == [0, 2] and part.first == 0 and not part.complete
    for wrong in (
        {"operations": (1, 3)},
        {"operations": (2, 1)},
        {"stream": 2},
        {"stream": 1, "operations": (2, 2)},
    ):
        with pytest.raises(UsageError):
            of(work, [FREE, FREE], **wrong)

"""Checks whether operations respected stream order and dependencies, judging by the times at which they ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.replay.capsule import manifest as m
from warpsight.replay.schedules.sequence import OperationSequence as Steps
from warpsight.replay.schedules.sequence import Step

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Violation:
    """An operation that began `early_ns` before another one ended; kind: `order` (of a stream) or `dependency`."""

    kind: str
    operation: int
    waited_for: int
    early_ns: float


@dataclass(frozen=True)
class OrderCheck:
    """The result of a check: the number of pairs of each kind, and the violations."""

    ordered: int
    depending: int
    violations: tuple[Violation, ...]


def validate(steps: Steps, begin: Times, end: Times, tolerance_ns: float) -> OrderCheck:
    """Check every operation against its predecessor in the stream, and against its event waits.

    `begin` and `end` are indexed by operation of the manifest; NaN if it was not timed.
    """
    counts = {"order": 0, "dependency": 0}
    found = []
    for kind, operation, earlier in _pairs(steps.steps):
        early = float(end[earlier] - begin[operation])
        if np.isnan(early):
            continue
        counts[kind] += 1
        if early > tolerance_ns:
            found.append(Violation(kind, operation, earlier, early))
    return OrderCheck(counts["order"], counts["dependency"], tuple(found))


def _pairs(steps: Sequence[Step]) -> Iterator[tuple[str, int, int]]:
    """Each operation with those that must end before it; of several already ordered by a stream, only the last."""
    last: dict[int, int] = {}
    recorded: dict[int, frozenset[int]] = {}
    waiting: dict[int, frozenset[int]] = {}  # per stream, what it has waited for since its last operation
    for step in steps:
        work, operation, stream = step.work, step.operation, step.work.stream
        if isinstance(work, m.EventRecord):
            own = frozenset((last[stream],)) if stream in last else frozenset()
            recorded[work.event] = own | waiting.get(stream, frozenset())
        elif isinstance(work, m.EventWait):
            more = recorded.get(work.event, frozenset()) - {last.get(stream, -1)}
            waiting[stream] = waiting.get(stream, frozenset()) | more
        else:
            assert operation is not None
            if stream in last:
                yield "order", operation, last[stream]
            for earlier in sorted(waiting.pop(stream, ())):
                yield "dependency", operation, earlier
            last[stream] = operation

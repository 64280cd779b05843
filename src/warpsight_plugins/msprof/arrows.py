"""Arrows from calls of CANN to their tasks: timelines of early 2024 join them only by these."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import events, whole

if TYPE_CHECKING:
    from warpsight.formats.source import Source

#: A task, by process, thread and begin.
Task = tuple[Any, Any, int]
_CATEGORY = "HostToDevice"
#: Calls of a thread looked at for the innermost one around an arrow's tail.
_NESTED = 8


def calls_of_tasks(source: Source) -> dict[Task, int]:
    """The connection id of the call behind each arrow's task: the innermost call around the arrow's tail."""
    tails: dict[Any, tuple[Any, int]] = {}
    heads: dict[Any, Task] = {}
    calls: dict[Any, list[tuple[int, int, int]]] = {}
    for event in events(source, None):
        place = event.pid, event.tid
        if event.category == _CATEGORY and event.phase == "s":
            tails[event.id] = place, event.start
        elif event.category == _CATEGORY and event.phase == "f":
            heads[event.id] = (*place, event.start)
        elif event.phase == "X" and "Task Type" not in event.args:
            connection = whole(event.args.get("connection_id"))
            if connection is not None and connection >= 0:
                calls.setdefault(place, []).append((event.start, event.start + event.duration, connection))
    for listed in calls.values():
        listed.sort()
    found = {}
    for number, task in heads.items():
        place, moment = tails.get(number, (None, 0))
        listed = calls.get(place, [])
        at = bisect_right(listed, (moment, moment, 2**63))
        for _, end, connection in reversed(listed[max(at - _NESTED, 0) : at]):
            if end >= moment:
                found[task] = connection
                break
    return found

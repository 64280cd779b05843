"""Streams of the simulated devices: entries are worked off in order, and each one's times follow from what it waits for.

Threads enqueue entries in the order of virtual time, so most are known at once. Those after a collective that not every
member has joined yet stay open, and are settled when the last one joins.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.truth.execution import CallLog, Item
from tests.truth.program import Kernel, Machine, Stream, Work


@dataclass(eq=False)
class _Queue:
    items: list[Item] = field(default_factory=list)
    works: list[Item] = field(default_factory=list)
    settled: int = 0


class Streams:
    """All streams of a program."""

    def __init__(self, machine: Machine, draw: random.Random) -> None:
        self._machine = machine
        self._draw = draw
        self._queues: dict[Stream, _Queue] = {}
        self._meetings: dict[str, list[Item]] = {}
        self._followers: dict[Item, list[_Queue]] = {}
        self._waiting: dict[Item, list[Callable[[], None]]] = {}
        self._starts: set[tuple[int, int]] = set()
        self._number = 0

    def enqueue(
        self,
        call: CallLog,
        stream: Stream,
        arrival: int,
        work: Work | None = None,
        awaited: Item | None = None,
        graph: int | None = None,
    ) -> Item:
        """Add an entry, which reaches the device at `arrival`."""
        self._number += 1
        queue = self._queues.setdefault(stream, _Queue())
        before = queue.items[-1] if queue.items else None
        item = Item(stream, arrival, call, self._number, work, awaited, graph, before=before)
        item.visible = work is None or work.visible
        queue.items.append(item)
        if work is not None:
            queue.works.append(item)
            call.items.append(item)
        self._settle(queue)
        return item

    def blocking(self, stream: Stream, entering: int) -> Item | None:
        """The work that has to end before so many more fit into a stream; None when they fit at any time."""
        works = self._queues[stream].works if stream in self._queues else []
        place = len(works) + entering - self._machine.queue_depth - 1
        return works[min(place, len(works) - 1)] if place >= 0 and works else None

    def last(self, streams: Iterable[Stream]) -> list[Item]:
        """The last entries of some streams."""
        return [self._queues[s].items[-1] for s in streams if s in self._queues]

    def of_device(self, process: int, device: int) -> list[Stream]:
        """The streams that a process uses on a device, so far."""
        return [s for s in self._queues if (s.process, s.device) == (process, device)]

    def items(self) -> list[Item]:
        """All entries, in the order of their calls."""
        found = [item for queue in self._queues.values() for item in queue.items]
        return sorted(found, key=lambda item: item.number)

    def when_known(self, item: Item, then: Callable[[], None]) -> None:
        """Run `then` as soon as the end of an entry is known."""
        if item.end is not None:
            then()
        else:
            self._waiting.setdefault(item, []).append(then)

    def _settle(self, queue: _Queue) -> None:
        todo = deque([queue])
        while todo:
            current = todo.popleft()
            while current.settled < len(current.items) and self._resolve(
                current, current.items[current.settled], todo
            ):
                current.settled += 1

    def _resolve(self, queue: _Queue, item: Item, todo: deque[_Queue]) -> bool:
        """Find the times of an entry whose predecessor is settled; False when it has to stay open."""
        if item.end is not None:
            return True
        if item.start is not None:  # a collective that waits for other members
            return False
        before = item.before.end if item.before else None
        if item.awaited is not None and item.awaited.end is None:
            self._followers.setdefault(item.awaited, []).append(queue)
            return False
        if item.work is None:
            after = item.awaited.end if item.awaited else None
            self._end(item, max(item.arrival, before or 0, after or 0), todo)
            return True
        item.start = item.arrival if before is None else max(item.arrival, before + self._turnaround())
        while (item.stream.device, item.start) in self._starts:  # so that one work ends each idle gap
            item.start += 1
        self._starts.add((item.stream.device, item.start))
        if isinstance(item.work, Kernel) and item.work.meeting is not None:
            return self._meet(item, item.work, item.work.meeting, todo)
        self._end(item, item.start + item.work.ns, todo)
        return True

    def _meet(self, item: Item, work: Kernel, meeting: str, todo: deque[_Queue]) -> bool:
        """Join a collective; the last member lets all of them end."""
        members = self._meetings.setdefault(meeting, [])
        members.append(item)
        if len(members) < work.members:
            return False
        last = max(member.start or 0 for member in members)
        for place, member in enumerate(members):
            self._end(member, last + work.ns + 7 * place, todo)
            todo.append(self._queues[member.stream])
        return True

    def _end(self, item: Item, end: int, todo: deque[_Queue]) -> None:
        item.end = end
        if item.start is None:
            item.start = end
        todo.extend(self._followers.pop(item, ()))
        for then in self._waiting.pop(item, ()):
            then()

    def _turnaround(self) -> int:
        spread = min(0.15, self._machine.jitter)
        return round(self._machine.turnaround_ns * self._draw.uniform(1 - spread, 1 + spread))

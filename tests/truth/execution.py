"""What happened when a program ran: calls, works, scopes and the whole time line of every thread, in virtual nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.truth.program import Program, Scope, Stream, Thread, Work

#: Kinds of calls.
LAUNCH, BLOCKING, OTHER = "launch", "blocking", "other"


@dataclass(eq=False)
class Node:
    """A place in the tree of scopes of a thread: a scope entered from another."""

    scope: Scope | None = None
    parent: Node | None = None
    children: dict[Scope, Node] = field(default_factory=dict)

    def child(self, scope: Scope) -> Node:
        """The node of `scope` entered from here; the same one each time."""
        if scope not in self.children:
            self.children[scope] = Node(scope, self)
        return self.children[scope]

    def path(self) -> tuple[Scope, ...]:
        """All scopes from the outermost inwards."""
        above = self.parent.path() if self.parent else ()
        return (*above, self.scope) if self.scope else above


@dataclass(eq=False)
class CallLog:
    """One API call. `end` is None for a call that never returned; `items` are the works it enqueued."""

    function: str
    kind: str
    begin: int
    end: int | None
    thread: ThreadLog
    correlation: int
    node: Node
    seen: bool = True
    stream: Stream | None = None
    bytes: int | None = None
    waits: str | None = None
    event: Item | None = None
    items: list[Item] = field(default_factory=list)


@dataclass(eq=False)
class Item:
    """One entry of a stream: a work, a recorded event (no work), or a wait for another entry (`awaited`).

    start and end are unknown until everything before it is known.
    """

    stream: Stream
    arrival: int
    call: CallLog
    number: int
    work: Work | None = None
    awaited: Item | None = None
    graph: int | None = None
    start: int | None = None
    end: int | None = None
    before: Item | None = None
    visible: bool = True

    @property
    def times(self) -> tuple[int, int]:
        """Start and end of an entry that is done."""
        assert self.start is not None and self.end is not None
        return self.start, self.end


@dataclass(frozen=True)
class Segment:
    """A piece of a thread's time line: inside a call, in the recorder, or else in the host code of a scope."""

    begin: int
    end: int
    node: Node
    call: CallLog | None = None
    recorder: bool = False


@dataclass(frozen=True)
class Entered:
    """One time that a scope was entered; `end` is None when it was never left."""

    node: Node
    begin: int
    end: int | None
    thread: ThreadLog
    depth: int


@dataclass(frozen=True)
class Overhead:
    """The recorder's own time."""

    begin: int
    end: int
    kind: str
    thread: ThreadLog


@dataclass(eq=False)
class ThreadLog:
    """Everything one thread did."""

    thread: Thread
    segments: list[Segment] = field(default_factory=list)
    entered: list[Entered] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    marks: list[tuple[int, Node]] = field(default_factory=list)
    end: int = 0

    def between(self, begin: int, end: int) -> Iterator[Segment]:
        """The segments that overlap a stretch of time, cut to it."""
        low, high = 0, len(self.segments)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.segments[middle].end <= begin else (low, middle)
        for segment in self.segments[low:]:
            if segment.begin >= end:
                return
            first, last = max(begin, segment.begin), min(end, segment.end)
            if first < last:
                yield Segment(first, last, segment.node, segment.call, segment.recorder)


@dataclass(eq=False)
class Execution:
    """A program that has run. What began before `recorded_from` is not in the trace."""

    program: Program
    threads: list[ThreadLog]
    calls: list[CallLog]
    items: list[Item]
    overheads: list[Overhead]
    recorded_from: int

    @property
    def works(self) -> list[Item]:
        """The device work that a recorder sees, by start."""
        seen = [i for i in self.items if i.work is not None and i.visible and i.start is not None]
        return sorted(seen, key=lambda item: item.times)

    @property
    def end(self) -> int:
        """When the last thread or work was done."""
        ends = [log.end for log in self.threads] + [i.end for i in self.items if i.end is not None]
        return max(ends)

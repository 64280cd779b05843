"""A host thread that takes its steps.

It is a coroutine with a clock of its own. Before it touches what others share it yields, so that all such steps happen in
the order of time; it yields an entry of a stream, or the name of a signal, to wait for it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from tests.truth import program as p
from tests.truth.execution import (
    BLOCKING,
    LAUNCH,
    OTHER,
    CallLog,
    Entered,
    Item,
    Node,
    Overhead,
    Segment,
    ThreadLog,
)

if TYPE_CHECKING:
    from tests.truth.world import World

#: What a thread yields: nothing (its turn in time), an entry whose end it needs, or a signal's name.
Wait = Item | str | None
Steps = Generator[Wait, None, None]


class Running:
    """A thread that runs: its clock, where it is in its scopes, and its log."""

    def __init__(self, world: World, thread: p.Thread) -> None:
        self.world = world
        self.process = thread.process
        self.now = world.program.begin_ns + thread.begin_ns
        self.log = ThreadLog(thread)
        self.finished = False
        self._node = Node()
        self._depth = 0
        self._steps = self._all(thread.steps)

    def advance(self) -> Wait:
        """Go on to the next wait; None and `finished` after the last step."""
        try:
            return next(self._steps)
        except StopIteration:
            self.finished = True
            self.log.end = self.now
            return None

    def _all(self, steps: Iterable[p.Step]) -> Steps:
        for step in steps:
            match step:
                case p.Code():
                    self._spend(step.ns)
                case p.RecorderWork():
                    self._record_overhead(self.now, self.now + step.ns, step.kind)
                    self._spend(step.ns, recorder=True)
                case p.Within():
                    yield from self._within(step)
                case p.IterationBegins():
                    self.log.iterations.append(self.now)
                case p.StepMark():
                    self.log.marks.append((self.now, self._node))
                case p.RecordingBegins():
                    self.world.recorded_from = self.now
                case p.Hang():
                    self._call(step.function, BLOCKING, None)
                    return
                case _:
                    yield None
                    yield from self._shared(step)

    def _shared(self, step: p.Step) -> Steps:
        """Steps that touch streams, events or signals."""
        match step:
            case p.Launch():
                yield from self._launch(step)
            case p.Transfer():
                yield from self._transfer(step)
            case p.Synchronise():
                yield from self._synchronise(step)
            case p.Poll():
                yield from self._poll(step)
            case p.Call():
                yield from self._other_call(step)
            case p.Record():
                call = self._call(step.function, OTHER, step.ns, stream=step.stream)
                call.event = self.world.streams.enqueue(call, step.stream, self.now)
                self.world.events[self.process, step.event] = call.event
            case p.WaitFor():
                call = self._call(step.function, OTHER, step.ns, stream=step.stream)
                call.event = self.world.events[self.process, step.event]
                call.waits = "stream wait event"
                self.world.streams.enqueue(call, step.stream, self.now, awaited=call.event)
            case p.Signal():
                self.world.signal(self.process, step.name, self.now)
            case p.Await():
                yield from self._await(step)

    def _within(self, step: p.Within) -> Steps:
        outer, begin = self._node, self.now
        self._node = outer.child(step.scope)
        self._depth += 1
        node, depth, place = self._node, self._depth, len(self.log.entered)
        self.log.entered.append(Entered(node, begin, None, self.log, depth))
        yield from self._all(step.body)
        self.log.entered[place] = Entered(node, begin, self.now, self.log, depth)
        self._node, self._depth = outer, depth - 1

    def _launch(self, step: p.Launch) -> Steps:
        begin, own = self.now, step.ns + step.load_ns + step.recorder_ns
        end = begin + own
        full = self.world.streams.blocking(step.stream, len(step.works))
        if full is not None:
            if full.end is None:
                yield full
            end = max(end, full.times[1] + step.ns)
        if step.recorder_ns:
            self._record_overhead(end - step.recorder_ns - 1, end - 1, "buffer flush")
        call = self._call(step.function, LAUNCH, end - begin, seen=step.seen, stream=step.stream)
        if step.early:
            arrival = begin + round((end - begin) * self.world.draw.uniform(0.5, 0.9))
        else:
            arrival = end + self.world.around(self.machine.latency_ns)
        for work in step.works:
            self.world.streams.enqueue(call, step.stream, arrival, work, graph=step.graph)

    def _transfer(self, step: p.Transfer) -> Steps:
        submitted = self.now + step.stage_ns + step.ns
        kind = BLOCKING if step.blocking or step.stage_ns else OTHER
        call = self._call(step.function, kind, None, step.seen, step.stream, step.work.bytes)
        arrival = submitted + self.world.around(self.machine.latency_ns)
        item = self.world.streams.enqueue(call, step.stream, arrival, step.work)
        end = submitted
        if step.blocking:
            if item.end is None:
                yield item
            end = max(end, item.times[1] + self.world.around(self.machine.wake_ns) + step.after_ns)
        self._return(call, end)

    def _synchronise(self, step: p.Synchronise) -> Steps:
        kinds = {int: "context", p.Stream: "stream", str: "event"}
        call = self._call(step.function, BLOCKING, None)
        call.waits = kinds[type(step.target)]
        awaited = self._awaited(step.target)
        if isinstance(step.target, p.Stream):
            call.stream = step.target
        elif isinstance(step.target, str):
            call.event = awaited[0] if awaited else None
        end = yield from self._after(awaited, self.now + step.ns)
        self._return(call, end)

    def _poll(self, step: p.Poll) -> Steps:
        item = self.world.events[self.process, step.event]
        if item.end is None:
            yield item
        while True:
            call = self._call(step.function, OTHER, step.ns)
            call.event = item
            if self.now >= item.times[1]:
                return
            self._spend(step.pause_ns)
            yield None

    def _other_call(self, step: p.Call) -> Steps:
        call = self._call(step.function, BLOCKING if step.blocking else OTHER, None, bytes_=step.bytes)
        end = self.now
        if step.waits is not None:
            end = yield from self._after(self._awaited(step.waits), end)
        self._return(call, end + step.ns)

    def _await(self, step: p.Await) -> Steps:
        if self.world.signalled(self.process, step.name) is None:
            yield step.name
        when = self.world.signalled(self.process, step.name)
        assert when is not None
        if when > self.now:
            self._spend(when - self.now + self.world.around(self.machine.wake_ns))

    def _awaited(self, target: int | p.Stream | str) -> list[Item]:
        if isinstance(target, str):
            return [self.world.events[self.process, target]]
        streams = (
            [target] if isinstance(target, p.Stream) else self.world.streams.of_device(self.process, target)
        )
        return self.world.streams.last(streams)

    def _after(self, items: list[Item], end: int) -> Generator[Wait, None, int]:
        """When a call that waits for some entries goes on: at `end`, or woken after the last of them."""
        for item in items:
            if item.end is None:
                yield item
        last = max((item.times[1] for item in items), default=0)
        return end if last <= self.now else max(end, last + self.world.around(self.machine.wake_ns))

    @property
    def machine(self) -> p.Machine:
        return self.world.machine

    def _call(
        self,
        function: str,
        kind: str,
        ns: int | None,
        seen: bool = True,
        stream: p.Stream | None = None,
        bytes_: int | None = None,
    ) -> CallLog:
        """Log a call that begins now; without `ns`, `_return` ends it."""
        correlation = self.world.correlation(self.process)
        call = CallLog(
            function, kind, self.now, None, self.log, correlation, self._node, seen, stream, bytes_
        )
        self.world.calls.append(call)
        if ns is not None:
            self._return(call, self.now + ns)
        return call

    def _return(self, call: CallLog, end: int) -> None:
        call.end = end
        self._spend(end - self.now, call=call)

    def _spend(self, ns: int, call: CallLog | None = None, recorder: bool = False) -> None:
        if ns > 0:
            self.log.segments.append(Segment(self.now, self.now + ns, self._node, call, recorder))
            self.now += ns

    def _record_overhead(self, begin: int, end: int, kind: str) -> None:
        self.world.overheads.append(Overhead(begin, end, kind, self.log))

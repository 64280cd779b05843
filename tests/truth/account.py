"""The account of an execution: every nanosecond of every device, once, cut and classed as ACCOUNT.md defines.

Nothing is looked up in emitted rows. Which call enqueued a work, what its thread did meanwhile, and what its stream waited for
are what the simulated world did.

Where the definitions leave room, a piece has other classes beside its own (`also`) that are as right: the first moments of a long
wait of a stream may be its launch's usual latency, and a wait between one and a half and four times as long as usual is either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.truth.execution import BLOCKING, CallLog, Execution, Item, Node, Segment
from tests.truth.execution import LAUNCH as CALL_LAUNCH
from tests.truth.program import Copy, Fill, Kernel

COMPUTE, COMMUNICATION, COPY = "compute", "communication", "copy"
LAUNCH, BLOCKED, HOST, OTHER_STREAM, RECORDER, UNKNOWN = (
    "launch",
    "blocked_call",
    "host",
    "other_stream",
    "recorder",
    "unknown",
)
BUSY = (COMPUTE, COMMUNICATION, COPY)
IDLE = (LAUNCH, BLOCKED, HOST, OTHER_STREAM, RECORDER, UNKNOWN)
#: A start so many times the usual latency after its call is surely on time, or surely not.
SURELY_SHORT, SURELY_LONG = 1.5, 4.0


@dataclass(frozen=True)
class Piece:
    """A stretch of a device's time.

    names: every name that is as right; the first one is the account's.
    node: for host time, where the thread was in its scopes.
    """

    device: int
    begin: int
    end: int
    cls: str
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    node: Node | None = None

    @property
    def ns(self) -> int:
        """Length."""
        return self.end - self.begin


def pieces(execution: Execution) -> list[Piece]:
    """The account, device by device, in order of time and without a hole."""
    by_device: dict[int, list[Item]] = {}
    for item in execution.works:
        by_device.setdefault(item.stream.device, []).append(item)
    return [piece for works in by_device.values() for piece in _Account(execution, works).pieces()]


class _Account:
    """The account of one device; `works` by start."""

    def __init__(self, execution: Execution, works: list[Item]) -> None:
        self.works = works
        self.device = works[0].stream.device
        self.usual = execution.program.machine.latency_ns
        self.overheads = execution.overheads

    def pieces(self) -> Iterator[Piece]:
        """Busy pieces between all starts and ends; gaps where nothing runs."""
        moments = sorted({moment for item in self.works for moment in item.times})
        running: list[Item] = []
        place = 0
        for begin, end in pairwise(moments):
            running = [item for item in running if item.times[1] > begin]
            while place < len(self.works) and self.works[place].times[0] <= begin:
                if self.works[place].times[1] > begin:
                    running.append(self.works[place])
                place += 1
            if running:
                yield self._busy(begin, end, running)
            else:
                yield from self._gap(begin, end, self.works[place])

    def _busy(self, begin: int, end: int, running: list[Item]) -> Piece:
        kernels = [item.work for item in running if isinstance(item.work, Kernel)]
        computing = [kernel.name for kernel in kernels if not kernel.collective]
        if computing:
            return Piece(self.device, begin, end, COMPUTE, tuple(dict.fromkeys(computing)))
        if kernels:
            names = tuple(dict.fromkeys(kernel.name for kernel in kernels))
            return Piece(self.device, begin, end, COMMUNICATION, names)
        return Piece(
            self.device, begin, end, COPY, tuple(dict.fromkeys(_copy_name(item) for item in running))
        )

    def _gap(self, begin: int, end: int, following: Item) -> Iterator[Piece]:
        """Cut the idle time before a work along the call that enqueued it."""
        call = following.call
        if not call.seen:
            yield Piece(self.device, begin, end, UNKNOWN)
            return
        returned = call.end if call.end is not None else end
        first, second = (max(begin, min(end, moment)) for moment in (call.begin, returned))
        yield from self._before(begin, first, call)
        yield from self._less_recorder(Piece(self.device, first, second, LAUNCH, (call.function,)), call)
        for piece in self._starting(second, end, following):
            yield from self._less_recorder(piece, call)

    def _before(self, begin: int, end: int, call: CallLog) -> Iterator[Piece]:
        """What the launching thread did until the call."""
        moment = begin
        for segment in call.thread.between(begin, end):
            if segment.begin > moment:
                yield Piece(self.device, moment, segment.begin, HOST)
            moment = segment.end
            if segment.recorder:
                yield Piece(self.device, segment.begin, segment.end, RECORDER)
                continue
            yield from self._less_recorder(self._doing(segment), call)
        if moment < end:
            yield Piece(self.device, moment, end, HOST)

    def _doing(self, segment: Segment) -> Piece:
        """A stretch of a thread that was not in the recorder."""
        call = segment.call
        if call is not None and call.kind == BLOCKING:
            return Piece(self.device, segment.begin, segment.end, BLOCKED, (call.function,))
        # The launch of other work is the host's doing like any other; one that takes long may as well count as a call that does.
        long = call is not None and call.kind == CALL_LAUNCH and (call.end or 0) - call.begin > 50_000
        also = (BLOCKED, LAUNCH) if long else ()
        return Piece(self.device, segment.begin, segment.end, HOST, also=also, node=segment.node)

    def _starting(self, begin: int, end: int, following: Item) -> Iterator[Piece]:
        """The time between the return of the call and the start of its work."""
        name = (following.call.function,)
        length = end - begin
        why = _held_by(following)
        if length <= SURELY_SHORT * self.usual or why == LAUNCH:
            yield Piece(self.device, begin, end, LAUNCH, name)
        elif length < SURELY_LONG * self.usual:
            yield Piece(self.device, begin, end, why, also=(LAUNCH,))
        else:
            usual = begin + round(SURELY_SHORT * self.usual)
            yield Piece(self.device, begin, usual, why, also=(LAUNCH,))
            yield Piece(self.device, usual, end, why)

    def _less_recorder(self, piece: Piece, call: CallLog) -> Iterator[Piece]:
        """A piece, cut where the recorder says that it took the time of the launching thread."""
        moment = piece.begin
        for overhead in self.overheads:
            begin, end = max(moment, overhead.begin), min(piece.end, overhead.end)
            if overhead.thread is not call.thread or begin >= end:
                continue
            if moment < begin:
                yield _part(piece, moment, begin)
            yield Piece(self.device, begin, end, RECORDER)
            moment = end
        if moment < piece.end:
            yield _part(piece, moment, piece.end)


def _part(piece: Piece, begin: int, end: int) -> Piece:
    return Piece(piece.device, begin, end, piece.cls, piece.names, piece.also, piece.node)


def _copy_name(item: Item) -> str:
    if isinstance(item.work, Copy):
        return f"Memcpy {item.work.kind}"
    assert isinstance(item.work, Fill)
    return "Memset"


def _held_by(item: Item) -> str:
    """Why a work did not start before: `other_stream`, `unknown`, or `launch` where it only had to arrive."""
    before = item.before
    start, _ = item.times
    # Works that would start together start a few nanoseconds after each other.
    if before is None or start <= item.arrival + 10:
        return LAUNCH
    while before is not None and before.work is None:
        reached = max(before.arrival, (before.before.end or 0) if before.before else 0)
        if before.awaited is not None and (before.awaited.end or 0) > reached:
            return OTHER_STREAM if before.call.seen else UNKNOWN
        if before.arrival >= ((before.before.end or 0) if before.before else 0):
            return LAUNCH
        before = before.before
    return LAUNCH if before is None or before.visible else UNKNOWN

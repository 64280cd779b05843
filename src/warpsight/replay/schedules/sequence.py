"""The operations of a capsule as a device executes them: no host waits, no default stream.

Host waits and the default stream's implicit waits become events, so that a replay keeps the recorded order however fast it
issues. An example with a default stream (0) and a blocking stream (1)::

    launch on 1, launch on 0      ->  launch on 1, record e on 1, wait for e on 0, launch on 0
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from warpsight.errors import UsageError
from warpsight.replay.capsule import manifest as m

_NON_BLOCKING = 1
#: Events that a replay makes at most.
_MOST_EVENTS = 1 << 19


@dataclass(frozen=True)
class Step:
    """One thing to issue; `operation`: its position in the manifest, None for an added event."""

    work: m.Launch | m.Copy | m.Set | m.GraphLaunch | m.EventRecord | m.EventWait
    operation: int | None


@dataclass(frozen=True)
class OperationSequence:
    """What is replayed.

    Attributes:
        steps: in order. first: steps before it only prepare the memory.
        events: how many event numbers they use.
        complete: whether it includes every operation, so that the memory ends as recorded.
        streams: the streams that the steps use.
    """

    steps: tuple[Step, ...]
    first: int
    events: int
    complete: bool
    streams: tuple[m.Stream, ...] = (m.Stream(),)


@dataclass
class _Streams:
    """The streams in use, and the part of their work that no other stream has waited for yet."""

    manifest: m.Manifest
    used: list[int]
    events: int
    behind: set[tuple[int, int]] = field(
        default_factory=set
    )  # (stream, other stream with work it must wait for)

    def waits(self, waiting: int, on: int) -> Iterator[Step]:
        """Make `waiting` wait for all work of `on`."""
        if waiting == on:
            return
        event, self.events = self.events, self.events + 1
        yield Step(m.EventRecord(on, event), None)
        yield Step(m.EventWait(waiting, event), None)

    def implicit(self, stream: int) -> Iterator[Step]:
        """The default stream's implicit waits of a stream before it gets more work."""
        for other in self.used:
            if (stream, other) in self.behind:
                self.behind.discard((stream, other))
                yield from self.waits(stream, other)
        for other in self.used:
            if other != stream and self._ordered(stream, other):
                self.behind.add((other, stream))

    def _ordered(self, one: int, other: int) -> bool:
        streams = self.manifest.streams
        if not (streams[one].default or streams[other].default):
            return False
        rest = other if streams[one].default else one
        return streams[rest].default or not streams[rest].flags & _NON_BLOCKING

    def host_wait(self, work: m.Synchronize) -> Iterator[Step]:
        """Make all later work come after the work that the host waited for."""
        if work.event is not None:
            yield from (Step(m.EventWait(stream, work.event), None) for stream in self.used)
            return
        hub = self.used[0] if work.stream is None else work.stream
        if work.stream is None:
            for stream in self.used:
                yield from self.waits(hub, stream)
        if hub in self.used:
            for stream in self.used:
                yield from self.waits(stream, hub)


def sequence(
    manifest: m.Manifest, operations: tuple[int, int] | None = None, stream: int | None = None
) -> OperationSequence:
    """The steps of a capsule, or of a part of it.

    Args:
        manifest: the checked manifest.
        operations: the first and the last operation to time; earlier operations run too, because of the memory they write.
        stream: leave out the work of every other stream.

    Raises:
        UsageError: when the part is empty or beyond the capsule.
    """
    count = len(manifest.operations)
    first, last = operations or (0, count - 1)
    if first > last or last >= count:
        raise UsageError(f"operations {first}..{last}: the capsule has operations 0 to {count - 1}")
    chosen = [(i, work) for i, work in enumerate(manifest.operations[: last + 1])]
    if stream is not None:
        if stream >= len(manifest.streams):
            raise UsageError(f"stream {stream}: the capsule has streams 0 to {len(manifest.streams) - 1}")
        chosen = [(i, work) for i, work in chosen if work.stream == stream]
    used = sorted({work.stream for _, work in chosen if work.stream is not None}) or [0]
    streams = _Streams(manifest, used, manifest.events)
    steps: list[Step] = []
    begin = 0
    for i, work in chosen:
        steps += _steps(i, work, streams)
        if streams.events - manifest.events > _MOST_EVENTS:
            raise UsageError(
                f"streams wait for each other more than {_MOST_EVENTS:,} times: choose a part with --operations or --stream"
            )
        if i < first:
            begin = len(steps)
    if not any(step.operation is not None and step.operation >= first for step in steps):
        raise UsageError("there is nothing to replay: the selection has no operation of the capsule")
    complete = stream is None and last == count - 1
    return OperationSequence(
        tuple(steps), begin, streams.events, complete, tuple(manifest.streams) or (m.Stream(),)
    )


def _steps(i: int, work: m.Operation, streams: _Streams) -> Iterable[Step]:
    if isinstance(work, m.Synchronize):
        return streams.host_wait(work) if len(streams.used) > 1 else ()
    return [*streams.implicit(work.stream), Step(work, i)]

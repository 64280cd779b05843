"""Other schedules for a capsule's operations: streams merged or split, other priorities and orders, work left out.

The recorded order stays, except where a change says otherwise: kernels in a separate stream begin without waiting for their
original stream. The outputs tell whether the program allows that.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from warpsight.errors import UsageError
from warpsight.replay import script
from warpsight.replay.capsule import manifest as m
from warpsight.replay.outcome import title
from warpsight.replay.schedules.sequence import OperationSequence as Steps
from warpsight.replay.schedules.sequence import Step
from warpsight.simulate import change as what_if

#: Changes that only a replay makes; the others are those of `simulate`.
OWN = {
    "merge": "all operations in one stream",
    "interleave": "streams issue in turn, one operation each",
    "priority": "streams with kernels whose name matches have the highest priority",
}
_COPIES = "copies"
_HIGHEST = -5


@dataclass(frozen=True)
class Schedule:
    """A changed schedule; `predictable`: `simulate` supports the change. For flags see :mod:`.script`."""

    text: str
    steps: Steps
    flags: int = 0
    predictable: bool = True


def changed(manifest: m.Manifest, steps: Steps, text: str) -> Schedule:
    """The steps after a change.

    Raises:
        UsageError: when it is not a change, is one that a replay cannot make, or matches nothing.
    """
    subject, _, pattern = text.partition(":")
    if subject in OWN:
        return Schedule(text, _own(manifest, steps, subject, pattern), predictable=False)
    change = what_if.parse(text)
    chosen = _chosen(manifest, steps, change)
    if change.subject == "graphs" and not change.pattern:
        return Schedule(text, steps, script.GRAPH)
    if change.subject in ("streams", "overlap"):
        return Schedule(text, _aside(steps, chosen))
    if change.subject in ("kernel", "copy") and change.nanoseconds == 0:
        kept = [i for i in range(len(steps.steps)) if i not in chosen]
        first = sum(i < steps.first for i in kept)
        left = replace(steps, steps=tuple(steps.steps[i] for i in kept), first=first, complete=False)
        return Schedule(text, left)
    raise UsageError(
        f"{text!r} cannot be measured: a replay makes streams:NAME, overlap:copies, graphs, kernel:NAME=none, copy:KIND=none, "
        f"{', '.join(OWN)}"
    )


def _chosen(manifest: m.Manifest, steps: Steps, change: what_if.Change) -> set[int]:
    """The steps that a change names."""
    if change.subject == "graphs":
        return set()
    copies = change.subject == "copy" or (change.subject == "overlap" and change.pattern == _COPIES)
    kinds = (m.Copy, m.Set) if copies else (m.Launch,)
    everything = change.pattern in ("", _COPIES) and copies
    found = {
        i
        for i, step in enumerate(steps.steps)
        if isinstance(step.work, kinds) and (everything or change.matches(title(manifest, step.work)))
    }
    if not found:
        raise UsageError(
            f"{change.text!r} matches no operation of the capsule (work inside a graph stays there)"
        )
    return found


def _aside(steps: Steps, chosen: set[int]) -> Steps:
    """Move the chosen steps of each stream to one of their own. Whoever waits for the stream waits for both."""
    apart: dict[int, int] = {}
    twins: dict[int, int] = {}
    made: list[Step] = []
    streams, events, first = list(steps.streams), steps.events, steps.first
    for i in sorted(chosen):
        stream = steps.steps[i].work.stream
        if stream not in apart:
            apart[stream] = len(streams)
            streams.append(msgspec.structs.replace(streams[stream], default=False))
    for i, step in enumerate(steps.steps):
        stream = step.work.stream
        if i == steps.first:
            first = len(made)
        made.append(_on(step, apart[stream]) if i in chosen else step)
        if isinstance(step.work, m.EventRecord) and stream in apart:
            twins[step.work.event], events = events, events + 1
            made.append(Step(m.EventRecord(apart[stream], twins[step.work.event]), None))
        elif isinstance(step.work, m.EventRecord):
            twins.pop(step.work.event, None)
        elif isinstance(step.work, m.EventWait):
            waits = [s for s in (stream, apart.get(stream)) if s is not None]
            seen = [e for e in (step.work.event, twins.get(step.work.event)) if e is not None]
            made += [
                Step(m.EventWait(s, e), None)
                for s in waits
                for e in seen
                if (s, e) != (stream, step.work.event)
            ]
    return replace(steps, steps=tuple(made), first=first, events=events, streams=tuple(streams))


def _own(manifest: m.Manifest, steps: Steps, subject: str, pattern: str) -> Steps:
    if subject == "merge":
        work = [
            (i, s) for i, s in enumerate(steps.steps) if not isinstance(s.work, (m.EventRecord, m.EventWait))
        ]
        first = sum(i < steps.first for i, _ in work)
        return replace(steps, steps=tuple(_on(s, 0) for _, s in work), first=first, streams=steps.streams[:1])
    if subject == "interleave":
        lead, rest = steps.steps[: steps.first], steps.steps[steps.first :]
        return replace(steps, steps=(*lead, *_in_turn(rest)))
    if not pattern:
        raise UsageError(f"{subject!r} needs a name: {subject}:NAME")
    try:
        named = re.compile(pattern, re.IGNORECASE)
    except re.error as problem:
        raise UsageError(f"{subject}:{pattern}: not a regular expression: {problem}") from None
    urgent = {
        s.work.stream
        for s in steps.steps
        if isinstance(s.work, m.Launch) and named.search(title(manifest, s.work))
    }
    if not urgent:
        raise UsageError(f"{subject}:{pattern} matches no operation of the capsule")
    streams = (
        msgspec.structs.replace(s, priority=_HIGHEST if i in urgent else 0)
        for i, s in enumerate(steps.streams)
    )
    return replace(steps, streams=tuple(streams))


def _in_turn(steps: Sequence[Step]) -> Iterator[Step]:
    """One step of each stream after the other; a wait comes after its record, and an event's records keep their order."""
    queues: dict[int, deque[int]] = {}
    needed: list[int | None] = []
    latest: dict[int, int] = {}
    users: dict[int, list[int]] = {}
    before: list[list[int]] = []
    for i, step in enumerate(steps):
        queues.setdefault(step.work.stream, deque()).append(i)
        needed.append(latest.get(step.work.event) if isinstance(step.work, m.EventWait) else None)
        before.append([])
        if isinstance(step.work, m.EventRecord):
            before[i] = users.pop(step.work.event, [])
            latest[step.work.event] = i
        if isinstance(step.work, (m.EventRecord, m.EventWait)):
            users.setdefault(step.work.event, []).append(i)
    done: set[int] = set()
    while any(queues.values()):
        for queue in queues.values():
            if not queue:
                continue
            i = queue[0]
            if (needed[i] is None or needed[i] in done) and done.issuperset(before[i]):
                done.add(queue.popleft())
                yield steps[i]


def _on(step: Step, stream: int) -> Step:
    return replace(step, work=msgspec.structs.replace(step.work, stream=stream))

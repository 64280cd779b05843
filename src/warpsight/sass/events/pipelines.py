"""Pipelines of copies and matrix products: what each warp of a block issued, arrived at and waited for, over time.

A wait at an mbarrier begins with the wait itself or its first failed attempt, and ends with the successful attempt. Copies belong
to the next wait of their block that ends.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from warpsight.errors import UsageError
from warpsight.formats.events.kinds import BY_NAME, CLASSES, KINDS, TENSOR_COPY
from warpsight.formats.events.records import Events
from warpsight.formats.events.tensor_copies import CopyReader, TensorCopy
from warpsight.sass.events.tensor_copies import copies_of, what_of
from warpsight.sass.events.trace import EventTrace, TracedLaunch

_FOLLOWED = tuple(
    kind.number for name in ("mbarrier", "tma", "cluster", "wgmma", "tcgen05") for kind in CLASSES[name]
) + tuple(BY_NAME[name].number for name in ("copy_async", "barrier", "barrier_release", "tensor_copy"))
_MBARRIER = (BY_NAME["mbarrier"].number, BY_NAME["mbarrier_attempt"].number)
_BULK = tuple(kind.number for kind in CLASSES["tma"])
#: A block with one of these has a pipeline.
_ENOUGH = (*_MBARRIER, *_BULK, *(BY_NAME[name].number for name in ("wgmma", "copy_async", "tensor_copy")))
_ACTIONS = {1: "init", 2: "arrive", 3: "arrive and drop", 4: "arrive, expecting", 5: "arrive and drop, expecting",
            6: "wait", 7: "invalidate"}  # fmt: skip
_SUCCEEDED, _WAIT = 128, 6
_BLOCK_BYTES = 16


@dataclass(frozen=True)
class PipelineEvent:
    """One event of a warp.

    Attributes:
        time, duration: time in ns since the launch's first event; duration of a wait in ns, otherwise 0.
        warp: warp of the block; what: `wait`, `arrive`, `bulk_load`, …; bytes: bytes copied.
        address: address of the mbarrier or in shared memory; where: instruction and line; copies: copies issued before a wait and
            not waited for yet, as (number, bytes, ns from the first to the wait's end).
        copy: operands of a copy that NVBit recorded.
    """

    time: int
    duration: int
    warp: int
    what: str
    bytes: int
    address: int
    where: str
    copies: tuple[int, int, int] | None = None
    copy: TensorCopy | None = None


@dataclass(frozen=True)
class BlockPipeline:
    """The events of one block, in order.

    Attributes:
        kernel, launch, block: the block's identity; events: all its events.
        waited: total ns that its warps waited at mbarriers; phases: successful waits by mbarrier address.
    """

    kernel: str
    launch: int
    block: int
    events: tuple[PipelineEvent, ...]
    waited: int
    phases: dict[int, int]

    @property
    def copied(self) -> int:
        """Bytes that bulk and asynchronous copies move."""
        return sum(event.bytes for event in self.events)

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {**asdict(self), "copied": self.copied, "phases": {hex(k): n for k, n in self.phases.items()}}


def pipelines(
    trace: EventTrace, launch: int | None = None, block: int | None = None, reader: CopyReader | None = None
) -> list[BlockPipeline]:
    """The blocks with such events, longest total wait first. `reader` decodes copies that NVBit recorded.

    Raises:
        UsageError: when the trace has none.
    """
    found = []
    reading = reader or CopyReader(trace.tensor_maps)
    for own in trace.launches.values():
        if launch is not None and own.number != launch:
            continue
        events = trace.of_launch(own.number)
        events = events.take(np.isin(events.kind, _FOLLOWED))
        for number in np.unique(events.block).tolist():
            if block is None or number == block:
                made = _of_block(
                    trace, own, events.take(np.flatnonzero(events.block == number)), number, reading
                )
                if made is not None:
                    found.append(made)
    if not found:
        ends = f" ({'; '.join(trace.notes)})" if trace.notes else ""
        raise UsageError(
            f"{trace.name} has no copies, mbarriers or matrix products there{ends}; record with "
            "--events tma,mbarrier,barriers,cluster,wgmma, or with NVBit tensor-copies"
        )
    return sorted(found, key=lambda one: (-one.waited, one.launch, one.block))


def _of_block(
    trace: EventTrace, launch: TracedLaunch, events: Events, number: int, reader: CopyReader
) -> BlockPipeline | None:
    if not np.isin(events.kind, _ENOUGH).any():
        return None
    rows = np.flatnonzero(events.kind == TENSOR_COPY.number)
    recorded = dict(zip(rows.tolist(), copies_of(trace, launch, events.take(rows), reader), strict=True))
    begin = int(events.time.min())
    first, second = events.first_operand(0).tolist(), events.first_operand(1).tolist()
    lanes = events.active.sum(axis=1).tolist()
    where = [trace.describe(place) for place in trace.places(launch, events.pc)]
    made: list[PipelineEvent] = []
    waits: dict[tuple[int, int], int] = {}
    phases: dict[int, int] = defaultdict(int)
    pending: list[tuple[int, int]] = []
    columns = (events.kind, events.flags, events.size, events.warp, events.time)
    for at, (kind, flags, size, warp, time) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        now, name = time - begin, KINDS[kind].name
        if kind in _MBARRIER:
            address, action = first[at] & 0xFFFFFF, flags & 127
            if action == _WAIT:
                waits.setdefault((warp, address), now)
                if flags & _SUCCEEDED:
                    since = waits.pop((warp, address))
                    phases[address] += 1
                    made.append(
                        PipelineEvent(
                            since, now - since, warp, "wait", 0, address, where[at], _copies(pending, now)
                        )
                    )
            elif name == "mbarrier":
                made.append(PipelineEvent(now, 0, warp, _ACTIONS.get(action, name), 0, address, where[at]))
            continue
        if at in recorded:
            made.append(_recorded(recorded[at], now, warp, where[at], pending))
            continue
        copied, address = _copied(name, first[at], second[at], size, lanes[at])
        if copied:
            pending.append((now, copied))
        made.append(PipelineEvent(now, 0, warp, name, copied, address, where[at]))
    for (warp, address), since in waits.items():
        last = int(events.time.max()) - begin
        made.append(PipelineEvent(since, last - since, warp, "wait without end", 0, address, ""))
    waited = sum(one.duration for one in made)
    ordered = tuple(sorted(made, key=lambda one: (one.time, one.warp)))
    return BlockPipeline(launch.name, launch.number, number, ordered, waited, dict(phases))


def _recorded(
    copy: TensorCopy, now: int, warp: int, where: str, pending: list[tuple[int, int]]
) -> PipelineEvent:
    """A copy that NVBit recorded; one that completes on an mbarrier is pending."""
    own = copy.operands
    if own is not None and own.barrier is not None:
        pending.append((now, copy.bytes or 0))
    address = (own.shared_address or 0) if own else 0
    return PipelineEvent(now, 0, warp, what_of(copy), copy.bytes or 0, address, where, copy=copy)


def _copied(name: str, first: int, second: int, size: int, lanes: int) -> tuple[int, int]:
    """Bytes that an event copies, and the shared address."""
    if name.startswith("bulk"):
        return (second >> 32 & 0xFFFF) * _BLOCK_BYTES, second & 0xFFFFFFFF
    if name == "memset_shared":
        return second * _BLOCK_BYTES, first
    if name == "copy_async":
        return size * lanes, second & 0xFFFFFFFF
    return (size * lanes if name in ("store_async", "reduce_async") else 0), first & 0xFFFFFFFF


def _copies(pending: list[tuple[int, int]], now: int) -> tuple[int, int, int] | None:
    """Remove and return the copies that no earlier wait has completed."""
    if not pending:
        return None
    found = len(pending), sum(bytes_ for _, bytes_ in pending), now - pending[0][0]
    pending.clear()
    return found

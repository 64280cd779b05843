"""Memory use of whole kernels: working sets, needless loads and stores, and lines falsely shared by blocks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.records import Events
from warpsight.sass.events.dataflow import last_writes
from warpsight.sass.events.memory import SECTOR
from warpsight.sass.events.trace import EventTrace, TracedLaunch
from warpsight.sass.races.accesses import Accesses, accesses

Array = npt.NDArray[Any]
#: Bytes of a cache line.
LINE = 128


@dataclass(frozen=True)
class MemoryUse:
    """A launch's use of one memory; all counts are in bytes.

    Attributes:
        kernel, launch, space: the launch and the memory.
        working_set: distinct bytes accessed; of_block: the same per block, on average; sectors: distinct sectors of 32 bytes.
        loaded, stored: total bytes loaded and stored.
        reloaded: bytes loaded by a thread that had loaded or stored them, without a store by others in between.
        overwritten: bytes stored and stored again without a load in between.
        silent: bytes stored over the same value; None if the trace has no values.
        falsely_shared: lines of 128 bytes that several blocks access, at least one of them writing, although they share no byte.
        shared_lines: lines that several blocks access and at least one writes.
    """

    kernel: str
    launch: int
    space: str
    working_set: int
    of_block: float
    sectors: int
    loaded: int
    stored: int
    reloaded: int
    overwritten: int
    silent: int | None
    falsely_shared: int
    shared_lines: int

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return asdict(self)


def uses(trace: EventTrace) -> list[MemoryUse]:
    """Every launch's use of global and of shared memory, largest working set first."""
    found = []
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        own = accesses(trace, launch, events)
        values = _values(events, own) if events.has_values.any() else None
        for shared in (False, True):
            rows = np.flatnonzero(own.shared == shared)
            if len(rows):
                found.append(_use(launch, own, rows, values, shared))
    return sorted(found, key=lambda use: (-use.working_set, use.launch, use.space))


def _use(launch: TracedLaunch, own: Accesses, rows: Array, values: Array | None, shared: bool) -> MemoryUse:
    """Use of the rows of one memory; places of the two never mix, so neighbors in time stay neighbors."""
    loads, stores = ~own.write[rows], own.write[rows]
    writer = last_writes(own)
    reloaded = _reloaded(own, writer)[rows] & loads
    following = np.append(rows[1:], -1)
    same = (following >= 0) & (own.place[rows] == own.place[following])
    overwritten = stores & same & own.write[following] & ~own.atomic[following]
    silent = None
    if values is not None:
        before = writer[rows]
        known = stores & ~own.atomic[rows] & (before >= 0) & (values[rows] >= 0)
        silent = int((known & (values[rows] == values[before])).sum()) * own.granule
    granule = own.granule
    places = np.unique(own.place[rows])
    of_blocks = np.unique(np.stack([own.block[rows], own.place[rows]], axis=1), axis=0)
    falsely, lines = (0, 0) if shared else _lines(own, rows)
    owner = own.block[rows] if shared else np.zeros(len(rows), np.int64)
    sectors = np.unique(
        np.stack([owner, (own.address[rows] // np.uint64(SECTOR)).astype(np.int64)], axis=1), axis=0
    )
    return MemoryUse(
        launch.name, launch.number, "shared" if shared else "global", len(places) * granule,
        len(of_blocks) * granule / len(np.unique(own.block[rows])), len(sectors), int(loads.sum()) * granule,
        int(stores.sum()) * granule, int(reloaded.sum()) * granule, int(overwritten.sum()) * granule, silent, falsely, lines,
    )  # fmt: skip


def _reloaded(own: Accesses, writer: Array) -> Array:
    """Whether the same thread accessed the piece earlier, but not before the last write to it."""
    who = own.block * (int(own.thread.max(initial=0)) + 1) + own.thread
    order = np.lexsort((np.arange(len(own)), who, own.place))
    before = np.full(len(own), -1)
    same = (own.place[order][1:] == own.place[order][:-1]) & (who[order][1:] == who[order][:-1])
    before[order[1:][same]] = order[:-1][same]
    return np.asarray((before >= 0) & (before >= writer))


def _lines(own: Accesses, rows: Array) -> tuple[int, int]:
    """Lines accessed by several blocks, one of them writing: those without a shared byte, and all."""
    line = own.address[rows] // np.uint64(LINE)
    _, of_line = np.unique(line, return_inverse=True)
    mixed = _contended(of_line.ravel(), own.block[rows], own.write[rows])
    _, of_place = np.unique(own.place[rows], return_inverse=True)
    truly = _contended(of_place.ravel(), own.block[rows], own.write[rows])
    with_shared_bytes = np.unique(of_line.ravel()[truly[of_place.ravel()]])
    return int(mixed.sum()) - len(with_shared_bytes), int(mixed.sum())


def _contended(group: Array, block: Array, write: Array) -> Array:
    """Which groups contain accesses from two blocks and a write."""
    count = int(group.max(initial=-1)) + 1
    pairs = np.unique(np.stack([group, block], axis=1), axis=0)
    return np.asarray(
        (np.bincount(pairs[:, 0], minlength=count) > 1) & (np.bincount(group[write], minlength=count) > 0)
    )


def _values(events: Events, own: Accesses) -> Array:
    """The value of each piece, -1 if unknown."""
    found = np.full(len(own), -1, np.int64)
    known = events.has_values[own.instruction] & ~own.asynchronous
    rows = np.flatnonzero(known)
    if not len(rows):
        return found
    needed, at = np.unique(own.instruction[rows], return_inverse=True)
    taken = events.take(needed)
    value, first = taken.values(), taken.operand(0)
    lane = own.lane[rows]
    own_values, begin = value[at.ravel(), lane], first[at.ravel(), lane]
    begin = np.where(own.shared[rows], begin & np.uint64(0xFFFFFF), begin)
    byte = own.address[rows] - begin // np.uint64(own.granule) * np.uint64(own.granule)
    half = (byte >= 8).astype(np.int64)
    word = np.take_along_axis(own_values, half[:, None], axis=1)[:, 0]
    bits = np.uint64(8 * own.granule)
    found[rows] = (
        word >> (byte % np.uint64(8) * np.uint64(8)) & ((np.uint64(1) << bits) - np.uint64(1))
    ).astype(np.int64)
    return found

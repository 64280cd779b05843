"""The accesses of a launch, one row per lane and piece of memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.formats.events.kinds import BY_NAME, READ, WRITE
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.sass.races.async_reads import async_reads
from warpsight.sass.races.compare_and_swap import expected_loads

Array = npt.NDArray[Any]
#: Scopes of atomics and fences, and whom they reach.
NO_SCOPE, BLOCK, CLUSTER, DEVICE, SYSTEM = 0, 1, 2, 3, 4
_SCOPE = re.compile(r"\.(?:STRONG|SC|ALL)\.(CTA|SM|VC|GPU|SYS)")
_SCOPES = {"CTA": BLOCK, "SM": BLOCK, "VC": CLUSTER, "GPU": DEVICE, "SYS": SYSTEM}
GLOBAL, SHARED = BY_NAME["global"].number, BY_NAME["shared"].number
_GENERIC = -2
_RECORDED = (GLOBAL, SHARED, BY_NAME["matrix"].number)


@dataclass(frozen=True)
class Accesses:
    """Rows in the order of `place`, then of time.

    Attributes:
        event: row of the launch's events; instruction: the same, except for reads that end after they begin.
        lane, thread: lane, and thread of the block (warp × 32 + lane); block: block of the grid.
        place: number of the piece of memory (shared memory: of each block).
        write, scope: whether it writes; scope of an atomic or strong access, 0 for a plain one.
        atomic: whether it reads and writes atomically.
        address: address of the piece; granule: bytes per piece.
        over: as in :class:`~warpsight.sass.races.async_reads.AsyncReads`, smaller for other accesses.
    """

    event: Array
    instruction: Array
    lane: Array
    thread: Array
    block: Array
    place: Array
    write: Array
    scope: Array
    atomic: Array
    address: Array
    shared: Array
    over: Array
    granule: int

    @property
    def asynchronous(self) -> Array:
        """Reads by the async proxy."""
        return np.asarray(self.over > _GENERIC)

    @property
    def product(self) -> Array:
        """Reads by matrix products."""
        return np.asarray(self.over >= 0)

    @property
    def ends(self) -> Array:
        """The ends of the reads by matrix products."""
        return np.asarray(self.product & (self.over == self.event))

    def __len__(self) -> int:
        return len(self.event)


def scope_of(sass: str, atomic: bool, shared: bool) -> int:
    """The scope of an access, from its instruction's text; atomics without text are assumed to have device scope."""
    found = _SCOPE.search(sass)
    if found:
        return _SCOPES[found.group(1)]
    if not atomic:
        return NO_SCOPE
    return BLOCK if shared else DEVICE


def accesses(trace: EventTrace, launch: TracedLaunch, events: Events) -> Accesses:
    """The accesses to global and shared memory (local memory is private to a thread); for the async proxy only reads."""
    rows = np.flatnonzero(np.isin(events.kind, _RECORDED) & ((events.flags & (READ | WRITE)) != 0))
    chosen = events.take(rows)
    active = chosen.accessing
    at, lane = np.nonzero(active)
    granule = int(min(4, chosen.size.min(initial=4))) or 1
    pieces = np.maximum(chosen.size // granule, 1).astype(np.int64)[at]
    begin = np.concatenate(
        [part.operand(0)[part.accessing] for part in chosen.batches()] or [np.zeros(0, np.uint64)]
    )
    row = np.repeat(np.arange(len(at)), pieces)
    piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at, lane = at[row], lane[row]
    address = (begin[row] + (piece * granule).astype(np.uint64)) // np.uint64(granule)
    scope, atomic = _scopes(trace, launch, chosen)
    writes = (chosen.flags & WRITE) != 0
    copied = async_reads(trace, launch, events)
    pieces = -(-copied.bytes // granule)
    row = np.repeat(np.arange(len(pieces)), pieces)
    piece = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)

    def both(of_access: Array, of_read: Array) -> Array:
        return np.concatenate([of_access, of_read.astype(of_access.dtype)])

    none = np.zeros(len(row), bool)
    event = both(rows[at], copied.event[row])
    instruction = both(rows[at], copied.instruction[row])
    lane = both(lane, copied.lane[row])
    shared = both(chosen.kind[at] != GLOBAL, ~none)
    address = both(address, copied.begin[row] // granule + piece)
    # Shared memory is a block's own; bit 24 and up of its addresses are the block of the cluster.
    block = events.block[instruction].astype(np.int64)
    owner = np.where(shared, block + 1, 0)
    address = np.where(shared, address & np.uint64(0xFFFFFF // granule), address)
    order = np.lexsort((event, address, owner))
    key = np.ones(len(order), bool)
    if len(order):
        key[1:] = (address[order][1:] != address[order][:-1]) | (owner[order][1:] != owner[order][:-1])
    return Accesses(
        event=event[order], instruction=instruction[order], lane=lane[order],
        thread=(events.warp[instruction].astype(np.int64) * 32 + lane)[order], block=block[order], place=np.cumsum(key),
        write=both(writes[at], none)[order], scope=both(scope[at], none)[order], atomic=both(atomic[at], none)[order],
        address=address[order] * np.uint64(granule), shared=shared[order],
        over=both(np.full(len(at), _GENERIC), copied.over[row])[order], granule=granule,
    )  # fmt: skip


def _scopes(trace: EventTrace, launch: TracedLaunch, events: Events) -> tuple[Array, Array]:
    """Scope of each event, and whether it is atomic."""
    atomic = (events.flags & (READ | WRITE)) == READ | WRITE
    keys = np.stack(
        [events.pc.astype(np.int64), atomic.astype(np.int64), (events.kind != GLOBAL).astype(np.int64)],
        axis=1,
    )
    distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
    places: list[TracedInstruction] = trace.places(launch, distinct[:, 0].astype(np.uint32))
    expected = _Expected(trace)
    scopes = [
        max(scope_of(trace.sass(place), bool(is_atomic), bool(shared)), expected.scope(place, bool(shared)))
        for place, (_, is_atomic, shared) in zip(places, distinct.tolist(), strict=True)
    ]
    return np.array(scopes, np.int64)[inverse.ravel()] if len(scopes) else np.zeros(0, np.int64), atomic


class _Expected:
    """The scopes of loads that are part of an atomic."""

    def __init__(self, trace: EventTrace) -> None:
        self._trace = trace
        self._swaps: dict[tuple[int, str], dict[int, int]] = {}

    def scope(self, place: TracedInstruction, shared: bool) -> int:
        """The scope of the compare-and-swap that expects an instruction's loaded value, or 0."""
        function = place.module, place.function
        if function not in self._swaps:
            flow = self._trace.flow(*function)
            self._swaps[function] = expected_loads(flow) if flow else {}
        swap = self._swaps[function].get(place.offset // INSTRUCTION_SIZE)
        if swap is None:
            return NO_SCOPE
        text = self._trace.instructions(*function).get(swap * INSTRUCTION_SIZE, "")
        return scope_of(text, True, shared)

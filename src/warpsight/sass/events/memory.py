"""The cost of a trace's memory accesses by instruction: sectors per request, bank conflicts.

A global request is served in sectors of 32 bytes; anything fetched beyond the bytes that its lanes request is waste. Shared
memory has 32 banks of four bytes: a request takes as many passes as the largest number of distinct words that it needs from one
bank; lanes with 8 bytes are served by half warps, those with 16 by quarter warps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import KINDS, READ, WRITE
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch

SECTOR, BANKS, WORD = 32, 32, 4
_GLOBAL = ("global", "local")
_NONE = np.uint64(2**64 - 1)
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryAccess:
    """One memory instruction over a launch, or over all launches of its kernel.

    Attributes:
        kernel: demangled; place: the instruction; where: function, offset and line; sass: its text.
        space: global, shared, …; operation: load, store or atomic; bytes: size per lane.
        requests: warp-instructions; lanes: lanes that took part, summed over requests; distinct_bytes: requested bytes, each once
            per request.
        parts: sectors (global) or passes (shared) of all requests; ideal: the fewest that their bytes allow.
    """

    kernel: str
    place: TracedInstruction
    where: str
    sass: str
    space: str
    operation: str
    bytes: int
    requests: int
    lanes: int
    distinct_bytes: int
    parts: int
    ideal: int

    @property
    def per_request(self) -> float:
        """Sectors or passes of a request."""
        return self.parts / self.requests

    @property
    def excess(self) -> int:
        """Sectors or passes beyond the ideal."""
        return self.parts - self.ideal

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {**asdict(self), "per_request": self.per_request, "excess": self.excess}


def accesses(trace: EventTrace) -> list[MemoryAccess]:
    """Every memory instruction of the trace, most excess first."""
    found: dict[tuple[str, TracedInstruction, int, int], list[Counts]] = {}
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        for batch in events.take(events.is_access).batches():
            for key, counts in _of_launch(trace, launch, batch):
                found.setdefault((launch.name, *key), []).append(counts)
    rows = [_row(trace, key, np.sum(parts, axis=0)) for key, parts in found.items()]
    return sorted(rows, key=lambda row: (-row.excess, -row.parts, row.where))


def _of_launch(
    trace: EventTrace, launch: TracedLaunch, events: Events
) -> list[tuple[tuple[TracedInstruction, int, int], Counts]]:
    """Place, kind and operation with (requests, lanes, distinct bytes, parts, ideal, bytes of a lane × requests)."""
    addresses, active = events.operand(0), events.accessing
    parts, ideal, distinct = np.zeros((3, len(events)), np.int64)
    spaces = np.array([KINDS[kind].space if kind in KINDS else "" for kind in range(256)])[events.kind]
    outside = np.isin(spaces, _GLOBAL)
    parts[outside], ideal[outside], distinct[outside] = requested_sectors(
        addresses[outside], active[outside], events.size[outside]
    )
    inside = ~outside
    parts[inside], ideal[inside], distinct[inside] = bank_passes(
        addresses[inside], active[inside], events.size[inside]
    )
    operation = events.flags & (READ | WRITE)
    keys, inverse = np.unique(
        np.stack([events.pc.astype(np.int64), events.kind.astype(np.int64), operation.astype(np.int64)], axis=1),
        axis=0, return_inverse=True,
    )  # fmt: skip
    columns = (
        np.ones(len(events), np.int64),
        active.sum(axis=1),
        distinct,
        parts,
        ideal,
        events.size.astype(np.int64),
    )
    sums = np.stack([np.bincount(inverse.ravel(), column, len(keys)) for column in columns], axis=1).astype(
        np.int64
    )
    places = trace.places(launch, keys[:, 0].astype(np.uint32))
    return [
        ((place, int(kind), int(operation)), counts)
        for place, (_, kind, operation), counts in zip(places, keys.tolist(), sums, strict=True)
    ]


def _row(trace: EventTrace, key: tuple[str, TracedInstruction, int, int], counts: Counts) -> MemoryAccess:
    kernel, place, kind, operation = key
    requests, lanes, distinct, parts, ideal, sizes = counts.tolist()
    named = {READ: "load", WRITE: "store", READ | WRITE: "atomic"}.get(operation, "prefetch")
    if KINDS[kind].name == "copy_async":
        named = "copy_async"
    return MemoryAccess(
        kernel, place, trace.describe(place), trace.sass(place), KINDS[kind].space, named, sizes // requests,
        requests, lanes, distinct, parts, ideal,
    )  # fmt: skip


def _distinct(values: npt.NDArray[np.uint64], present: npt.NDArray[np.bool_]) -> Counts:
    """The number of distinct values in each row, among those present."""
    ordered = np.sort(np.where(present, values, _NONE), axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return np.asarray((new & (ordered != _NONE)).sum(axis=1), np.int64)


def sectors(addresses: npt.NDArray[np.uint64], active: npt.NDArray[np.bool_]) -> Counts:
    """The number of sectors that each row's lanes request; no access crosses a sector's border."""
    return _distinct(addresses // SECTOR, active)


def requested_sectors(
    addresses: npt.NDArray[np.uint64], active: npt.NDArray[np.bool_], size: npt.NDArray[np.uint8]
) -> tuple[Counts, Counts, Counts]:
    """Sectors, the smallest possible number for the same distinct bytes, and those bytes."""
    wide = np.maximum(size, 1).astype(np.uint64)[:, None]
    first, last = addresses // SECTOR, (addresses + wide - np.uint64(1)) // SECTOR
    both = np.concatenate([first, last], axis=1)
    sectors = _distinct(both, np.concatenate([active, active], axis=1))
    distinct = _distinct(addresses, active) * wide[:, 0].astype(np.int64)
    return sectors, -(-distinct // SECTOR), distinct


def bank_passes(
    addresses: npt.NDArray[np.uint64], active: npt.NDArray[np.bool_], size: npt.NDArray[np.uint8]
) -> tuple[Counts, Counts, Counts]:
    """Passes over the banks, the minimum, and distinct bytes.

    Lanes of 8 and 16 bytes are served by halves and quarters of a warp.
    """
    passes, ideal, distinct = np.zeros((3, len(addresses)), np.int64)
    for lane_bytes in np.unique(size).tolist():
        rows = np.flatnonzero(size == lane_bytes)
        words = max(lane_bytes // WORD, 1)
        for begin in range(0, 32, 32 // words):
            lanes = slice(begin, begin + 32 // words)
            own, present = addresses[rows, lanes], active[rows, lanes]
            units = np.concatenate([own // WORD + np.uint64(word) for word in range(words)], axis=1)
            passes[rows] += _worst_bank(units, np.tile(present, (1, words)))
            ideal[rows] += present.any(axis=1)
        distinct[rows] = _distinct(addresses[rows], active[rows]) * lane_bytes
    return passes, ideal, distinct


def _worst_bank(words: npt.NDArray[np.uint64], present: npt.NDArray[np.bool_]) -> Counts:
    """The most distinct words of each row that fall into one bank."""
    count = words.shape[1]
    ordered = np.sort(
        np.where(present, words % BANKS << np.uint64(48) | words & np.uint64(2**48 - 1), _NONE), axis=1
    )
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered != _NONE
    bank = (ordered >> np.uint64(48)).astype(np.int64)
    row = np.repeat(np.arange(len(words)), count)
    totals = np.bincount(
        (row * (BANKS + 1) + np.minimum(bank, BANKS).ravel())[new.ravel()], minlength=len(words) * (BANKS + 1)
    )
    return np.asarray(totals.reshape(len(words), BANKS + 1).max(axis=1, initial=0), np.int64)

"""Who waits for whom where a trace ends: named barriers, the cluster's barrier, mbarriers, and words that warps poll.

A warp polls if its last events are loads or atomics of one word that gave the same value each time. A loop whose values change
makes progress and does not count. Others wait for a warp if it has not arrived where they wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import BY_NAME, READ, VALUES, WRITE
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedLaunch

Array = npt.NDArray[Any]
#: Events of a warp, the last ones, that a poll must be the same in.
POLLS = 16
_BARRIER, _CLUSTER_ARRIVE = BY_NAME["barrier"].number, BY_NAME["cluster_arrive"].number
_MBARRIER, _ATTEMPT = BY_NAME["mbarrier"].number, BY_NAME["mbarrier_attempt"].number
_POLLED = (BY_NAME["global"].number, BY_NAME["shared"].number)
_WAIT, _FIRST_ARRIVE, _LAST_ARRIVE = 6, 2, 5


@dataclass(frozen=True)
class BlockWait:
    """Warps of a block that wait for the same thing.

    Attributes:
        kernel, launch, block: the block; warps: its waiting warps; what: what they wait for; where: the instruction of the first.
        missing: warps, as (block, warp), that have not arrived; detail: what the trace knows about those that have.
    """

    kernel: str
    launch: int
    block: int
    warps: tuple[int, ...]
    what: str
    where: str
    missing: tuple[tuple[int, int], ...]
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "kernel": self.kernel, "launch": self.launch, "block": self.block, "warps": list(self.warps), "what": self.what,
            "where": self.where, "missing": [list(one) for one in self.missing], "detail": self.detail,
        }  # fmt: skip


@dataclass(frozen=True)
class BlockWaits:
    """The graph: waits, and the warps that others wait for and that are not waiting themselves."""

    waits: tuple[BlockWait, ...]
    roots: tuple[tuple[int, int, int], ...]
    notes: tuple[str, ...]


def waits(trace: EventTrace) -> BlockWaits:
    """The waits at the end of each launch; completed launches have none. Roots are (launch, block, warp)."""
    request = trace.file.process.get("request") or {}
    notes = list(trace.notes)
    if VALUES not in (request.get("events") or ()):
        notes.append(
            "without values, polling warps cannot be told from running ones: --events memory,values,…"
        )
    found = [
        wait
        for launch in trace.launches.values()
        for wait in of_launch(trace, launch, trace.of_launch(launch.number))
    ]
    waiting = {(one.launch, one.block, warp) for one in found for warp in one.warps}
    missing = {(one.launch, *who) for one in found for who in one.missing}
    return BlockWaits(tuple(found), tuple(sorted(missing - waiting)), tuple(notes))


def of_launch(trace: EventTrace, launch: TracedLaunch, events: Events) -> list[BlockWait]:
    """The waits of one launch, from its events."""
    if not len(events):
        return []
    warp = events.block.astype(np.int64) * launch.warps + events.warp
    last = len(warp) - 1 - np.unique(warp[::-1], return_index=True)[1]
    groups: dict[tuple[Any, ...], list[int]] = {}
    first = events.first_operand(0)
    for row in last.tolist():  # a row for each warp
        kind, flags = int(events.kind[row]), int(events.flags[row])
        if kind == _BARRIER:
            groups.setdefault(("barrier", int(events.block[row]), int(first[row])), []).append(row)
        elif kind == _CLUSTER_ARRIVE:
            groups.setdefault(("cluster", int(events.block[row])), []).append(row)
        elif kind in (_MBARRIER, _ATTEMPT) and flags == _WAIT:
            groups.setdefault(("mbarrier", int(events.block[row]), int(first[row]) & 0xFFFFFF), []).append(
                row
            )
        elif kind in _POLLED:
            polled = _polled(events, warp, row)
            if polled is not None:
                groups.setdefault(("poll", int(events.block[row]), *polled), []).append(row)
    made = [_wait(trace, launch, events, key, rows) for key, rows in groups.items()]
    return [one for one in made if one is not None]


def _polled(events: Events, warp: Array, row: int) -> tuple[int, int] | None:
    """The address and value that a warp polls; None if its last events differ."""
    own = np.flatnonzero(warp[: row + 1] == warp[row])[-POLLS:]
    taken = events.take(own)
    if len(own) < POLLS or not (taken.has_values.all() and np.isin(taken.kind, _POLLED).all()):
        return None
    address, value = taken.operand(0), taken.values()
    same = (address == address[0]).all() and (value == value[0]).all()
    if not same or not ((taken.flags & READ) != 0).all():
        return None
    lane = int(np.flatnonzero(taken.active[0])[0])
    return int(address[0, lane]), int(value[0, lane, 0])


def _wait(
    trace: EventTrace, launch: TracedLaunch, events: Events, key: tuple[Any, ...], rows: list[int]
) -> BlockWait | None:
    block, detail = int(key[1]), ""
    come = {(int(events.block[row]), int(events.warp[row])) for row in rows}
    of_block = [(block, warp) for warp in range(launch.warps)]
    if key[0] == "barrier":
        what, missing = f"barrier {key[2]} of the block", [who for who in of_block if who not in come]
    elif key[0] == "cluster":
        what, missing = "the cluster's barrier", _not_at_cluster(launch, events, block)
        if not missing:  # they went on without waiting, or all have come
            return None
    elif key[0] == "mbarrier":
        what = f"the mbarrier at 0x{key[2]:x}"
        detail, missing = _arrivals(events, block, int(key[2]), of_block)
    else:
        what, missing = f"the word at 0x{key[2]:x} to differ from {key[3]}", []
        detail = _writers(events, int(key[2]))
    where = trace.describe(trace.places(launch, events.pc[rows[0] : rows[0] + 1])[0])
    warps = tuple(sorted(warp for _, warp in come))
    return BlockWait(launch.name, launch.number, block, warps, what, where, tuple(missing), detail)


def _not_at_cluster(launch: TracedLaunch, events: Events, block: int) -> list[tuple[int, int]]:
    """Warps of a block's cluster that have arrived fewer times than others."""
    size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    x, y, z = (
        np.asarray(part) // max(edge, 1)
        for part, edge in zip(
            launch.block_xyz(np.arange(launch.grid[0] * launch.grid[1] * launch.grid[2])),
            launch.cluster,
            strict=True,
        )
    )
    same = (
        np.flatnonzero((x == x[block]) & (y == y[block]) & (z == z[block])) if size > 1 else np.array([block])
    )
    rows = (events.kind == _CLUSTER_ARRIVE) & np.isin(events.block, same)
    times = {
        (int(b), warp): int((rows & (events.block == b) & (events.warp == warp)).sum())
        for b in same
        for warp in range(launch.warps)
    }
    return [who for who, count in times.items() if count < max(times.values())]


def _arrivals(
    events: Events, block: int, address: int, of_block: list[tuple[int, int]]
) -> tuple[str, list[tuple[int, int]]]:
    """What is known about an mbarrier's arrivals, and the warps that arrived at it fewer times than others did."""
    rows = np.flatnonzero(
        (events.kind == _MBARRIER) & (events.block == block) & (events.flags >= _FIRST_ARRIVE)
        & (events.flags <= _LAST_ARRIVE) & ((events.first_operand(0) & np.uint64(0xFFFFFF)) == address)
    )  # fmt: skip
    if not len(rows):
        return "no thread has arrived at it", list(of_block)
    times = np.bincount(events.warp[rows], minlength=len(of_block))
    arrived = ", ".join(f"warp {warp}: {times[warp]}" for warp in np.flatnonzero(times).tolist())
    fewer = [(block, warp) for warp in np.flatnonzero((times > 0) & (times < times.max())).tolist()]
    return f"arrivals so far: {arrived}", fewer


def _writers(events: Events, address: int) -> str:
    """Who has written to a word last."""
    rows = np.flatnonzero(np.isin(events.kind, _POLLED) & ((events.flags & WRITE) != 0))
    taken = events.take(rows)
    hits = (
        ((taken.operand(0) == np.uint64(address)) & taken.active).any(axis=1)
        if len(rows)
        else np.zeros(0, bool)
    )
    if not hits.any():
        return "no thread has written to it in this launch"
    row = int(rows[np.flatnonzero(hits)[-1]])
    return f"written last by block {int(events.block[row])}, warp {int(events.warp[row])}"

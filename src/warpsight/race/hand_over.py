"""Flags and locks: words through which one side of a race hands over to the other, and what a hand-over lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.race.suspects import Access
from warpsight.sass.events.trace import EventTrace, TracedInstruction
from warpsight.sass.races.accesses import BLOCK, NO_SCOPE, accesses
from warpsight.sass.races.fences import Fences
from warpsight.sass.races.witness import Race, Side

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Flag:
    """A word that the side of the first access sets after it, and that the side of the second access reads before it.

    Attributes:
        release, acquire: the lines that set and read it; scopes: the scopes of both; fences: the scopes of fences between
            accesses and flag.
        others: whether a warp other than that of the access sets it, and reads it; apart: whether two blocks are involved.
    """

    release: str
    acquire: str
    scopes: tuple[int, int]
    fences: tuple[int, int]
    others: tuple[bool, bool]
    apart: bool

    def repair(self, first: Access, second: Access) -> str:
        """The missing part of the hand-over through the flag."""
        parts = []
        if self.others[0]:
            parts.append(
                f"{first.barrier} between {first.words} and {self.release}, where another warp of the block hands over"
            )
        if self.others[1]:
            parts.append(
                f"{second.barrier} between {self.acquire}, where another warp takes over, and {second.words}"
            )
        return "; ".join(parts or self._lacking(first, second)) or (
            f"the flag of {self.release} and {self.acquire} is set before {first.words} is done: set it after all writes"
        )

    def _lacking(self, first: Access, second: Access) -> list[str]:
        """The scopes and fences that are missing."""
        parts = []
        short, fence = (BLOCK, "__threadfence()") if self.apart else (NO_SCOPE, "__threadfence_block()")
        if self.apart:
            for scope, place in zip(self.scopes, (self.release, self.acquire), strict=True):
                if scope == BLOCK:
                    parts.append(f"device scope instead of block scope for the atomic at {place}")
        if self.fences[0] <= short:
            parts.append(f"{fence} between {first.words} and {self.release}, which sets the flag")
        if self.fences[1] <= short and not (self.apart and self.scopes[1] == BLOCK):
            parts.append(
                f"{fence} between {self.acquire}, which reads the flag or takes the lock, and {second.words}"
            )
        return parts


class FlagUse:
    """The atomic and strong accesses of a race's launch."""

    def __init__(self, trace: EventTrace, race: Race) -> None:
        """Take the trace that has the race."""
        self._trace, self._race = trace, race
        self._launch = trace.launches[race.launch]
        self._events = trace.of_launch(self._launch.number)
        self._own = accesses(trace, self._launch, self._events)
        self._apart = race.first.block != race.second.block

    def flag(self) -> Flag | None:
        """The word set after the first access and read before the second, by their warps or otherwise by their blocks."""
        own, race = self._own, self._race
        for whole in (False, True)[: 1 + self._apart]:
            after = self._strong(race.first, whole)
            after = after[own.event[after] > race.first.event]
            before = self._strong(race.second, whole)
            before = before[own.event[before] < race.second.event]
            shared = np.intersect1d(own.place[after], own.place[before])
            if len(shared):
                break
        else:
            return None
        before = before[np.isin(own.place[before], shared)]
        acquire = int(before[np.argmax(own.event[before])])
        after = after[own.place[after] == own.place[acquire]]
        release = int(after[np.argmin(own.event[after])])
        set_at, read_at = int(own.event[release]), int(own.event[acquire])
        return Flag(
            self._line(set_at), self._line(read_at), (int(own.scope[release]), int(own.scope[acquire])),
            (self._fence(race.first.event, set_at), self._fence(read_at, race.second.event)),
            (int(own.thread[release]) // 32 != race.first.thread // 32,
             int(own.thread[acquire]) // 32 != race.second.thread // 32),
            self._apart,
        )  # fmt: skip

    def lock(self, side: Side) -> str:
        """The line where a side's warp took the lock that it released after its access, or empty."""
        own = self._own
        strong = self._strong(side, whole=False)
        before = strong[(own.event[strong] < side.event) & own.atomic[strong]]
        after = strong[(own.event[strong] > side.event) & own.write[strong]]
        before = before[np.isin(own.place[before], own.place[after])]
        return self._line(int(own.event[before].max())) if len(before) else ""

    def _strong(self, side: Side, whole: bool) -> Array:
        """Atomic and strong accesses of a side's warp, or of its whole block, to words other than the racing one."""
        own = self._own
        same = (own.block == side.block) & (whole | (own.thread // 32 == side.thread // 32))
        return np.flatnonzero(same & (own.scope > NO_SCOPE) & (own.address != self._race.address))

    def _fence(self, earlier: int, later: int) -> int:
        """The widest scope of a fence that a warp passed from one of its events to another; 0 for events of two warps."""
        events = self._events
        if events.block[earlier] != events.block[later] or events.warp[earlier] != events.warp[later]:
            return NO_SCOPE
        same = (events.block == events.block[earlier]) & (events.warp == events.warp[earlier])
        rows = np.flatnonzero(same)
        pcs = events.pc[rows[(rows >= earlier) & (rows <= later)]]
        steps = np.unique(np.stack([pcs[:-1], pcs[1:]], axis=1), axis=0)
        fences = Fences(self._trace)
        recorded = frozenset(place.offset // 16 for place in self._places(np.unique(events.pc)))
        found = [
            fences.between(a, b, recorded - {b.offset // 16})
            for a, b in zip(self._places(steps[:, 0]), self._places(steps[:, 1]), strict=True)
        ]
        return max(found, default=NO_SCOPE)

    def _places(self, pcs: Array) -> list[TracedInstruction]:
        return self._trace.places(self._launch, pcs)

    def _line(self, event: int) -> str:
        """The outermost line of an event's instruction, which is where a reader looks."""
        frames = self._trace.chain(self._places(self._events.pc[event : event + 1])[0])
        return f"{frames[-1].file.rpartition('/')[2]}:{frames[-1].line}" if frames else "an unknown line"

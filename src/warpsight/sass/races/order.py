"""The order established by named barriers, mbarriers, cluster barriers and fenced atomics: vector clocks of warps.

The loop below visits only synchronizations. A warp's clock counts its releases, and a row of `knows` holds what a warp knows
about others. An arrival adds the row to what the barrier holds, and whoever is let through takes that over. Fences are not events
of the Sanitizer: they are found in the code between two recorded instructions.

Atomic, volatile and other strong writes pass on what their warp knew at its last fence: to the block, what it knew at any fence;
to the device, if their scope is wider than a block, what it knew at a fence of that scope. What a strong read gets from another
block counts from the next such fence on. What it gets from its own block counts at once, because an acquire of block scope has no
machine instruction. An access is recorded before it executes, so a read may still get what others pass on until its warp's next
event.

Where this is not exact, it sees too much order rather than report a false race: all lanes of a warp count as one, and an mbarrier
passes on everything that arrived before, whatever the phase. Arrivals by `bar.arrive` are not events either, and are also found
in the code. If the code does not name the barrier and it lets threads through before all were seen, any warp of the block may
have arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import BY_NAME
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import TracedLaunch
from warpsight.sass.races.accesses import BLOCK

Array = npt.NDArray[Any]
#: Numbers that the clocks of a launch may take: warps times (warps + synchronizations).
MOST_CLOCKS = 1 << 28
_ARRIVE, _RELEASE = BY_NAME["barrier"].number, BY_NAME["barrier_release"].number
_CLUSTER_ARRIVE, _CLUSTER_WAIT = BY_NAME["cluster_arrive"].number, BY_NAME["cluster_wait"].number
_MBARRIER, _ATTEMPT = BY_NAME["mbarrier"].number, BY_NAME["mbarrier_attempt"].number
_MBARRIER_WAIT, _SUCCEEDED = 6, 128
SYNCHRONISATIONS = (_ARRIVE, _RELEASE, _CLUSTER_ARRIVE, _CLUSTER_WAIT, _MBARRIER, _ATTEMPT)


def size(launch: TracedLaunch, events: Events) -> int:
    """The size of a launch's clocks, in numbers."""
    warps = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.warps
    return warps * (4 * warps + int(np.isin(events.kind, SYNCHRONISATIONS).sum()))


class Strong(NamedTuple):
    """An atomic or strong access: its piece of memory, scope and operation."""

    address: int
    scope: int
    reads: bool
    writes: bool


@dataclass
class _Barrier:
    """A barrier in one of its phases: who has arrived, and the clocks they brought."""

    held: Array
    arrived: int = 0
    warps: set[int] = field(default_factory=set)


class VectorClocks:
    """Each warp's knowledge of the others after each of its synchronizations.

    Attributes:
        warp_of: number of each event's warp in the launch.
    """

    def __init__(self, launch: TracedLaunch, events: Events) -> None:
        """Take a launch's events; :meth:`follow` does the work."""
        self.warp_of = events.block.astype(np.int64) * launch.warps + events.warp
        count = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.warps
        self._launch, self._events = launch, events
        self._knows = np.zeros((count, count), np.int32)
        np.fill_diagonal(self._knows, 1)
        self._cluster = _cluster_of(launch, events.block.astype(np.int64))
        #: Rows of `knows` after an event of a warp: (event, row), ascending.
        self._history: dict[int, tuple[list[float], list[Array]]] = {}
        self._turns: dict[tuple[Any, ...], _Barrier] = {}
        self._passed: dict[tuple[int, Any], _Barrier] = {}
        #: State of flags for a block, and under -1 for the device.
        self._flags: dict[int, dict[int, Array]] = {}
        #: What warps knew at their last fence of block scope at least, and of a wider one; what they found of other blocks.
        self._fenced = {near: np.zeros_like(self._knows) for near in (True, False)}
        self._found = np.zeros_like(self._knows)
        self._guesses = True

    def follow(
        self,
        strong: dict[int, list[Strong]],
        fence: Callable[[int], int],
        arrivals: dict[int, frozenset[int]] | None = None,
    ) -> None:
        """Process the synchronizations in order.

        Args:
            strong: event → its atomic or strong accesses.
            fence: scope of the fence that the event's warp executed since its previous event, 0 for none.
            arrivals: event → barriers at which its warp arrives afterwards without waiting; None if unknown.
        """
        self._guesses = arrivals is None
        arrivals = arrivals or {}
        kinds = self._events.kind
        first, second = self._events.first_operand(0), self._events.first_operand(1)
        fences = {event: scope for event in range(len(kinds)) if (scope := fence(event))} if strong else {}
        after = following(self.warp_of)
        read = {int(after[event]): event for event in strong}  # -1: nothing follows
        chosen = {
            *np.flatnonzero(np.isin(kinds, SYNCHRONISATIONS)).tolist(),
            *strong,
            *fences,
            *arrivals,
            *read,
        }
        for event in sorted(chosen - {-1}):
            warp, block = int(self.warp_of[event]), int(self._events.block[event])
            for access in strong[read[event]] if event in read else ():
                self._find(warp, block, access)
            if event in fences:
                self._pass_fence(warp, fences[event])
            if event in strong:
                for access in strong[event]:
                    self._find(warp, block, access)
                    self._hand_on(warp, block, access)
            elif kinds[event] in (_ARRIVE, _RELEASE, _CLUSTER_ARRIVE, _CLUSTER_WAIT):
                self._barrier(event, warp, int(first[event]), int(second[event]))
            elif kinds[event] in (_MBARRIER, _ATTEMPT):
                self._mbarrier(event, warp, int(first[event]))
            self._remember(event, warp)
            for barrier in arrivals.get(event, ()):
                self._arrive(event, warp, barrier)
                self._remember(event + 0.5, warp)  # the event itself came before

    def before(self, earlier: Array, later: Array) -> Array:
        """Whether each earlier event happens before the paired later one, by these rules."""
        return np.array([self._is_before(int(a), int(b)) for a, b in zip(earlier, later, strict=True)], bool)

    def _is_before(self, earlier: int, later: int) -> bool:
        mine, other = int(self.warp_of[earlier]), int(self.warp_of[later])
        clock = int(self._at(mine, earlier)[mine])
        return bool(self._at(other, later)[mine] >= clock)

    def _at(self, warp: int, event: int) -> Array:
        """A warp's knowledge when it reached an event."""
        events, rows = self._history.get(warp, ([], []))
        place = int(np.searchsorted(events, event, "right"))  # a fence before the event counts for it
        if place == 0:
            row = np.zeros(len(self._knows), np.int32)
            row[warp] = 1
            return row
        return rows[place - 1]

    def _remember(self, event: float, warp: int) -> None:
        events, rows = self._history.setdefault(warp, ([], []))
        events.append(event)
        rows.append(self._knows[warp].copy())

    def _release(self, warp: int, held: Array) -> None:
        np.maximum(held, self._knows[warp], out=held)
        self._knows[warp, warp] += 1

    def _acquire(self, warp: int, held: Array) -> None:
        np.maximum(self._knows[warp], held, out=self._knows[warp])

    def _barrier(self, event: int, warp: int, index: int, threads: int) -> None:
        kind = int(self._events.kind[event])
        launch = self._launch
        if kind in (_ARRIVE, _RELEASE):
            key: tuple[Any, ...] = ("block", int(self._events.block[event]), index)
            expected = threads or launch.warps * 32
        else:
            key = ("cluster", int(self._cluster[event]))
            expected = launch.warps * 32 * launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        if kind in (_ARRIVE, _CLUSTER_ARRIVE):
            turn = self._turns.setdefault(key, _Barrier(np.zeros(len(self._knows), np.int32)))
            self._release(warp, turn.held)
            turn.arrived += _lanes(int(self._events.lanes[event]))
            self._passed[warp, key] = turn
            if turn.arrived >= expected:
                del self._turns[key]
            return
        passed = self._passed.pop((warp, key), None)
        if passed is None:
            return
        if self._turns.get(key) is passed:  # let through before all were seen
            del self._turns[key]
            if threads and self._guesses:
                self._unseen(int(self._events.block[event]), passed.held)
        self._acquire(warp, passed.held)

    def _arrive(self, event: int, warp: int, barrier: int) -> None:
        """A warp arrives at a named barrier without waiting. Its clock is that of the event before."""
        key = ("block", int(self._events.block[event]), barrier)
        turn = self._turns.setdefault(key, _Barrier(np.zeros(len(self._knows), np.int32)))
        self._release(warp, turn.held)
        turn.arrived += 32

    def _unseen(self, block: int, held: Array) -> None:
        """Other warps arrived without waiting, which the Sanitizer does not report: it could be any warp of the block."""
        for warp in range(block * self._launch.warps, (block + 1) * self._launch.warps):
            self._release(warp, held)

    def _mbarrier(self, event: int, warp: int, address: int) -> None:
        key = ("mbarrier", int(self._events.block[event]), address & 0xFFFFFF)
        held = self._turns.setdefault(key, _Barrier(np.zeros(len(self._knows), np.int32))).held
        action = int(self._events.flags[event])
        if self._events.kind[event] == _MBARRIER and action & ~_SUCCEEDED != _MBARRIER_WAIT:
            self._release(warp, held)
        elif self._events.kind[event] == _ATTEMPT and action == _MBARRIER_WAIT | _SUCCEEDED:
            self._acquire(warp, held)

    def _pass_fence(self, warp: int, scope: int) -> None:
        if scope > BLOCK:
            self._acquire(warp, self._found[warp])
            self._fenced[False][warp] = self._knows[warp]
        self._fenced[True][warp] = self._knows[warp]
        self._knows[warp, warp] += 1  # the rest is not covered by the fence

    def _find(self, warp: int, block: int, access: Strong) -> None:
        held = self._flags.get(access.address, {}) if access.reads else {}
        if block in held:
            self._acquire(warp, held[block])
        if access.scope > BLOCK and -1 in held:
            np.maximum(self._found[warp], held[-1], out=self._found[warp])

    def _hand_on(self, warp: int, block: int, access: Strong) -> None:
        for near in (True, False) if access.writes else ():
            if near or access.scope > BLOCK:
                held = self._flags.setdefault(access.address, {})
                mine = held.setdefault(block if near else -1, np.zeros(len(self._knows), np.int32))
                np.maximum(mine, self._fenced[near][warp], out=mine)


def following(warp_of: Array) -> Array:
    """The next event of each event's warp, or -1."""
    order = np.argsort(warp_of, kind="stable")
    after = np.full(len(order), -1)
    same = warp_of[order][1:] == warp_of[order][:-1]
    after[order[:-1][same]] = order[1:][same]
    return after


def _lanes(mask: int) -> int:
    return bin(mask).count("1")


def _cluster_of(launch: TracedLaunch, block: Array) -> Array:
    """Number of the cluster of each block."""
    x, y, z = launch.block_xyz(block)
    cx, cy, cz = (max(size, 1) for size in launch.cluster)
    across, down = -(-launch.grid[0] // cx), -(-launch.grid[1] // cy)
    return np.asarray(x // cx + across * (y // cy + down * (z // cz)))

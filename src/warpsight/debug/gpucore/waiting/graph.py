"""The wait-for graph over the places of a dump's lanes; places that wait for no one are roots.

Lanes at a barrier wait for those of their block (cluster, warp) that have not arrived: these are elsewhere in the code or at
another barrier. An edge is certain if the barrier needs the lanes it leads to. It is possible if they merely could do what the
waiter needs: arrive at an mbarrier, write to shared memory, or be among the threads that a named barrier counts. Lanes that poll
global memory, sleep or compute wait for no one that a dump shows. Possible edges never form a cycle: if two places could each
wait for the other, there is no edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.groups import SourceSite
from warpsight.debug.gpucore.lane_map import WARP_SIZE, LaneMap
from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.waiting.instructions import WarpWait, wait_at
from warpsight.debug.gpucore.waiting.mbarrier import MbarrierState, state_of
from warpsight.debug.gpucore.waiting.order import components, depths, reached, without_possible_circles
from warpsight.device_code.elf import Array

#: Functions of cooperative groups that wait for all blocks of a grid.
_GRID_BARRIER = re.compile(r"\bsync_grids|\bgrid_group::(sync|barrier_wait)")
#: Reasons to wait for nobody, likelier causes first. Lanes that run could still write what others poll for.
REASONS = (
    "runs",
    "count",
    "memory",
    "sleep",
    "ready",
    "shared memory",
    "copies",
    "mbarrier",
    "mutual",
    "passing",
)
#: Kinds of waits that end when other lanes, or an earlier grid, do something.
BLOCKED = frozenset({"barrier", "mbarrier", "cluster barrier", "warp", "reconvergence", "earlier grid"})


@dataclass(frozen=True)
class Edge:
    """Lanes of one place wait for lanes of another.

    Attributes:
        waiter, holder: the places.
        certain: whether the holder's lanes are needed; otherwise they may be.
    """

    waiter: int
    holder: int
    certain: bool


@dataclass(frozen=True)
class Count:
    """A barrier of one block that no remaining thread can complete.

    Attributes:
        arrived: threads that wait there, by warps of 32, as the hardware counts; needed: what the barrier counts.
        threads: threads of the block at launch; exited: how many of them have exited.
        silent: whether threads may also have arrived without waiting (`bar.arrive`).
        others: whether threads that could still arrive `wait` for those at the barrier, or `may wait`; empty if none could.
    """

    arrived: int
    needed: int
    threads: int
    exited: int
    silent: bool
    others: str


@dataclass(frozen=True)
class WaitGraph:
    """What waits for what.

    Attributes:
        edges: between places.
        order: all places: those that wait for no one first, and each after the places it waits for.
        why: for each place that waits for no one, one of :data:`REASONS`.
        circles: places that wait for each other.
        counts: counts of places whose barrier cannot be completed.
        mbarriers: the state of the mbarrier that a place's first lane waits at.
        grid_barriers: places that poll for a barrier of the whole grid, by the names of their functions.
    """

    edges: tuple[Edge, ...]
    order: tuple[int, ...]
    why: dict[int, str]
    circles: tuple[tuple[int, ...], ...]
    counts: dict[int, Count]
    mbarriers: dict[int, MbarrierState]
    grid_barriers: frozenset[int]


def wait_graph(lanes: LaneMap, places: Sequence[SourceSite], code: Code) -> WaitGraph:
    """Build the graph of a dump's places."""
    return _Builder(lanes, places, code).graph()


@dataclass
class _Builder:
    lanes: LaneMap
    places: Sequence[SourceSite]
    code: Code
    edges: dict[tuple[int, int], bool] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)
    counts: dict[int, Count] = field(default_factory=dict)
    mbarriers: dict[int, MbarrierState] = field(default_factory=dict)

    def graph(self) -> WaitGraph:
        grid_barriers = frozenset(n for n, place in enumerate(self.places) if _is_grid_barrier(place))
        for number, place in enumerate(self.places):
            self._visit(number, place, grid_barriers)
        self._narrow_counts()
        edges = without_possible_circles(self.edges, len(self.places))
        parts = components(len(self.places), edges)
        depth = depths(parts, edges)
        circles = tuple(part for part in parts if len(part) > 1)
        self._keep_stuck_counts(edges)
        for number in range(len(self.places)):
            if depth[number] == 0:
                mutual = any(number in circle for circle in circles)
                self.why[number] = "mutual" if mutual else self.why.get(number) or self._reason(number)
        circle_of = {number: at for at, circle in enumerate(circles) for number in circle}
        order = sorted(
            range(len(self.places)),
            key=lambda n: (depth[n], REASONS.index(self.why[n]) if depth[n] == 0 else 0, circle_of.get(n, -1),
                           -self.places[n].lanes, n),
        )  # fmt: skip
        return WaitGraph(
            tuple(Edge(waiter, holder, certain) for (waiter, holder), certain in sorted(edges.items())),
            tuple(order), {n: why for n, why in self.why.items() if depth[n] == 0}, circles, self.counts, self.mbarriers,
            grid_barriers,
        )  # fmt: skip

    def _reason(self, number: int) -> str:
        """Why a place that waits for nobody does so, if the reason is unknown."""
        wait = self.places[number].wait
        if wait is None:
            return "runs" if self.places[number].groups[0].active else "ready"
        if wait.kind == "memory":
            return "shared memory" if wait.poll and wait.poll.space == "shared" else "memory"
        if wait.kind not in BLOCKED - {"mbarrier"}:
            return wait.kind
        # Whoever could end the wait may in turn wait for these lanes, or nobody is missing.
        return "mutual" if any(waiter == number for waiter, _ in self.edges) else "passing"

    def _narrow_counts(self) -> None:
        """From a counted barrier, remove threads that could arrive but certainly wait for present ones, until nothing changes.

        Warps 0-3 wait at barrier 5 for 160 threads, warp 4 spins, warp 5 waits for all of the block: either of the two could
        come, but warp 5 cannot before the others, so it is warp 4 that is missing.
        """
        settled: dict[int, set[int]] = {}
        changed = True
        while changed:
            changed = False
            waiters: dict[int, list[int]] = {}
            for (waiter, holder), certain in self.edges.items():
                if certain:
                    waiters.setdefault(holder, []).append(waiter)
            for number, place in enumerate(self.places):
                mine = [edge for edge in self.edges if edge[0] == number]
                counted = place.wait is not None and place.wait.kind == "barrier" and place.wait.threads
                behind = reached(number, waiters) - {number}
                if (
                    counted
                    and mine
                    and not any(self.edges[e] for e in mine)
                    and not behind <= settled.get(number, set())
                ):
                    for edge in mine:
                        del self.edges[edge]
                    settled[number] = settled.get(number, set()) | behind
                    self._barrier(number, place, self.lanes.at([number]), sorted(settled[number]))
                    changed = True

    def _keep_stuck_counts(self, edges: dict[tuple[int, int], bool]) -> None:
        """Keep those of the counted barriers that no known thread can complete."""
        waiters = {waiter for waiter, _ in edges}
        self.counts = {number: count for number, count in self.counts.items() if number not in waiters}
        self.why |= dict.fromkeys(self.counts, "count")

    def _visit(self, number: int, place: SourceSite, grid_barriers: frozenset[int]) -> None:
        """Find the edges of one place."""
        kind = place.wait.kind if place.wait else ""
        here = self.lanes.at([number])
        if not here.any():
            return
        if kind == "barrier":
            self._barrier(number, place, here)
        elif kind == "cluster barrier":
            clusters = self.lanes.cluster[self.lanes.block]
            waiting = self.lanes.at(self._with(lambda one: one.kind == kind))
            self._wait_for(number, self.lanes.sharing(clusters, here) & ~waiting, True)
        elif kind in ("warp", "reconvergence"):
            self._wait_for(number, self._others_of_warp(number, here), True)
        elif kind == "earlier grid":
            waiting = self.lanes.at(self._with(lambda one: one.kind == kind))
            self._wait_for(number, (self.lanes.grid != place.grid) & ~waiting, False)
        elif kind == "mbarrier":
            self._mbarrier(number, place, here)
        elif number in grid_barriers:
            arrived = self.lanes.at(sorted(grid_barriers)) & (self.lanes.grid == place.grid)
            missing = (self.lanes.grid == place.grid) & ~self.lanes.sharing(self.lanes.block, arrived)
            self._add(number, missing, True)
        elif kind == "memory" and place.wait and place.wait.poll and place.wait.poll.space == "shared":
            self._add(number, self._others_of_cluster(here), False)

    def _with(self, fits: Callable[[WarpWait], bool]) -> list[int]:
        return [n for n, place in enumerate(self.places) if place.wait and fits(place.wait)]

    def _add(self, waiter: int, holders: Array, certain: bool) -> bool:
        """Add edges to the places of some lanes (a mask); returns whether there were any."""
        found = [holder for holder in np.unique(self.lanes.place[holders]).tolist() if holder != waiter]
        for holder in found:
            self.edges[waiter, holder] = self.edges.get((waiter, holder), False) or certain
        return bool(found)

    def _wait_for(self, waiter: int, holders: Array, certain: bool) -> None:
        """The same, but without lanes to wait for, the wait is over and its lanes are about to continue."""
        if not self._add(waiter, holders, certain):
            self.why[waiter] = "passing"

    def _barrier(self, number: int, place: SourceSite, here: Array, without: Sequence[int] = ()) -> None:
        """A barrier of the block, for all its threads or for a count of them; some places cannot be among those."""
        lanes, wait = self.lanes, place.wait
        assert wait is not None
        mine = [number]
        if wait.barrier is not None:
            mine = self._with(lambda one: one.kind == "barrier" and one.barrier == wait.barrier)
        waiting = lanes.at(mine)
        others = lanes.sharing(lanes.block, here) & ~waiting & ~lanes.at(list(without))
        if not wait.threads:
            self._wait_for(number, others, wait.barrier is not None)
            return
        blocks = np.unique(lanes.block[here])
        arrived = lanes.warps_of_blocks(waiting)[blocks]
        # Warps that could still come. Of some, other lanes are there already.
        left = lanes.warps_of_blocks(others & ~lanes.sharing(lanes.warp, waiting))[blocks]
        missing = -(-wait.threads // WARP_SIZE) - arrived
        # Threads may also have arrived without waiting (bar.arrive) and gone on: then fewer are missing.
        silent = self._arrives_silently(place)
        never = (missing > 0) & (left == 0 if silent else missing > left)
        if (missing > 0).any() and not lanes.core.problems:
            at = int(np.flatnonzero(never if never.any() else missing > 0)[0])
            threads, alive = int(lanes.block_threads[blocks[at]]), int(lanes.lanes_of_blocks()[blocks[at]])
            able = ("wait" if without else "") if never.any() else "may wait"
            self.counts[number] = Count(
                int(arrived[at]) * WARP_SIZE, wait.threads, threads, threads - alive, silent, able
            )
            if never.any():
                return
        open_ = np.isin(lanes.block, blocks[missing > 0])
        self._wait_for(number, others & open_, not silent and bool((missing == left)[missing > 0].all()))

    def _arrives_silently(self, place: SourceSite) -> bool:
        """Whether the code around a place contains a non-waiting arrival at a barrier."""
        location = self.code.locate(place.address)
        if location is None:
            return True
        words = self.code.flow(location).words
        barrier = np.isin(words[:, 0] & np.uint64(0x1FF), [0x11D])
        return bool((barrier & (words[:, 1] >> np.uint64(13) & np.uint64(1) == 1)).any())

    def _others_of_warp(self, number: int, here: Array) -> Array:
        """The lanes that a warp's barrier expects and that have not arrived."""
        lanes = self.lanes
        wanted = np.full(len(lanes.core.table(Kind.WARPS)), 0xFFFFFFFF, np.int64)
        warps, first = np.unique(lanes.warp[here], return_index=True)
        rows = lanes.row[here][first]
        pcs = lanes.core.table(Kind.LANES).rows["pc"][rows].tolist()
        for warp, row, pc in zip(warps.tolist(), rows.tolist(), pcs, strict=True):
            wait = wait_at(pc, self.code, LaneRegisters(lanes.core, row, warp))
            wanted[warp] = wait.lanes if wait else 0xFFFFFFFF
        needed = wanted[lanes.warp] >> lanes.number & 1 == 1
        found: Array = lanes.sharing(lanes.warp, here) & (lanes.place != number) & needed
        return found

    def _others_of_cluster(self, here: Array) -> Array:
        others: Array = self.lanes.sharing(self.lanes.cluster[self.lanes.block], here) & ~here
        return others

    def _mbarrier(self, number: int, place: SourceSite, here: Array) -> None:
        """An mbarrier: the missing arrivals may come from any other thread of the cluster, or from a copy."""
        wait, block = place.wait, int(self.lanes.block[here][0])
        assert wait is not None
        state = state_of(self.lanes.core, block, wait.mbarrier) if wait.mbarrier is not None else None
        if state is not None:
            self.mbarriers[number] = state
            if wait.parity is not None and state.parity != wait.parity:
                self.why[number] = "passing"
                return
            if not state.pending and state.missing_bytes:
                self.why[number] = "copies"
                return
        same = self.lanes.at(self._with(lambda one: one.kind == "mbarrier" and one.mbarrier == wait.mbarrier))
        self._add(number, self._others_of_cluster(here) & ~same, False)


def _is_grid_barrier(place: SourceSite) -> bool:
    polls = place.wait is not None and place.wait.kind == "memory"
    return (
        polls
        and place.chain is not None
        and any(_GRID_BARRIER.search(frame.function) for frame in place.chain.frames)
    )

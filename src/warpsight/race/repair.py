"""What would repair a race: which barrier, fence, scope or wait, on which line.

It follows from the two accesses: who makes them, by which instructions, and what stands between them in the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.race.points import points_of
from warpsight.race.suspects import Access, Suspect, line_of
from warpsight.sass.event_trace import EventTrace, Place
from warpsight.sass.races.accesses import BLOCK, Accesses, accesses
from warpsight.sass.races.fences import Fences
from warpsight.sass.races.streams import REASON as TWO_STREAMS
from warpsight.sass.races.witness import Race, Side

Array = npt.NDArray[Any]
_ASYNC_WRITES = {"bulk_load": "the mbarrier of the bulk copy", "bulk_shared": "the mbarrier of the bulk copy",
                 "store_async": "the mbarrier of the asynchronous store",
                 "copy_async": "the cp.async group (cp.async.wait_group, then a barrier)"}  # fmt: skip
_ASYNC_READS = ("bulk_store", "bulk_reduce", "wgmma")


class Repairs:
    """Suggests repairs with what an event trace knows of the code; without a trace, by the accesses alone."""

    def __init__(self, traces: Sequence[EventTrace]) -> None:
        """Note which kinds of instructions each line has, and each kernel."""
        self._traces = traces
        self._on_line: dict[str, set[str]] = defaultdict(set)
        self._in_file: dict[str, set[str]] = defaultdict(set)
        self._one_way: set[str] = set()  # files with `bar.arrive`
        for trace in traces:
            for point in points_of(trace):
                for line in point.source:
                    path, _, number = line.rpartition(":")
                    name = path.rpartition("/")[2]
                    self._on_line[f"{name}:{number}"].add(point.kind)
                    self._in_file[name].add(point.kind)
                    if any("BAR.ARV" in text for text in self._code(trace, point.kernel)):
                        self._one_way.add(name)

    @staticmethod
    @lru_cache(maxsize=1024)
    def _code(trace: EventTrace, function: str) -> tuple[str, ...]:
        return tuple(
            text for module in trace.file.cubins for text in trace.instructions(module, function).values()
        )

    def repaired(self, suspect: Suspect) -> Suspect:
        """The suspect with a repair."""
        return replace(suspect, repair=self._repair(suspect))

    def _repair(self, suspect: Suspect) -> str:
        first, second = suspect.first, suspect.second
        if second is None:
            return (
                f"cluster.sync() (barrier.cluster.arrive and wait) after {_at(first)}, in all blocks of the cluster, before they "
                "end: the shared memory of a block ends with it"
            )
        if suspect.reason == TWO_STREAMS:
            return (
                f"an event: cudaEventRecord on the first kernel's stream behind its launch, and cudaStreamWaitEvent on the "
                f"second's before its launch ({_at(first)}, then {_at(second)})"
            )
        asynchronous = self._asynchronous(first, second)
        if asynchronous:
            return asynchronous
        race = suspect.race
        if race is not None and race.first.block != race.second.block:
            return self._between_blocks(race, first, second)
        if (
            race is not None and race.first.thread // 32 == race.second.thread // 32
        ) or "warp" in suspect.reason.split("two")[0]:
            return f"__syncwarp() between {_at(first)} and {_at(second)}, where all lanes of the warp come by"
        return self._within_block(first, second)

    def _asynchronous(self, first: Access, second: Access) -> str:
        """Where one side is a copy of another proxy."""
        for one, other in ((first, second), (second, first)):
            kinds = self._kinds(one)
            for kind, wait in _ASYNC_WRITES.items():
                if kind in kinds and "shared" not in kinds:
                    return f"wait for {wait} at {_at(one)} before {_at(other)}"
            if kinds & set(_ASYNC_READS) and "shared" not in kinds:
                return f"fence.proxy.async behind {_at(other)}, and then a barrier before {_at(one)}"
        return ""

    def _kinds(self, access: Access) -> set[str]:
        """The kinds of instructions of an access's line."""
        return self._on_line.get(access.line, set())

    def _within_block(self, first: Access, second: Access) -> str:
        files = {access.line.rpartition(":")[0] for access in (first, second)}
        kinds = set().union(*(self._in_file.get(file, set()) for file in files))
        read_first = first.operation in ("load", "read") and second.operation in ("store", "write")
        written, read = (second, first) if read_first else (first, second)
        if "mbarrier" in kinds:
            return (
                f"before {_at(read)}, wait for the mbarrier's phase that the arrival behind {_at(written)} ends: each phase in "
                "turn, by its own parity, or an mbarrier of its own"
            )
        if files & self._one_way:
            return (
                f"the same named barrier on both sides: what arrives behind {_at(written)} (bar.arrive) is what has to be waited "
                f"for before {_at(read)} (bar.sync)"
            )
        again = " (of the next pass, in a loop; or one buffer more)" if read_first else ""
        return f"{_barrier(first)} between {_at(first)} and {_at(second)}{again}"

    def _between_blocks(self, race: Race, first: Access, second: Access) -> str:
        trace = next((one for one in self._traces if _has(one, race)), None)
        flag = _flag(trace, race) if trace is not None and race.first.operation != "atomic" else None
        if flag is not None:
            return flag.repair(first, second)
        if race.first.operation == race.second.operation == "atomic":
            return f"device scope instead of block scope: at {_at(first)} and {_at(second)} (atomicAdd, not atomicAdd_block)"
        if first.line == second.line or {race.first.operation, race.second.operation} == {"load", "store"}:
            return (
                f"one atomic for reading and writing at {_at(second)} (atomicAdd), or a lock around {_at(first)} and "
                f"{_at(second)}; where one block only hands over to the other: a flag, with __threadfence() before it is set and "
                "after it is read"
            )
        return f"memory of their own for the blocks, or two launches: {_at(first)} and {_at(second)} write the same bytes"


def _at(access: Access) -> str:
    if not access.line:
        return f"the {access.operation} ({access.sass or 'line unknown'})"
    outer = line_of(access.frames[-1:])
    inlined = (
        f", inlined at {outer}"
        if outer and outer.rpartition(":")[0] != access.line.rpartition(":")[0]
        else ""
    )
    return f"the {access.operation} at {access.line}{inlined}"


def _has(trace: EventTrace, race: Race) -> bool:
    launch = trace.launches.get(race.launch)
    return launch is not None and launch.name == race.kernel


def _barrier(access: Access) -> str:
    """A barrier of a block in the language of an access."""
    return "a barrier (in Triton tl.debug_barrier())" if ".py:" in access.line else "__syncthreads()"


@dataclass(frozen=True)
class _Flag:
    """A word that the first access's block sets behind it, and that the second's block reads before it.

    Attributes:
        release, acquire: the lines of that; scopes: of both; fences: the scopes of what stands between accesses and flag.
        others: whether another warp than that of the access sets it, and reads it.
    """

    release: str
    acquire: str
    scopes: tuple[int, int]
    fences: tuple[int, int]
    others: tuple[bool, bool]

    def repair(self, first: Access, second: Access) -> str:
        """What the hand-over by the flag lacks."""
        parts = []
        if self.others[0]:
            parts.append(
                f"{_barrier(first)} between {_at(first)} and {self.release}, where another warp of the block hands over"
            )
        if self.others[1]:
            parts.append(
                f"{_barrier(second)} between {self.acquire}, where another warp takes over, and {_at(second)}"
            )
        if parts:
            return "; ".join(parts)
        for scope, place in zip(self.scopes, (self.release, self.acquire), strict=True):
            if scope == BLOCK:
                parts.append(f"device scope instead of block scope for the atomic at {place}")
        if self.fences[0] <= BLOCK:
            parts.append(f"__threadfence() between {_at(first)} and {self.release}, which sets the flag")
        if self.fences[1] <= BLOCK and self.scopes[1] != BLOCK:
            parts.append(
                f"__threadfence() between {self.acquire}, which reads the flag or takes the lock, and {_at(second)}"
            )
        return "; ".join(parts) or (
            f"the flag of {self.release} and {self.acquire} is set before {_at(first)} is done: set it behind all writes"
        )


def _flag(trace: EventTrace, race: Race) -> _Flag | None:
    launch = trace.launches[race.launch]
    events = trace.of_launch(launch.number)
    own = accesses(trace, launch, events)
    for whole in (False, True):  # of the accesses' warps, else of their blocks
        after = _strong_of(own, race.first, whole)
        after = after[own.event[after] > race.first.event]
        before = _strong_of(own, race.second, whole)
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
    fences = Fences(trace)
    chosen = events.pc[[int(own.event[release]), int(own.event[acquire])]]
    set_at, read_at = (trace.places(launch, chosen[at : at + 1])[0] for at in (0, 1))
    recorded = frozenset(place.offset // 16 for place in trace.places(launch, np.unique(events.pc)))
    scopes = (int(own.scope[release]), int(own.scope[acquire]))
    crossed = (
        fences.between(race.first.place, set_at, recorded - {set_at.offset // 16}),
        fences.between(read_at, race.second.place, recorded - {race.second.place.offset // 16}),
    )
    lines = [_line(trace, place) for place in (set_at, read_at)]
    ends = ((race.first, release), (race.second, acquire))
    others = [int(own.thread[row]) // 32 != side.thread // 32 for side, row in ends]
    return _Flag(lines[0], lines[1], scopes, crossed, (others[0], others[1]))


def _line(trace: EventTrace, place: Place) -> str:
    """The outermost line of an instruction that is in the same file as its function, which is where a reader looks."""
    frames = trace.chain(place)
    return f"{frames[-1].file.rpartition('/')[2]}:{frames[-1].line}" if frames else "a line that is not known"


def _strong_of(own: Accesses, side: Side, whole: bool) -> Array:
    """Atomic and strong accesses of a side's warp, or of its whole block."""
    same = (own.block == side.block) & (whole | (own.thread // 32 == side.thread // 32))
    return np.flatnonzero(same & (own.scope > 0))

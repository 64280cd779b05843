"""Repairs of a race: which barrier, fence, scope or wait, on which line.

The repair depends on the two accesses: which threads and instructions make them, and what lies between them in the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from warpsight.race.hand_over import FlagUse
from warpsight.race.points import points_of
from warpsight.race.suspects import Access, Suspect
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.streams import REASON as TWO_STREAMS
from warpsight.sass.races.witness import Race

_ASYNC_WRITES = {"bulk_load": "the mbarrier of the bulk copy", "bulk_shared": "the mbarrier of the bulk copy",
                 "store_async": "the mbarrier of the asynchronous store",
                 "copy_async": "the cp.async group (cp.async.wait_group, then a barrier)"}  # fmt: skip
_ASYNC_READS = ("bulk_store", "bulk_reduce", "wgmma")


class Repairs:
    """Suggests repairs from an event trace's knowledge of the code, or from the accesses alone."""

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
                f"cluster.sync() (barrier.cluster.arrive and wait) after {first.words}, in all blocks of the cluster, before "
                "they end: the shared memory of a block ends with it"
            )
        if suspect.reason == TWO_STREAMS:
            return (
                f"an event: cudaEventRecord on the first kernel's stream after its launch, and cudaStreamWaitEvent on the "
                f"second's before its launch ({first.words}, then {second.words})"
            )
        asynchronous = self._asynchronous(first, second)
        if asynchronous:
            return asynchronous
        race = suspect.race
        apart = race is not None and race.first.block != race.second.block
        if not apart and (
            (race is not None and race.first.thread // 32 == race.second.thread // 32)
            or "warp" in suspect.reason.split("two")[0]
        ):
            return f"__syncwarp() between {first.words} and {second.words}, which all lanes of the warp reach"
        handed_over = self._handed_over(race, first, second) if race is not None else ""
        if handed_over:
            return handed_over
        return self._between_blocks(first, second) if apart else self._within_block(first, second)

    def _asynchronous(self, first: Access, second: Access) -> str:
        """Cases in which one side is a copy through another proxy."""
        for one, other in ((first, second), (second, first)):
            kinds = self._kinds(one)
            for kind, wait in _ASYNC_WRITES.items():
                if kind in kinds and "shared" not in kinds:
                    return f"wait for {wait} at {one.words} before {other.words}"
            if kinds & set(_ASYNC_READS) and "shared" not in kinds:
                return f"fence.proxy.async after {other.words}, and then a barrier before {one.words}"
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
                f"before {read.words}, wait for the mbarrier's phase that the arrival after {written.words} ends: each phase in "
                "turn, by its own parity, or an mbarrier of its own"
            )
        if files & self._one_way:
            return (
                f"the same named barrier on both sides: arrive at it after {written.words} (bar.arrive), and wait for it "
                f"before {read.words} (bar.sync)"
            )
        if "atomic" in (first.operation, second.operation) and first.operation != second.operation:
            return f"{_made_atomic(first, second)}, or {first.barrier} between the two"
        again = " (of the next pass, in a loop; or one buffer more)" if read_first else ""
        return f"{first.barrier} between {first.words} and {second.words}{again}"

    def _handed_over(self, race: Race, first: Access, second: Access) -> str:
        """What a flag or a lock lacks, if a side uses one."""
        trace = next((one for one in self._traces if _has(one, race)), None)
        if trace is None or race.first.operation == race.second.operation == "atomic":
            return ""
        use = FlagUse(trace, race)
        flag = use.flag() if race.first.operation != "atomic" else None
        if flag is not None:
            return flag.repair(first, second)
        for guarded, other in ((race.first, second), (race.second, first)):
            lock = use.lock(guarded)
            if lock:
                return f"the lock of {lock} around {other.words} too"
        return ""

    def _between_blocks(self, first: Access, second: Access) -> str:
        operations = {first.operation, second.operation}
        if operations == {"atomic"}:
            return f"device scope instead of block scope: at {first.words} and {second.words} (atomicAdd, not atomicAdd_block)"
        if "atomic" in operations:
            return f"{_made_atomic(first, second)}, or memory of their own for the blocks"
        if first.line == second.line or operations == {"load", "store"}:
            return (
                f"one atomic for reading and writing at {second.words} (atomicAdd), or a lock around {first.words} and "
                f"{second.words}; where one block only hands over to the other: a flag, with __threadfence() before it is set "
                "and after it is read"
            )
        return f"memory of their own for the blocks, or two launches: {first.words} and {second.words} write the same bytes"


def _made_atomic(first: Access, second: Access) -> str:
    """A race with only one atomic access: make the other one atomic, too."""
    plain = second if first.operation == "atomic" else first
    return f"{plain.words} as an atomic ({'atomicExch' if plain.operation == 'store' else 'a volatile load'})"


def _has(trace: EventTrace, race: Race) -> bool:
    launch = trace.launches.get(race.launch)
    return launch is not None and launch.name == race.kernel

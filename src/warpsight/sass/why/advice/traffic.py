"""A kernel's load on the multiprocessor's memory pipe and on memory, and the remainder after a change.

All of a multiprocessor's accesses go through one pipe. Shared memory takes a pass for each word that lanes need from one bank,
other memory one for each line of 128 bytes, or for two sectors of 32. Samples tell how often each instruction is issued per
cycle, and the code tells the lanes' addresses, so the passes per cycle are known. When they come close to one, warps wait for the
pipe, wherever they are sampled. The memory's bandwidth limits what any change of accesses can save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from warpsight.device_code.latencies import usual_latency
from warpsight.sass.why.blame import Blame
from warpsight.sass.why.footprint import footprint

if TYPE_CHECKING:
    from warpsight.sass.why.advice.finding import KernelFacts

_SPACES = ("global", "generic", "local", "shared")
_QUEUES = ("lg_throttle", "mio_throttle")
_WAITS = ("long_scoreboard", "short_scoreboard", "drain", "membar")
_LANES, _LINE, _SECTOR = 32, 128, 32
#: What memory moves for a lane whose neighbors access other places.
_SCATTERED = 64
#: Passes a cycle from which the pipe is the limit; the part of the peak that memory reaches.
LIMIT, _REACHED = 0.7, 0.92
#: The part of all issues from which what is executed once says how often the rest is.
_MUCH = 0.3
#: Bytes that the second-level cache holds: 4 MiB on the smallest data center GPU since Turing (T4).
_CACHED = (4 << 20) + 1024
#: Accesses delay each other from this share of samples in queues, and from results that take this many times the usual latency.
_QUEUED, _DELAYED = 0.1, 1.5


@dataclass(frozen=True)
class _Access:
    """One access to memory.

    Attributes:
        index: the instruction; times: samples in which it was issued.
        passes, fewest: through the pipe, now and at least; known: whether the code says where the lanes' addresses are.
        moved, needed: bytes of global memory, with what only shares sectors, and without.
    """

    index: int
    times: float
    passes: float
    fewest: float
    known: bool
    moved: float
    needed: float


class Traffic:
    """The accesses of one kernel."""

    def __init__(self, facts: KernelFacts) -> None:
        self._facts = facts
        found = (
            self._access(one.index)
            for one in facts.code.instructions
            if one.kind.space in _SPACES and (one.kind.load or one.kind.store or one.kind.atomic)
        )
        self.accesses = {one.index: one for one in found if one.times}

    def _access(self, index: int) -> _Access:
        kind, times = self._facts.instruction(index).kind, self._facts.executions(index)
        wide = max(kind.bits, 32) / 32
        if kind.space == "local":
            return _Access(index, times, 2 * wide, 2 * wide, True, 0.0, 0.0)
        lanes = self._facts.lanes.of(index)
        if kind.space == "shared":
            parts = self._facts.lanes.parts(index)
            passes, fewest = parts or (_LANES * wide, wide)
            return _Access(index, times, passes, fewest, parts is not None, 0.0, 0.0)
        if lanes is None:
            moved = 0.0 if kind.atomic else float(_LANES * _SCATTERED)
            return _Access(index, times, _LANES, 2 * wide, False, moved, moved)
        sectors, lines = len(np.unique(lanes // _SECTOR)), len(np.unique(lanes // _LINE))
        needed = len(np.unique(lanes)) * kind.bits / 8
        passes, fewest = max(lines, sectors / 2), max(needed / _LINE, -(-needed // _SECTOR) / 2)
        if kind.atomic:
            return _Access(index, times, _LANES, _LANES, True, 0.0, 0.0)
        inside = footprint(self._facts.dependencies, index)
        if inside is not None and inside <= _CACHED:
            return _Access(index, times, passes, min(fewest, passes), True, 0.0, 0.0)
        return _Access(index, times, passes, min(fewest, passes), True, sectors * _SECTOR, needed)

    @cached_property
    def rate(self) -> float:
        """Convert samples of issues to issues per cycle of a multiprocessor.

        Instructions that every warp executes once give the exact factor if they have many samples; otherwise the share of cycles
        with an issue gives it.
        """
        facts, launch = self._facts, self._facts.launch
        graph = facts.code.graph
        ends = [
            graph.block_of[one.index]
            for one in facts.code.instructions
            if one.operation == "EXIT" and not one.access.guard
        ]
        once = [
            block for block in graph.blocks
            if graph.loop_of[block.number] is None and ends and all(graph.dominates(block.number, end) for end in ends)
        ]  # fmt: skip
        issued = facts.issued_in(block.number for block in once)
        if (
            launch.cycles
            and launch.multiprocessors
            and issued >= _MUCH * facts.samples.issued
            and issued >= 1
        ):
            warps = launch.blocks * -(-launch.threads // _LANES)
            return warps / launch.multiprocessors / launch.cycles / (issued / sum(map(len, once)))
        return 4 * facts.issue_bound / max(facts.samples.issued, 1)

    @cached_property
    def load(self) -> float:
        """Passes per cycle, at most one: more would mean that unknown addresses are closer together than assumed."""
        return min(self._passes(self.accesses.values()), 1.0)

    def _passes(self, accesses: Iterable[_Access]) -> float:
        return self.rate * sum(one.times * one.passes for one in accesses)

    def busy_memory(self, *, needed: bool) -> float:
        """The minimum share of time that memory needs for the bytes moved, or for those required; 0 if caches must help."""
        most = self._facts.launch.bytes_per_cycle
        if not most:
            return 0.0
        moved = sum(one.times * (one.needed if needed else one.moved) for one in self.accesses.values())
        share = self.rate * moved / most / _REACHED
        return share if share <= 1 / _REACHED else 0.0

    @cached_property
    def room(self) -> float:
        """How much faster accesses could follow each other before memory or the pipe is saturated."""
        known = self._passes(one for one in self.accesses.values() if one.known)
        pipe = self.load if self._contended else min(known, 1.0)
        busy = max(self.busy_memory(needed=False), pipe)
        return 1 / min(max(busy, 0.01), 1.0)

    @cached_property
    def _contended(self) -> bool:
        """Whether warps wait for queues, or for results longer than unhindered accesses take."""
        facts = self._facts
        queued = samples_in(part for part in facts.blamed.blames if part.reason in _QUEUES)
        waited = samples_in(
            part for part in facts.blamed.blames if part.reason in _WAITS and part.cause in self.accesses
        )
        alone: dict[int, float] = {}  # accesses of a block are under way together
        for one in self.accesses.values():
            block = facts.code.graph.block_of[one.index]
            usual = usual_latency(facts.instruction(one.index)) * one.times
            alone[block] = max(alone.get(block, 0.0), usual)
        return queued > _QUEUED * facts.total or waited > _DELAYED * sum(alone.values())

    def beyond_shared(self) -> list[int]:
        """Accesses that leave the multiprocessor."""
        return [index for index in self.accesses if self._facts.instruction(index).kind.space != "shared"]

    @cached_property
    def queued_atomics(self) -> float:
        """Atomics per cycle, of all multiprocessors, on addresses that are the same for all threads.

        Compilers let one lane add up for its warp, under a guard; without, each lane's atomic counts.
        """
        facts, found = self._facts, 0.0
        for index in self.beyond_shared():
            one, lanes = facts.instruction(index), facts.lanes.of(index)
            if one.kind.atomic and lanes is not None and not np.ptp(lanes) and not self._by_thread(index):
                found += self.accesses[index].times * (1 if one.access.guard else _LANES)
        return found * self.rate * facts.launch.multiprocessors

    def _by_thread(self, index: int) -> bool:
        """Whether an address comes from the number of a thread or block, or from loaded data."""
        facts, seen = self._facts, {index}
        waiting = [(index, facts.instruction(index).access.addresses)]
        while waiting:
            at, registers = waiting.pop()
            for made in facts.dependencies.producers(at):
                if made.registers & registers and made.index not in seen:
                    one = facts.instruction(made.index)
                    if one.operation in ("S2R", "S2UR") or (one.kind.load and one.kind.space != "constant"):
                        return True
                    seen.add(made.index)
                    waiting.append((made.index, one.access.reads))
        return False

    def wasteful(self, spaces: Collection[str]) -> list[int]:
        """Accesses that take more passes than necessary; those with unknown addresses only if their queue stalls warps."""
        full = {
            part.cause for part in self._facts.blamed.blames
            if part.reason in _QUEUES and part.samples > self._facts.total / 100
        }  # fmt: skip
        return [
            one.index for one in self.accesses.values()
            if self._facts.instruction(one.index).kind.space in spaces and one.passes > one.fewest
            and (one.known or (one.index in full and not self._facts.instruction(one.index).kind.atomic))
        ]  # fmt: skip

    def stalls_of(self, indices: Collection[int]) -> list[Blame]:
        """The stalls that some accesses cause directly."""
        return self._facts.matching(lambda part: part.cause in indices and part.reason in (*_QUEUES, *_WAITS))

    def changed(self, left: Mapping[int, float], fewer: float = 0.0) -> float:
        """Estimated speedup if some accesses need only a share of their passes, and this many issues are saved."""
        facts = self._facts
        weights = {one.index: one.times * one.passes for one in self.accesses.values()}
        total = sum(weights.values())
        kept = (
            sum(weight * left.get(index, 1.0) for index, weight in weights.items()) / total if total else 1.0
        )
        memory = self.busy_memory(needed=True)
        if self.load >= LIMIT:
            return 1 / max(kept, memory, facts.issue_bound, 0.01)
        ended = self._ended(left, kept)
        return min(facts.unbounded(ended, fewer), 1 / max(memory, 0.01))

    def _ended(self, left: Mapping[int, float], kept: float) -> float:
        """Samples of stalls that end: those of the accesses, and the extra waiting time of the others."""
        ended = 0.0
        waits: dict[int, float] = {}
        for part in self._facts.blamed.blames:
            if part.cause not in self.accesses:
                continue
            if part.reason in _QUEUES:
                ended += part.samples * (1 - min(left.get(part.cause, 1.0), kept))
            elif part.reason in _WAITS:
                waits[part.cause] = waits.get(part.cause, 0.0) + part.samples
        for index, waited in waits.items():
            share = left.get(index, 1.0)
            alone = (
                usual_latency(self._facts.instruction(index)) * self.accesses[index].times if share else 0.0
            )
            ended += max(waited - max(waited * min(share, kept), alone), 0.0)
        return ended


def samples_in(parts: Iterable[Blame]) -> float:
    """All samples of some stalls."""
    return sum(part.samples for part in parts)

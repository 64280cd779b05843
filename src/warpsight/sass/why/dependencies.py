"""Backward search for an instruction's dependencies: producers of registers, setters of scoreboard barriers.

The search goes back over all paths, through calls and returns, shortest first in issue cycles (the stall counts between). The
search for a value ends at its write, unless that has a different guard; a scoreboard barrier counts operations in flight, so
setters add up until an instruction waits for it. Every setter between two waits is found, not only the last one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.flow.flow_graph import FlowGraph

_SEARCHED = 4096
#: Instructions in front of one among which those of a kind are looked for.
_MOST_BEFORE = 64


@dataclass(frozen=True)
class Producer:
    """The possible producers that an instruction waits for.

    Attributes:
        index: the instruction; cycles: issue cycles from it on the shortest path.
        registers: its registers that the waiting instruction needs, as bits.
        barriers: scoreboard barriers that it sets and the waiting instruction waits for, as bits.
    """

    index: int
    cycles: int
    registers: int = 0
    barriers: int = 0


class Dependencies:
    """Questions about one section of code, with cached answers."""

    def __init__(self, graph: FlowGraph) -> None:
        """Take the control-flow graph."""
        self.graph = graph
        self._registers: dict[int, list[Producer]] = {}
        self._setters: dict[int, list[Producer]] = {}

    @cached_property
    def _before(self) -> list[tuple[int, ...]]:
        """The instructions that can come before each, through calls and returns, too."""
        graph = self.graph
        before: list[list[int]] = [[] for _ in graph.instructions]
        for index, ahead in enumerate(graph.following):
            if graph.calls.get(index) is None:
                for one in ahead:
                    before[one].append(index)
        for entry, calls in graph.callers.items():
            before[entry] += calls
            for call in calls:
                if call + 1 < len(before):
                    before[call + 1] += graph.returns[entry]
        return [tuple(dict.fromkeys(found)) for found in before]

    def producers(self, index: int) -> list[Producer]:
        """The instructions whose results an instruction reads, nearest first."""
        known = self._registers.get(index)
        if known is None:
            one = self.graph.instructions[index]
            wanted = 0 if one.never else one.access.reads
            found = self._search(index, wanted, _writes, self._ended_by(one))
            known = [Producer(at, cycles, registers=bits) for at, (cycles, bits) in found.items()]
            self._registers[index] = known
        return known

    def setters(self, index: int) -> list[Producer]:
        """The instructions that set the scoreboard barriers an instruction waits for, nearest first."""
        known = self._setters.get(index)
        if known is None:
            one = self.graph.instructions[index]
            found = self._search(index, waited_for(one), _sets, _cleared)
            known = [
                replace(Producer(at, cycles, barriers=bits), registers=conflicts(self.graph.instructions[at], one))
                for at, (cycles, bits) in found.items()
            ]  # fmt: skip
            self._setters[index] = known = _beyond_allowed(known, one)
        return known

    def nearest(self, index: int, wanted: Callable[[Decoded], bool], most: int = 256) -> list[Producer]:
        """The first instructions of a kind met on each path back, nearest first."""
        found = self._search(
            index, 1, lambda one: 1 if wanted(one) else 0, lambda one: 1 if wanted(one) else 0, most
        )
        return [Producer(at, cycles) for at, (cycles, _) in found.items()]

    def all_before(self, index: int, wanted: Callable[[Decoded], bool]) -> list[Producer]:
        """The nearest preceding instructions of a kind, nearest first."""
        found = self._search(index, 1, lambda one: 1 if wanted(one) else 0, lambda _: 0, _MOST_BEFORE)
        return [Producer(at, cycles) for at, (cycles, _) in found.items()]

    def _ended_by(self, reader: Decoded) -> Callable[[Decoded], int]:
        """The values that a write ends: unguarded ones, or those under the reader's guard while its predicate is unchanged."""
        graph, predicate = self.graph, reader.access.guard
        guard = (predicate, reader.access.negated)
        first = graph.blocks[graph.block_of[reader.index]].first
        # In the reader's own block, behind the last write of its guard, the same guard means the same lanes.
        since = max(
            (at for at in range(first, reader.index) if graph.instructions[at].access.writes & predicate), default=first - 1
        )  # fmt: skip

        def ended(one: Decoded) -> int:
            if one.never:
                return 0
            own = (one.access.guard, one.access.negated)
            same = own == guard and since < one.index < reader.index
            return one.access.writes if not own[0] or same else 0

        return ended

    def _search(
        self,
        start: int,
        wanted: int,
        gives: Callable[[Decoded], int],
        ends: Callable[[Decoded], int],
        most: int = _SEARCHED,
    ) -> dict[int, tuple[int, int]]:
        """Instructions that provide some of the wanted bits, with the cycles of the shortest path and the bits."""
        found: dict[int, tuple[int, int]] = {}
        seen: dict[int, int] = {}
        waiting: list[tuple[int, int, int]] = []
        self._push(waiting, start, 0, wanted)
        steps = 0
        while waiting and steps < most:
            steps += 1
            cycles, index, bits = heapq.heappop(waiting)
            bits &= ~seen.get(index, 0)
            if not bits:
                continue
            seen[index] = seen.get(index, 0) | bits
            one = self.graph.instructions[index]
            given = gives(one) & bits
            if given:
                nearest, before = found.get(index, (cycles, 0))
                found[index] = (nearest, before | given)
            self._push(waiting, index, cycles, bits & ~ends(one))
        return found

    def _push(self, waiting: list[tuple[int, int, int]], index: int, cycles: int, bits: int) -> None:
        if not bits:
            return
        for before in self._before[index]:
            stall = self.graph.instructions[before].scheduling.stall
            heapq.heappush(waiting, (cycles + max(stall, 1), before, bits))


def waited_for(one: Decoded) -> int:
    """The scoreboard barriers an instruction waits for, as bits: its wait mask, and one named by DEPBAR."""
    return one.scheduling.waits | _named_barrier(one)


def _named_barrier(one: Decoded) -> int:
    operands = one.access.operands
    if one.operation == "DEPBAR" and operands and operands[0][:2] == "SB" and operands[0][2:].isdigit():
        return 1 << int(operands[0][2:])
    return 0


def _allowed(one: Decoded) -> int:
    """How many operations DEPBAR leaves in flight: `DEPBAR.LE SB0, 0x1`."""
    operands = one.access.operands
    number = operands[1] if _named_barrier(one) and len(operands) > 1 else "0"
    return int(number, 16) if number.startswith("0x") else int(number) if number.isdigit() else 0


def _beyond_allowed(found: list[Producer], waiting: Decoded) -> list[Producer]:
    """Leave out the nearest setters that a DEPBAR allows in flight, as long as there are others."""
    named, allowed = _named_barrier(waiting), _allowed(waiting)
    for one in [one for one in found if one.barriers & named][:allowed]:
        if sum(1 for other in found if other.barriers & named) > 1:
            found = [other for other in found if other is not one]
    return found


def _cleared(one: Decoded) -> int:
    """The barriers that are clear once an instruction has issued; DEPBAR.LE with a non-zero number leaves some in flight."""
    return one.scheduling.waits | (0 if _allowed(one) else _named_barrier(one))


def _sets(one: Decoded) -> int:
    return one.scheduling.sets


def _writes(one: Decoded) -> int:
    return 0 if one.never else one.access.writes


def conflicts(setter: Decoded, waiting: Decoded) -> int:
    """Registers for which an instruction must wait for another: results it reads or overwrites, operands it overwrites."""
    found = 0
    if setter.scheduling.write_barrier is not None:
        found |= setter.access.writes & (waiting.access.reads | waiting.access.writes)
    if setter.scheduling.read_barrier is not None:
        found |= setter.access.reads & waiting.access.writes
    return found


def hazard(setter: Decoded, waiting: Decoded) -> str:
    """Why an instruction waits for a setter: `RAW`, `WAW`, `WAR`, or `order` if they share no register."""
    if setter.scheduling.write_barrier is not None or setter.scheduling.sets == 0:
        if setter.access.writes & waiting.access.reads:
            return "RAW"
        if setter.access.writes & waiting.access.writes and setter.scheduling.sets:
            return "WAW"
    if setter.scheduling.read_barrier is not None and setter.access.reads & waiting.access.writes:
        return "WAR"
    return "order"

"""Live registers: those whose value is read later, before and after each instruction.

The analysis runs backward over the control-flow graph; sets are integers (:mod:`warpsight.device_code.registers`). Compilers turn
short branches into guards, so a set is kept for each guard, too: after `@P0 MOV R4, …`, a reader of R4 needs the older value only
if P0 is false, and an earlier `@!P0 MOV R4, …` ends that need. At a call, everything that the called function needs is live; at
its return, everything that is live after any of its calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from warpsight.device_code.decoded import Decoded
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.device_code.registers import only

#: Guard (a predicate's bit, and whether it must be false) → registers live where it holds; (0, False) holds everywhere.
_Live = dict[tuple[int, bool], int]
_EVERYWHERE = (0, False)


@dataclass(frozen=True)
class Liveness:
    """Live registers of a section.

    Attributes:
        before, after: for each instruction, the registers live before and after it, as bits.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]

    def pressure(self, index: int, file: str = "R") -> int:
        """The number of registers of a file that hold a live value before or after an instruction."""
        return only(self.before[index] | self.after[index], file).bit_count()

    @cached_property
    def highest(self) -> int:
        """The instruction with the most live registers of a thread."""
        return max(range(len(self.before)), key=lambda index: (self.pressure(index), -index), default=0)


def liveness(graph: FlowGraph) -> Liveness:
    """The live registers of every instruction."""
    ahead, behind = _ahead(graph), _behind(graph)
    into: list[_Live] = [{} for _ in graph.blocks]
    waiting = set(range(len(graph.blocks)))
    while waiting:
        number = max(waiting)
        waiting.discard(number)
        block = graph.blocks[number]
        live = _union(into, ahead[number])
        for index in range(block.last, block.first - 1, -1):
            _step(live, graph.instructions[index])
        if live != into[number]:
            into[number] = live
            waiting.update(behind[number])
    return _by_instruction(graph, into, ahead)


def _ahead(graph: FlowGraph) -> list[list[int]]:
    """The blocks that can come after each block, including through calls and returns."""
    ahead = [list(block.successors) for block in graph.blocks]
    for entry, calls in graph.callers.items():
        behind = [graph.block_of[call + 1] for call in calls if call + 1 < len(graph.instructions)]
        for call in calls:
            ahead[graph.block_of[call]].append(graph.block_of[entry])
        for last in graph.returns[entry]:
            ahead[graph.block_of[last]] += behind
    return ahead


def _behind(graph: FlowGraph) -> list[list[int]]:
    behind: list[list[int]] = [[] for _ in graph.blocks]
    for number, successors in enumerate(_ahead(graph)):
        for successor in successors:
            behind[successor].append(number)
    return behind


def _union(into: Sequence[_Live], numbers: Sequence[int]) -> _Live:
    found: _Live = {}
    for number in numbers:
        for guard, registers in into[number].items():
            found[guard] = found.get(guard, 0) | registers
    return _reduced(found)


def _reduced(live: _Live) -> _Live:
    """The sets without empty ones, and without registers that are live under every guard."""
    everywhere = live.get(_EVERYWHERE, 0)
    for predicate, _ in list(live):
        if predicate:
            everywhere |= live.get((predicate, False), 0) & live.get((predicate, True), 0)
    found = {guard: kept for guard, registers in live.items()
             if guard != _EVERYWHERE and (kept := registers & ~everywhere)}  # fmt: skip
    if everywhere:
        found[_EVERYWHERE] = everywhere
    return found


def _step(live: _Live, one: Decoded) -> None:
    """Move liveness from after an instruction to before it, in place."""
    if one.never:
        return
    known = one.access
    guard = (known.guard, known.negated) if known.guard else _EVERYWHERE
    if known.writes:
        _write(live, guard, known.writes)
    if known.reads:
        live[_EVERYWHERE] = live.get(_EVERYWHERE, 0) | known.guard
        live[guard] = live.get(guard, 0) | known.reads
    reduced = _reduced(live)
    live.clear()
    live.update(reduced)


def _write(live: _Live, guard: tuple[int, bool], writes: int) -> None:
    if guard == _EVERYWHERE:
        for one in list(live):
            live[one] &= ~writes
    else:
        opposite = (guard[0], not guard[1])
        left = live.get(_EVERYWHERE, 0) & writes
        live[_EVERYWHERE] = live.get(_EVERYWHERE, 0) & ~writes
        live[opposite] = live.get(opposite, 0) | left
        live[guard] = live.get(guard, 0) & ~writes
    for one in list(live):  # in front of its own write, a predicate says nothing about later guards
        if one[0] & writes:
            live[_EVERYWHERE] = live.get(_EVERYWHERE, 0) | live.pop(one)


def _all(live: _Live) -> int:
    found = 0
    for registers in live.values():
        found |= registers
    return found


def _by_instruction(graph: FlowGraph, into: Sequence[_Live], ahead: Sequence[Sequence[int]]) -> Liveness:
    before, after = [0] * len(graph.instructions), [0] * len(graph.instructions)
    for block in graph.blocks:
        live = _union(into, ahead[block.number])
        for index in range(block.last, block.first - 1, -1):
            after[index] = _all(live)
            _step(live, graph.instructions[index])
            before[index] = _all(live)
    return Liveness(tuple(before), tuple(after))

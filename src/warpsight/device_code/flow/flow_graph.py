"""The control-flow graph of a section of code: basic blocks, calls, dominators, loops.

Blocks end at branches and begin where branches lead. Execution continues after a call unless nothing that it reaches returns;
such a call is a branch. Called functions are reached through :attr:`FlowGraph.callers` and :attr:`FlowGraph.returns`, so loops
and dominators belong to one function, and questions about values can cross calls. Dominators after Cooper, Harvey and Kennedy, "A
Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from warpsight.device_code.decoded import Decoded, branch_operand
from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.flow.control_flow import ControlFlow

_INDIRECT = ("BRX", "BRXU", "JMX", "JMXU")


@dataclass(frozen=True)
class _BasicBlock:
    """Instructions that run one after another; a call ends its block.

    Attributes:
        number: from 0, in the order of the code.
        first, last: instructions, both included.
        successors, predecessors: blocks of the same function.
    """

    number: int
    first: int
    last: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class _NaturalLoop:
    """A loop: all blocks from which a branch back to the head is reached without passing the head.

    Attributes:
        head: the block that every way into the loop passes; blocks: all of it.
        parent: number of the innermost loop around it in :attr:`FlowGraph.loops`; None for an outermost one.
        depth: 1 for an outermost loop.
    """

    head: int
    blocks: frozenset[int]
    parent: int | None
    depth: int


class FlowGraph:
    """The control flow of one section.

    Attributes:
        instructions: all of the section's.
        unresolved: indirect branches and calls whose targets are not known.
    """

    def __init__(
        self,
        instructions: Sequence[Decoded],
        flow: ControlFlow,
        indirect: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Build the graph from decoded instructions, their branches, and targets of indirect branches by offset."""
        self.instructions = instructions
        self._flow = flow
        self._indirect = {
            branch // INSTRUCTION_SIZE: [target // INSTRUCTION_SIZE for target in targets]
            for branch, targets in (indirect or {}).items()
        }

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """The successors of each instruction; for a call that returns, the instruction after it."""
        found = list(self._beside_jumps)
        for call, target in self._jumps.items():
            found[call] = self._of_jump(call, target)
        return found

    def _of_jump(self, call: int, target: int) -> tuple[int, ...]:
        guarded = self.instructions[call].access.guard and call + 1 < len(self.instructions)
        return tuple(dict.fromkeys([*([call + 1] if guarded else []), target]))

    @cached_property
    def _jumps(self) -> dict[int, int]:
        """Calls that do not return, which compilers use as far branches: no RET is reachable from their target."""
        calls = {call: target for call, target in self._all_calls.items() if target is not None}
        found: dict[int, int] = {}
        while True:
            ahead = list(self._beside_jumps)
            for call, target in found.items():
                ahead[call] = self._of_jump(call, target)
            new = {
                call: target
                for call, target in calls.items()
                if call not in found and not self._returns(target, ahead)
            }
            if not new:
                return found
            found |= new

    def _returns(self, entry: int, ahead: Sequence[tuple[int, ...]]) -> bool:
        seen, waiting = {entry}, [entry]
        while waiting:
            here = waiting.pop()
            if self.instructions[here].operation == "RET":
                return True
            new = [one for one in ahead[here] if one not in seen]
            seen.update(new)
            waiting += new
        return False

    @cached_property
    def _beside_jumps(self) -> list[tuple[int, ...]]:
        """The successors, assuming that every call returns."""
        count = len(self.instructions)
        falls, targets = self._flow.falls_through.tolist(), self._flow.targets.tolist()
        found: list[tuple[int, ...]] = []
        for index in range(count):
            ahead = [index + 1] if falls[index] and index + 1 < count else []
            if targets[index] >= 0:
                ahead.append(targets[index])
            ahead += [target for target in self._indirect.get(index, ()) if 0 <= target < count]
            found.append(tuple(dict.fromkeys(ahead)))
        return found

    @cached_property
    def calls(self) -> dict[int, int | None]:
        """Each call that may return and the first instruction of its callee; None as in `_all_calls`."""
        return {call: target for call, target in self._all_calls.items() if call not in self._jumps}

    @cached_property
    def _all_calls(self) -> dict[int, int | None]:
        """Each call and the first instruction of its callee; None if the target is in a register or another section."""
        found: dict[int, int | None] = {}
        for one in self.instructions:
            if one.operation == "CALL" and not one.never:
                target = branch_operand(one) if "REL" in one.access.modifiers else None
                inside = target is not None and 0 <= target < len(self.instructions) * INSTRUCTION_SIZE
                found[one.index] = target // INSTRUCTION_SIZE if target is not None and inside else None
        return found

    @cached_property
    def unresolved(self) -> list[int]:
        """Indirect branches and calls with unknown targets."""
        branches = [
            one.index
            for one in self.instructions
            if one.operation in _INDIRECT and one.index not in self._indirect
        ]
        return sorted([*branches, *(call for call, target in self.calls.items() if target is None)])

    @cached_property
    def entries(self) -> list[int]:
        """First instructions of the kernel and of the functions it calls."""
        return sorted({0, *(target for target in self.calls.values() if target is not None)})

    @cached_property
    def callers(self) -> dict[int, list[int]]:
        """The calls of each entry."""
        found: dict[int, list[int]] = {}
        for call, target in self.calls.items():
            if target is not None:
                found.setdefault(target, []).append(call)
        return found

    @cached_property
    def blocks(self) -> list[_BasicBlock]:
        """All blocks, in the order of the code."""
        count = len(self.instructions)
        leaders = {0, *self.entries, *(call + 1 for call in self.calls)}
        for index, ahead in enumerate(self.following):
            if ahead != (index + 1,):
                leaders.update(ahead)
                leaders.add(index + 1)
        firsts = sorted(leader for leader in leaders if leader < count)
        number_at = {first: number for number, first in enumerate(firsts)}
        lasts = [*(first - 1 for first in firsts[1:]), count - 1]
        ahead_of = [tuple(number_at[target] for target in self.following[last]) for last in lasts]
        behind: list[list[int]] = [[] for _ in firsts]
        for number, successors in enumerate(ahead_of):
            for successor in successors:
                behind[successor].append(number)
        return [
            _BasicBlock(number, first, last, ahead_of[number], tuple(behind[number]))
            for number, (first, last) in enumerate(zip(firsts, lasts, strict=True))
        ]

    @cached_property
    def block_of(self) -> list[int]:
        """The block of each instruction."""
        return [block.number for block in self.blocks for _ in range(len(block))]

    def _reached(self, entry: int) -> list[int]:
        """Blocks reached from an entry's, in reverse postorder."""
        root = self.block_of[entry]
        seen, order, stack = {root}, [], [(root, iter(self.blocks[root].successors))]
        while stack:
            here, ahead = stack[-1]
            following = next((one for one in ahead if one not in seen), None)
            if following is None:
                order.append(here)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].successors)))
        return order[::-1]

    @cached_property
    def functions(self) -> dict[int, frozenset[int]]:
        """Blocks of each function by its entry: those reachable without following calls."""
        return {entry: frozenset(self._reached(entry)) for entry in self.entries}

    @cached_property
    def returns(self) -> dict[int, list[int]]:
        """The RET instructions of each function, by its entry."""
        return {
            entry: [
                self.blocks[number].last
                for number in sorted(blocks)
                if self.instructions[self.blocks[number].last].operation == "RET"
            ]
            for entry, blocks in self.functions.items()
        }

    @cached_property
    def dominators(self) -> list[int | None]:
        """The immediate dominator of each block; an entry's is itself, an unreachable block's is None."""
        found: list[int | None] = [None] * len(self.blocks)
        for entry in self.entries:
            order = self._reached(entry)
            place = {number: at for at, number in enumerate(order)}
            immediate = _immediate_dominators(order, place, self.blocks)
            for number in order:
                if found[number] is None:
                    found[number] = immediate[number]
        return found

    def dominates(self, above: int, below: int) -> bool:
        """Whether every path to a block passes through another block (or the two are the same)."""
        here: int | None = below
        while here is not None:
            if here == above:
                return True
            upper = self.dominators[here]
            here = None if upper == here else upper
        return False

    @cached_property
    def loops(self) -> list[_NaturalLoop]:
        """All loops, outer before inner; branches back to the same head form one loop."""
        bodies: dict[int, set[int]] = {}
        for block in self.blocks:
            if self.dominators[block.number] is None:
                continue
            for head in block.successors:
                if self.dominates(head, block.number):
                    bodies.setdefault(head, {head}).update(self._body(block.number, head))
        ordered = sorted(bodies.items(), key=lambda item: (-len(item[1]), item[0]))
        found: list[_NaturalLoop] = []
        for head, body in ordered:
            around = [n for n, outer in enumerate(found) if head in outer.blocks and outer.head != head]
            parent = max(around, key=lambda n: found[n].depth, default=None)
            depth = 1 if parent is None else found[parent].depth + 1
            found.append(_NaturalLoop(head, frozenset(body), parent, depth))
        return found

    def _body(self, tail: int, head: int) -> set[int]:
        body, waiting = {head, tail}, [] if tail == head else [tail]
        while waiting:
            before = self.blocks[waiting.pop()].predecessors
            new = [one for one in before if one not in body and self.dominators[one] is not None]
            body.update(new)
            waiting += new
        return body

    @cached_property
    def loop_of(self) -> list[int | None]:
        """The innermost loop of each block, by number."""
        found: list[int | None] = [None] * len(self.blocks)
        for number, loop in enumerate(self.loops):  # outer first: inner ones overwrite
            for block in loop.blocks:
                found[block] = number
        return found

    def loop_at(self, index: int) -> int | None:
        """The innermost loop around an instruction, by number."""
        return self.loop_of[self.block_of[index]]

    def innermost_common_loop(self, one: int, other: int) -> int | None:
        """The innermost loop around two instructions, by number; None when no loop has both."""
        loop = self.loop_at(one)
        while loop is not None and self.block_of[other] not in self.loops[loop].blocks:
            loop = self.loops[loop].parent
        return loop


def _immediate_dominators(
    order: list[int], place: dict[int, int], blocks: Sequence[_BasicBlock]
) -> dict[int, int]:
    immediate = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            known = [one for one in blocks[number].predecessors if one in immediate and one in place]
            new = known[0]
            for other in known[1:]:
                new = _meet(new, other, immediate, place)
            if immediate.get(number) != new:
                immediate[number], changed = new, True
    return immediate


def _meet(one: int, other: int, immediate: Mapping[int, int], place: Mapping[int, int]) -> int:
    while one != other:
        while place[one] > place[other]:
            one = immediate[one]
        while place[other] > place[one]:
            other = immediate[other]
    return one

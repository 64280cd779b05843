"""The innermost loop around an instruction of device code.

Branches are read from the instructions themselves, which have 128 bits each since Volta: the operation is in bits 0-11, the guard
predicate in bits 12-15. A branch names its target relative to the next instruction, in units of four bytes: in bits 34-81, and
since Hopper its lowest byte is in bits 16-23. All this agrees with nvdisasm's output for sm_80, sm_90, sm_100 and sm_120.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpsight.device_code.disassembly import INSTRUCTION_SIZE
from warpsight.device_code.elf import Array

#: Larger loops are not polling loops, and are not searched for.
LARGEST_LOOP = 256
_BRANCHES = (0x947, 0x547)
_CALLS = (0x944, 0x344)
#: EXIT, RET, BRX, BRXU, JMP, JMX, without the form of their operands: control does not continue at the next instruction.
_LEAVING = (0x14D, 0x150, 0x149, 0x158, 0x14A, 0x14C)
_PT = 7
_HOPPER = 90


@dataclass(frozen=True)
class InstructionLoop:
    """A loop of device code; instructions are counted in their section.

    Attributes:
        head: the instruction through which every path enters the loop.
        branch: the instruction that jumps back to the head.
        body: all its instructions, ascending.
    """

    head: int
    branch: int
    body: tuple[int, ...]


class ControlFlow:
    """The branches of one section of code.

    Attributes:
        words: the instructions' lower and upper halves, shape (n, 2), uint64.
        architecture: the number in `sm_90`.
    """

    def __init__(self, code: bytes, architecture: int) -> None:
        """Take a section's code.

        Args:
            code: whole instructions.
            architecture: the number in `sm_90`.
        """
        whole = len(code) // INSTRUCTION_SIZE * INSTRUCTION_SIZE
        self.words: Array = np.frombuffer(code[:whole], "<u8").reshape(-1, 2)
        self.architecture = architecture

    @cached_property
    def relative_targets(self) -> Array:
        """The instruction named by each target field, if any, shape (n,), int64."""
        low, high = self.words[:, 0], self.words[:, 1]
        # 48 bits of target: 30 at the top of the lower half, 18 at the bottom of the upper one.
        distance = (low >> np.uint64(34)) | ((high & np.uint64(0x3FFFF)) << np.uint64(30))
        signed = (distance << np.uint64(16)).view(np.int64) >> 16
        if self.architecture >= _HOPPER:
            signed = (signed << 8) | ((low >> np.uint64(16)) & np.uint64(0xFF)).astype(np.int64)
        targets: Array = np.arange(len(low)) + 1 + signed * 4 // INSTRUCTION_SIZE
        return targets

    @cached_property
    def calls(self) -> Array:
        """Which instructions call a function at a known distance (CALL.REL), shape (n,), bool."""
        called: Array = np.isin(self.words[:, 0] & np.uint64(0xFFF), _CALLS)
        return called

    @cached_property
    def targets(self) -> Array:
        """The target of each branch, -1 for other instructions, shape (n,), int64."""
        low, target = self.words[:, 0], self.relative_targets
        known = np.isin(low & np.uint64(0xFFF), _BRANCHES) & (target >= 0) & (target < len(low))
        return np.where(known, target, -1)

    @cached_property
    def falls_through(self) -> Array:
        """Whether execution can continue with the next instruction, shape (n,), bool."""
        low, high = self.words[:, 0], self.words[:, 1]
        operation = low & np.uint64(0xFFF)
        always = (low >> np.uint64(12) & np.uint64(15)) == _PT
        # A branch can have a second predicate in bits 87-90; bit 91 and bits 32-33 are those of BRA.U, .DIV and .CONV.
        plain = (high >> np.uint64(23) & np.uint64(31)) == _PT
        if self.architecture >= _HOPPER:
            plain &= (low >> np.uint64(32) & np.uint64(3)) == 0
        jumps = (operation == _BRANCHES[0]) & plain
        leaves = np.isin(operation & np.uint64(0x1FF), _LEAVING)
        falls: Array = ~(always & (jumps | leaves))
        falls[-1:] = False
        return falls

    @cached_property
    def _sources(self) -> dict[int, list[int]]:
        """The branches that target each instruction."""
        found: dict[int, list[int]] = {}
        for branch in np.flatnonzero(self.targets >= 0).tolist():
            found.setdefault(int(self.targets[branch]), []).append(branch)
        return found

    @cached_property
    def entered(self) -> frozenset[int]:
        """The instructions that are branch targets."""
        return frozenset(self._sources)

    def loop_around(self, index: int) -> InstructionLoop | None:
        """The smallest loop around an instruction, or None.

        A branch forms a loop if every path into the loop passes the branch's target. The loop consists of the instructions from
        which the branch can be reached without passing the target.
        """
        best: InstructionLoop | None = None
        for branch in self._branches_ahead(index):
            head = int(self.targets[branch])
            found = self._loop_of(branch, head)
            if index in found and (best is None or len(found) < len(best.body)):
                best = InstructionLoop(head, branch, tuple(sorted(found)))
        return best

    def in_every_turn(self, loop: InstructionLoop, index: int) -> bool:
        """Whether each iteration of a loop passes an instruction: without it, the branch cannot be reached from the head."""
        if index in (loop.head, loop.branch):
            return True
        inside = set(loop.body) - {index}
        seen, waiting = {loop.head}, [loop.head]
        while waiting:
            reached = [one for one in self.following(waiting.pop()) if one in inside and one not in seen]
            seen.update(reached)
            waiting += reached
        return loop.branch not in seen

    def following(self, index: int) -> list[int]:
        """The possible successors of an instruction."""
        following = [index + 1] if self.falls_through[index] else []
        target = int(self.targets[index])
        return following if target < 0 else [*following, target]

    def _branches_ahead(self, index: int) -> list[int]:
        """The branches reachable from an instruction within the maximum loop size."""
        seen, ahead, waiting = {index}, [], deque([index])
        while waiting and len(seen) <= LARGEST_LOOP:
            here = waiting.popleft()
            if self.targets[here] >= 0:
                ahead.append(here)
            reached = [one for one in self.following(here) if one not in seen]
            seen.update(reached)
            waiting.extend(reached)
        return ahead

    def _loop_of(self, branch: int, head: int) -> set[int]:
        """The loop that a branch closes; empty if it closes none, or one that is too large."""
        found, waiting = {head, branch}, [] if branch == head else [branch]
        while waiting:
            here = waiting.pop()
            before = list(self._sources.get(here, ()))
            if here > 0 and self.falls_through[here - 1]:
                before.append(here - 1)
            if not before or len(found) > LARGEST_LOOP:
                return set()  # a way in that does not pass the target: the branch only goes back
            new = [one for one in before if one not in found]
            found.update(new)
            waiting += new
        return found

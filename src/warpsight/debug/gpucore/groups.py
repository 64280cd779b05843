"""Where all lanes of a dump are: a histogram by kernel, program counter and state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.layout import Kind, lane_state
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.debug.gpucore.waits import Wait, wait_at
from warpsight.device_code.elf import Array
from warpsight.device_code.inline_chain import SourceChain

_BLOCKED = 3


@dataclass(frozen=True)
class Group:
    """Lanes at one place.

    Attributes:
        grid: row of the grid table, -1 when the dump does not know it.
        pc: their program counter, the next instruction to issue.
        active: whether they are the warp's active lanes; otherwise they diverged and wait for their turn.
        lanes, warps, blocks: how many.
        states: what the convergence unit says about them, and how often (driver 575 and later).
        wait: what holds them, None when they compute or wait for memory.
        example: row of the lane table of the first of them.
    """

    grid: int
    pc: int
    active: bool
    lanes: int
    warps: int
    blocks: int
    states: tuple[tuple[str, int], ...]
    wait: Wait | None
    example: int

    @property
    def address(self) -> int:
        """The instruction that says most about them: the one they wait in, else the one they are at."""
        return self.wait.address if self.wait else self.pc


@dataclass(frozen=True)
class Lanes:
    """The joins of the lane table: for each lane its warp, block and grid rows (-1: not known), shape (n,)."""

    warp: Array
    block: Array
    grid: Array
    active: Array


def join(core: GpuCore) -> Lanes:
    """Follow every lane up to its grid."""
    lanes, warps = core.table(Kind.LANES), core.table(Kind.WARPS)
    warp = lanes.parent
    block = np.append(warps.parent, -1)[warp]
    grid = np.append(grid_of_blocks(core), -1)[block]
    mask = np.append(warps.rows["active"], 0)[warp]
    active = (mask >> (lanes.rows["lane"] & 31)) & 1 == 1
    return Lanes(warp, block, grid, active)


def grid_of_blocks(core: GpuCore) -> Array:
    """Row of the grid table for each block, -1 where none of its device has the block's grid id."""
    blocks, sms, grids = core.table(Kind.BLOCKS), core.table(Kind.SMS), core.table(Kind.GRIDS)
    device = np.append(sms.parent, -1)[blocks.parent]
    found = np.full(len(blocks), -1, np.int64)
    for row, (owner, number) in enumerate(zip(grids.parent.tolist(), grids.rows["id"].tolist(), strict=True)):
        found[(device == owner) & (blocks.rows["grid_id"] == number)] = row
    return found


def groups(core: GpuCore, code: Code, joined: Lanes | None = None) -> list[Group]:
    """All lanes by (grid, PC, active or diverged), the largest group first."""
    lanes = core.table(Kind.LANES)
    if not len(lanes):
        return []
    at = joined or join(core)
    pcs, pc_index = np.unique(lanes.rows["pc"], return_inverse=True)
    key = ((at.grid + 1) * len(pcs) + pc_index) * 2 + at.active
    keys, first, member, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    warps = _distinct(member, at.warp, len(keys))
    blocks = _distinct(member, at.block, len(keys))
    order = np.argsort(-counts, kind="stable").tolist()
    states = _states(lanes.rows["state"], member, len(keys), core)
    found = []
    for index in order:
        value, example = int(keys[index]), int(first[index])
        active, rest = bool(value & 1), value >> 1
        pc = int(pcs[rest % len(pcs)])
        wait = wait_of(core, code, example, pc)
        found.append(
            Group(rest // len(pcs) - 1, pc, active, int(counts[index]), int(warps[index]), int(blocks[index]),
                  states[index], wait, example)
        )  # fmt: skip
    return found


def _distinct(member: Array, owner: Array, count: int) -> Array:
    """How many different owners each group has."""
    span = int(owner.max(initial=0)) + 2
    pairs = np.unique(member.astype(np.int64) * span + owner + 1)
    return np.bincount(pairs // span, minlength=count)


def _states(state: Array, member: Array, count: int, core: GpuCore) -> list[tuple[tuple[str, int], ...]]:
    """The convergence unit's states of each group, the most frequent first; nothing from drivers that wrote none."""
    found: list[dict[str, int]] = [{} for _ in range(count)]
    headers = core.elf.sections
    kind = headers["type"] == Kind.LANES.section_type
    if not (headers["entsize"][kind] >= 56).any():
        return [()] * count
    pairs, numbers = np.unique(member.astype(np.int64) << 32 | state, return_counts=True)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        found[pair >> 32][lane_state(pair & 0xFFFFFFFF)] = number
    return [tuple(sorted(states.items(), key=lambda item: -item[1])) for states in found]


def wait_of(core: GpuCore, code: Code, lane: int, pc: int) -> Wait | None:
    """What the warp of a lane waits for at a program counter."""

    def register(number: int) -> int | None:
        words = core.words_of(Kind.REGISTERS, lane)
        return words[number] if number < len(words) else None

    def predicate(number: int) -> bool | None:
        words = core.words_of(Kind.PREDICATES, lane)
        return bool(words[number]) if number < len(words) else None

    return wait_at(pc, code.instruction, register, predicate)


@dataclass(frozen=True)
class Place:
    """Groups with one source chain: what a reader wants counted together.

    Attributes:
        grid: row of the grid table; address: of the largest group's instruction; chain: its source lines.
        groups: the groups, the largest first; lanes: of all of them.
    """

    grid: int
    address: int
    chain: SourceChain | None
    wait: Wait | None
    groups: tuple[Group, ...]

    @property
    def lanes(self) -> int:
        """Lanes of all groups."""
        return sum(group.lanes for group in self.groups)


def places(found: Sequence[Group], code: Code) -> list[Place]:
    """The groups by kernel, source chain and what they wait for, the place of most lanes first.

    Without line information every instruction is a place of its own.
    """
    members: dict[object, list[Group]] = {}
    chains: dict[object, SourceChain | None] = {}
    for group in found:
        location = code.locate(group.address)
        chain = location.chain if location else None
        key = (
            group.grid,
            chain.frames if chain else group.address,
            group.wait.text if group.wait else "",
            group.active,
        )
        members.setdefault(key, []).append(group)
        chains[key] = chain
    result = [
        Place(list_[0].grid, list_[0].address, chains[key], list_[0].wait, tuple(list_))
        for key, list_ in members.items()
    ]
    return sorted(result, key=lambda place: -place.lanes)

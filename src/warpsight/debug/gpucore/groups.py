"""Where all lanes of a dump are: a histogram by kernel, program counter and state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.lane_registers import LaneRegisters
from warpsight.debug.gpucore.layout import Kind, lane_state
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.debug.gpucore.waiting.instructions import WarpWait, depends_on_lane, wait_at
from warpsight.device_code.debug_info.inline_chain import SourceChain
from warpsight.device_code.elf import Array


@dataclass(frozen=True)
class _LaneGroup:
    """Lanes at one place.

    Attributes:
        grid: row of the grid table, -1 when the dump does not know it.
        pc: their program counter, the next instruction to issue.
        active: whether they are the warp's active lanes; otherwise they diverged and wait for their turn.
        lanes, warps, blocks: how many.
        states: what the convergence unit says about them, and how often (driver 575 and later).
        wait: what holds them, None when they compute, or wait for nothing but their own loads.
        example: row of the lane table of the first of them.
    """

    grid: int
    pc: int
    active: bool
    lanes: int
    warps: int
    blocks: int
    states: tuple[tuple[str, int], ...]
    wait: WarpWait | None
    example: int

    @property
    def address(self) -> int:
        """The most informative instruction: the one they wait in, otherwise the current one."""
        return self.wait.address if self.wait else self.pc


@dataclass(frozen=True)
class Lanes:
    """Joins of the lane table: each lane's warp, block and grid row (-1 unknown), shape (n,)."""

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
    """Row of the grid table for each block; -1 if no grid of its device has the block's grid id."""
    blocks, sms, grids = core.table(Kind.BLOCKS), core.table(Kind.SMS), core.table(Kind.GRIDS)
    device = np.append(sms.parent, -1)[blocks.parent]
    found = np.full(len(blocks), -1, np.int64)
    for row, (owner, number) in enumerate(zip(grids.parent.tolist(), grids.rows["id"].tolist(), strict=True)):
        found[(device == owner) & (blocks.rows["grid_id"] == number)] = row
    return found


@dataclass(frozen=True)
class _LaneHistogram:
    """All lanes by location and by what they wait for.

    Attributes:
        groups: the largest first.
        of_lane: the group of each row of the lane table, shape (n,).
    """

    groups: tuple[_LaneGroup, ...]
    of_lane: Array


def histogram(core: GpuCore, code: Code, joined: Lanes | None = None) -> _LaneHistogram:
    """All lanes by (grid, PC, active or diverged, wait)."""
    lanes = core.table(Kind.LANES)
    if not len(lanes):
        return _LaneHistogram((), np.zeros(0, np.int64))
    at = joined or join(core)
    pcs, pc_index = np.unique(lanes.rows["pc"], return_inverse=True)
    own = _own_waits(core, code, at, pcs, pc_index)
    key = (((at.grid + 1) * len(pcs) + pc_index) * 2 + at.active) * (own.max() + 1) + own
    keys, first, member, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    warps = _distinct(member, at.warp, len(keys))
    blocks = _distinct(member, at.block, len(keys))
    order = np.argsort(-counts, kind="stable")
    states = _states(lanes.rows["state"], member, len(keys), core)
    found = []
    for index in order.tolist():
        example = int(first[index])
        pc = int(lanes.rows["pc"][example])
        wait = wait_of(core, code, example, int(at.warp[example]), pc)
        found.append(
            _LaneGroup(int(at.grid[example]), pc, bool(at.active[example]), int(counts[index]), int(warps[index]),
                  int(blocks[index]), states[index], wait, example)
        )  # fmt: skip
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return _LaneHistogram(tuple(found), place[member])


def _own_waits(core: GpuCore, code: Code, at: Lanes, pcs: Array, pc_index: Array) -> Array:
    """A number for each lane that separates the waits of warps at one PC, where registers or predicates decide them.

    Warp by warp: lanes of one warp that are at one PC, active or not, are looked at once.

        lane   PC          warp   wait                      number
        0      BAR R1      0      barrier 1                 1
        1      BAR R1      0      (as lane 0)               1
        32     BAR R1      1      barrier 2                 2
        64     STG         2      (the PC decides)          0
    """
    own = np.zeros(len(pc_index), np.int64)
    decided = [depends_on_lane(pc, code) for pc in pcs.tolist()]
    chosen = np.flatnonzero(np.array(decided, bool)[pc_index])
    if not len(chosen):
        return own
    stands = (at.warp[chosen] * 2 + at.active[chosen]) * len(pcs) + pc_index[chosen]
    _, first, member = np.unique(stands, return_index=True, return_inverse=True)
    numbers: dict[str, int] = {}
    values = []
    for lane in chosen[first].tolist():
        wait = wait_of(core, code, lane, int(at.warp[lane]), int(pcs[pc_index[lane]]))
        values.append(numbers.setdefault(wait.text if wait else "", len(numbers) + 1))
    own[chosen] = np.array(values, np.int64)[member]
    return own


def _distinct(member: Array, owner: Array, count: int) -> Array:
    """The number of distinct owners in each group."""
    span = int(owner.max(initial=0)) + 2
    pairs = np.unique(member.astype(np.int64) * span + owner + 1)
    return np.bincount(pairs // span, minlength=count)


def _states(state: Array, member: Array, count: int, core: GpuCore) -> list[tuple[tuple[str, int], ...]]:
    """The convergence unit's states of each group, most frequent first; empty for drivers that did not write them."""
    found: list[dict[str, int]] = [{} for _ in range(count)]
    headers = core.elf.sections
    kind = headers["type"] == Kind.LANES.section_type
    if not (headers["entsize"][kind] >= 56).any():
        return [()] * count
    pairs, numbers = np.unique(member.astype(np.int64) << 32 | state, return_counts=True)
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        found[pair >> 32][lane_state(pair & 0xFFFFFFFF)] = number
    return [tuple(sorted(states.items(), key=lambda item: -item[1])) for states in found]


def wait_of(core: GpuCore, code: Code, lane: int, warp: int, pc: int) -> WarpWait | None:
    """The wait of a lane's warp at a program counter."""
    return wait_at(pc, code, LaneRegisters(core, lane, warp))


@dataclass(frozen=True)
class SourceSite:
    """Groups with one source chain, counted together.

    Attributes:
        grid: row of the grid table; address: of the largest group's instruction; chain: its source lines.
        groups: the groups, the largest first; lanes: of all of them.
    """

    grid: int
    address: int
    chain: SourceChain | None
    wait: WarpWait | None
    groups: tuple[_LaneGroup, ...]

    @property
    def lanes(self) -> int:
        """Lanes of all groups."""
        return sum(group.lanes for group in self.groups)


def places(found: _LaneHistogram, code: Code) -> tuple[list[SourceSite], Array]:
    """The groups by kernel, source chain and wait, largest first.

    Without line information every instruction is a place of its own.

    Returns:
        The places, and the place of each row of the lane table, shape (n,).
    """
    members: dict[object, list[int]] = {}
    chains: dict[object, SourceChain | None] = {}
    for number, group in enumerate(found.groups):
        location = code.locate(group.address)
        chain = location.chain if location else None
        key: object = (
            group.grid,
            chain.frames if chain else group.address,
            group.wait.text if group.wait else "",
            # Which of its lanes a warp runs is chance where all of them wait.
            group.active or group.wait is not None,
        )
        members.setdefault(key, []).append(number)
        chains[key] = chain
    made, of_group = [], np.zeros(len(found.groups), np.int64)
    ordered = sorted(members.items(), key=lambda item: -sum(found.groups[one].lanes for one in item[1]))
    for place, (place_key, numbers) in enumerate(ordered):
        own = tuple(found.groups[one] for one in numbers)
        made.append(SourceSite(own[0].grid, own[0].address, chains[place_key], own[0].wait, own))
        of_group[numbers] = place
    return made, of_group[found.of_lane] if len(found.groups) else found.of_lane

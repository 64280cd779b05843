"""One thread of a dump in full: registers, predicates, calls, memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.debug.gpucore.groups import Lanes, join
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.reader import GpuCore
from warpsight.device_code.elf import Array
from warpsight.errors import UsageError

Coordinates = tuple[int, int, int]


@dataclass(frozen=True)
class Selector:
    """Selects lanes; None matches all. `warp` is the hardware's number on its multiprocessor."""

    device: int | None = None
    sm: int | None = None
    warp: int | None = None
    lane: int | None = None
    grid: int | None = None
    block: Coordinates | None = None
    thread: Coordinates | None = None

    @property
    def empty(self) -> bool:
        """Whether no selection was made."""
        return self == Selector()


@dataclass(frozen=True)
class _CallFrame:
    """One frame of a lane's real calls: the address it returns to, or its PC for the innermost."""

    address: int
    level: int


@dataclass(frozen=True)
class _ThreadState:
    """Everything about one lane.

    Attributes:
        lane, warp, block, grid: rows of their tables (-1: not known).
        registers: R0, R1, …; predicates: P0 … P6, PT; uniform_registers: UR0, …; uniform_predicates: UP0, ….
        barriers: the convergence barriers' masks B0, B1, ….
        parameters: the kernel's parameters as they are in the constant bank.
        shared, local: memory and the address of its start; None when the dump has none.
    """

    lane: int
    warp: int
    block: int
    grid: int
    registers: tuple[int, ...]
    predicates: tuple[int, ...]
    uniform_registers: tuple[int, ...]
    uniform_predicates: tuple[int, ...]
    barriers: tuple[int, ...]
    parameters: bytes | None
    shared: tuple[bytes, int] | None
    local: tuple[bytes, int] | None
    calls: tuple[_CallFrame, ...]


def select(core: GpuCore, selector: Selector, joined: Lanes | None = None) -> list[int]:
    """Rows of the lane table that a selector matches, in table order.

    Raises:
        UsageError: when nothing matches; the message says what the dump has.
    """
    at = joined or join(core)
    lanes, warps, blocks, sms, devices, grids = (
        core.table(kind) for kind in (Kind.LANES, Kind.WARPS, Kind.BLOCKS, Kind.SMS, Kind.DEVICES, Kind.GRIDS)
    )
    sm = np.append(blocks.parent, -1)[at.block]
    device = np.append(sms.parent, -1)[sm]
    keep = np.ones(len(lanes), bool)
    for wanted, values in (
        (selector.device, _of(devices.rows["id"], device)),
        (selector.sm, _of(sms.rows["id"], sm)),
        (selector.warp, _of(warps.rows["id"], at.warp)),
        (selector.lane, lanes.rows["lane"].astype(np.int64)),
        (selector.grid, _of(grids.rows["id"], at.grid)),
    ):
        if wanted is not None:
            keep &= values == wanted
    if selector.block is not None:
        index = np.vstack([blocks.rows["index"].astype(np.int64), [[-1, -1, -1]]])[at.block]
        keep &= (index == selector.block).all(axis=1)
    if selector.thread is not None:
        keep &= (lanes.rows["thread"] == selector.thread).all(axis=1)
    found: list[int] = np.flatnonzero(keep).tolist()
    if not found:
        raise UsageError(
            f"no lane of {core.path} fits: it has {len(devices)} device(s), {len(grids)} grid(s), {len(blocks):,} "
            f"blocks, {len(warps):,} warps and {len(lanes):,} lanes (--warps lists them)"
        )
    return found


def _of(values: Array, rows: Array) -> Array:
    return np.append(values.astype(np.int64), -1)[rows]


def thread_state(core: GpuCore, lane: int, joined: Lanes | None = None) -> _ThreadState:
    """All data of a dump about one row of the lane table."""
    at = joined or join(core)
    warp, block, grid = (int(rows[lane]) for rows in (at.warp, at.block, at.grid))
    pc = int(core.table(Kind.LANES).rows["pc"][lane])
    calls = [_CallFrame(pc, 0)]
    calls += [_CallFrame(address, level) for level, (address, _) in enumerate(core.backtrace(lane), 1)]
    parameters = core.data_of(Kind.PARAMETERS, grid)
    return _ThreadState(
        lane, warp, block, grid,
        core.words_of(Kind.REGISTERS, lane),
        core.words_of(Kind.PREDICATES, lane),
        core.words_of(Kind.UNIFORM_REGISTERS, warp),
        core.words_of(Kind.UNIFORM_PREDICATES, warp),
        core.words_of(Kind.CONVERGENCE_BARRIERS, warp),
        parameters[0] if parameters else None,
        core.data_of(Kind.SHARED, block),
        core.data_of(Kind.LOCAL, lane),
        tuple(calls),
    )  # fmt: skip

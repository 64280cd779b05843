"""Where the data that instructions read was written: producers and consumers between threads, warps, blocks and launches.

Each piece of memory that is read belongs to the last write to it before, in the order in which the device recorded accesses. A
piece that no thread of the launch has written existed before: its writer is an earlier launch of the trace, or unknown.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.sass.races.accesses import Accesses, accesses

Array = npt.NDArray[Any]
#: How far data goes: within a thread, between threads of a warp, warps of a block, blocks, or launches.
DISTANCES = ("thread", "warp", "block", "grid", "launch")
_THREAD, _WARP, _BLOCK, _GRID = range(4)


@dataclass(frozen=True)
class Flow:
    """Data that flows from one instruction to another.

    Attributes:
        kernel: the reader's kernel; writer_kernel: the writer's kernel, a different one for distance `launch`.
        space: global or shared; distance: one of :data:`DISTANCES`.
        writer, reader: places in the code with lines; writer_sass, reader_sass: their texts.
        bytes: bytes read in all; distinct: the same, but each piece of memory once for each launch and block that reads it.
        pairs: pairs of a writing and a reading thread, or blocks for distance `grid`.
    """

    kernel: str
    writer_kernel: str
    space: str
    distance: str
    writer: str
    reader: str
    writer_sass: str
    reader_sass: str
    bytes: int
    distinct: int
    pairs: int


@dataclass(frozen=True)
class Dataflow:
    """All flows, most bytes first, and everything read or written outside a flow.

    Attributes:
        inputs: bytes read by kernel that no recorded access has written; unread: bytes last written that no one has read.
        blocks: bytes by (kernel, writing block, reading block) of distance `grid`.
    """

    flows: tuple[Flow, ...]
    inputs: dict[str, int]
    unread: dict[str, int]
    blocks: dict[tuple[str, int, int], int]

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "flows": [asdict(flow) for flow in self.flows], "inputs": self.inputs, "unread": self.unread,
            "blocks": [
                {"kernel": kernel, "writer": writer, "reader": reader, "bytes": count}
                for (kernel, writer, reader), count in sorted(self.blocks.items())
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class _Written:
    """A launch's final writes to global memory: each piece's address, ascending, and the event and instruction that wrote it."""

    launch: TracedLaunch
    granule: int
    address: Array
    pc: Array


def last_writes(own: Accesses) -> Array:
    """For each access, the row of the last earlier write to its piece, or -1.

    Rows are ordered by piece and time, so a running maximum of the rows that write, restarted at the first row of each piece,
    gives the answer: piece 1 1 1 2, write 1 0 0 0 gives -1 0 0 -1.
    """
    count = len(own)
    rows = np.arange(count)
    running = np.maximum.accumulate(np.where(own.write, rows, -1))
    before = np.concatenate([[-1], running[:-1]]) if count else running
    first = np.searchsorted(own.place, own.place)
    return np.where(before >= first, before, -1)


def dataflow(trace: EventTrace) -> Dataflow:
    """The flows of a trace."""
    sums: dict[tuple[Any, ...], Array] = defaultdict(lambda: np.zeros(3, np.int64))
    inputs: dict[str, int] = defaultdict(int)
    unread: dict[str, int] = defaultdict(int)
    blocks: dict[tuple[str, int, int], int] = defaultdict(int)
    earlier: list[_Written] = []
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        own = accesses(trace, launch, events)
        pc = events.pc[own.instruction].astype(np.int64)
        writer = last_writes(own)
        reads = ~own.write | own.atomic
        rows = np.flatnonzero(reads & (writer >= 0))
        _within(launch, own, pc, rows, writer[rows], sums, blocks)
        outside = np.flatnonzero(reads & (writer < 0) & ~own.shared)
        inputs[launch.name] += _from_earlier(launch, own, pc, outside, earlier, sums)
        unread[launch.name] += _unread(own, writer)
        earlier.append(_written(launch, own, pc))
    named: dict[tuple[str, ...], Array] = defaultdict(lambda: np.zeros(3, np.int64))
    for key, counts in sums.items():  # launches of one kernel together
        named[_flow(trace, key)] += counts
    flows = [
        Flow(*names[:8], *(int(count) for count in counts))  # type: ignore[arg-type]
        for names, counts in named.items()
    ]
    ordered = sorted(flows, key=lambda flow: (-flow.bytes, flow.kernel, flow.writer, flow.reader))
    return Dataflow(tuple(ordered), dict(inputs), dict(unread), dict(blocks))


def _within(
    launch: TracedLaunch, own: Accesses, pc: Array, rows: Array, writers: Array,
    sums: dict[tuple[Any, ...], Array], blocks: dict[tuple[str, int, int], int],
) -> None:  # fmt: skip
    if not len(rows):
        return
    same_block = own.block[rows] == own.block[writers]
    same_warp = same_block & (own.thread[rows] // 32 == own.thread[writers] // 32)
    same = same_warp & (own.thread[rows] == own.thread[writers])
    distance = np.select([same, same_warp, same_block], [_THREAD, _WARP, _BLOCK], _GRID)
    names = np.stack([pc[writers], pc[rows], own.shared[rows], distance], axis=1)
    keys, inverse = np.unique(names, axis=0, return_inverse=True)
    width = launch.warps * 32
    source, target = (
        np.where(distance == _GRID, own.block[side], own.block[side] * width + own.thread[side])
        for side in (writers, rows)
    )
    inverse = inverse.ravel()
    counts = np.bincount(inverse, minlength=len(keys)) * own.granule
    distinct = _distinct(inverse, own.place[rows], own.block[rows], len(keys)) * own.granule
    pairs = _distinct(inverse, source, target, len(keys))
    for key, *values in zip(keys.tolist(), counts, distinct, pairs, strict=True):
        where = (launch.number, launch.number, *key)
        sums[where] += np.array(values, np.int64)
    across = distance == _GRID
    edges, times = np.unique(
        np.stack([own.block[writers[across]], own.block[rows[across]]], axis=1), axis=0, return_counts=True
    )
    for (writing, reading), number in zip(edges.tolist(), times.tolist(), strict=True):
        blocks[launch.name, writing, reading] += number * own.granule


def _distinct(group: Array, one: Array, other: Array, groups: int) -> Array:
    """The number of distinct pairs in each group."""
    unique = np.unique(np.stack([group, one, other], axis=1), axis=0)
    return np.bincount(unique[:, 0], minlength=groups)


def _from_earlier(
    launch: TracedLaunch, own: Accesses, pc: Array, rows: Array, earlier: list[_Written],
    sums: dict[tuple[Any, ...], Array],
) -> int:  # fmt: skip
    """Count reads of data from earlier launches, latest first, and bytes without a known writer."""
    for written in reversed(earlier):
        if not len(rows) or not len(written.address):
            continue
        address = own.address[rows] // np.uint64(written.granule) * np.uint64(written.granule)
        at = np.minimum(np.searchsorted(written.address, address), len(written.address) - 1)
        hit = written.address[at] == address
        keys, inverse = np.unique(
            np.stack([written.pc[at[hit]], pc[rows[hit]]], axis=1), axis=0, return_inverse=True
        )
        inverse = inverse.ravel()
        counts = np.bincount(inverse, minlength=len(keys)) * own.granule
        distinct = _distinct(inverse, own.place[rows[hit]], own.block[rows[hit]], len(keys)) * own.granule
        for (source, target), *values in zip(keys.tolist(), counts, distinct, strict=True):
            sums[written.launch.number, launch.number, source, target, 0, len(DISTANCES) - 1] += np.array(
                [*values, 1], np.int64
            )
        rows = rows[~hit]
    return len(rows) * own.granule


def _unread(own: Accesses, writer: Array) -> int:
    """Bytes of global memory that were written and then not read within the launch."""
    if not len(own):
        return 0
    read = np.zeros(len(own), bool)
    read[writer[(~own.write | own.atomic) & (writer >= 0)]] = True
    last = _last_writers(own)
    return int((~read[last] & ~own.shared[last]).sum()) * own.granule


def _last_writers(own: Accesses) -> Array:
    """The row of the last write to each piece written."""
    rows = np.flatnonzero(own.write)
    if not len(rows):
        return rows
    ends = np.append(own.place[rows][1:] != own.place[rows][:-1], True)
    found: Array = rows[ends]
    return found


def _written(launch: TracedLaunch, own: Accesses, pc: Array) -> _Written:
    rows = _last_writers(own)
    rows = rows[~own.shared[rows]]
    order = np.argsort(own.address[rows], kind="stable")
    return _Written(launch, own.granule, own.address[rows][order], pc[rows][order])


def _flow(trace: EventTrace, key: tuple[Any, ...]) -> tuple[str, ...]:
    """The names of a flow: the first eight attributes of :class:`Flow`."""
    source, target, writer, reader, shared, distance = key
    launches = trace.launches[source], trace.launches[target]
    places: list[TracedInstruction] = [
        trace.places(launch, np.array([pc], np.uint32))[0]
        for launch, pc in zip(launches, (writer, reader), strict=True)
    ]
    described, texts = [trace.describe(place) for place in places], [trace.sass(place) for place in places]
    memory = "shared" if shared else "global"
    return (launches[1].name, launches[0].name, memory, DISTANCES[distance], *described, *texts)

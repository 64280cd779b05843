"""Races found on the device while kernels ran, from their records (native/sanitizer/check_patches.cuh)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.device_code.demangle import short
from warpsight.formats.events.kinds import RACE, UNWATCHED
from warpsight.formats.events.records import Events
from warpsight.sass.events.trace import EventTrace, TracedInstruction, TracedLaunch
from warpsight.sass.races.witness import Race, Side, operation_of

Array = npt.NDArray[Any]
#: By the number in a record's flags.
REASONS = (
    "",
    "no __syncwarp or barrier between two lanes of a warp",
    "no barrier between two warps of a block",
    "no cluster barrier between two blocks of a cluster",
    "nothing orders the two blocks: that takes a fence and an atomic here, read by the other before its fence",
    "atomics whose scope is one block, from two blocks",
    "a bulk copy whose mbarrier was not waited for in this phase",
    "a copy by cp.async that was not waited for",
    "no fence.proxy.async between a store and a bulk copy that reads the stored data",
)
_UNWATCHED = (
    "accesses were not checked for lack of shadow memory; --shadow-mib adds some",
    "instructions of warps beyond the 4,194,304 of a launch were not checked",
    "instructions of warps with more than 65,535 synchronizations were not checked",
    "instructions of blocks that ran at the same time as 8,192 later ones were not checked",
    "bulk copies whose mbarrier is another block's, or not set up in the kernel, were not checked",
    "accesses by instructions beyond the 2,047 of a kernel and its functions that have a number were not checked",
)
_SHARED, _EARLIER_WRITES, _WRITES = 16, 32, 64


def races_on_device(trace: EventTrace) -> tuple[list[Race], list[str]]:
    """The races, one per pair of instructions with its first witness, and a list of unchecked parts."""
    events = trace.events.take(np.isin(trace.events.kind, (RACE.number, UNWATCHED.number)))
    values = events.values().max(axis=1) if len(events) else np.zeros((0, 2), np.uint64)
    first, second = events.operand(0).max(axis=1), events.operand(1).max(axis=1)
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    left_out: dict[int, int] = {}
    for row in range(len(events)):  # a record for each pair and doubling
        count = int(values[row, 0])
        if events.kind[row] == UNWATCHED.number:
            cause = int(first[row])
            left_out[cause] = max(left_out.get(cause, 0), count)
            continue
        name = trace.launches[int(events.launch[row])].name
        key = (name, int(events.pc[row]), int(second[row]) & 0xFFFFFFFF, int(events.flags[row]) & 15)
        at, most = found.get(key, (row, 0))
        found[key] = (at, max(most, count))
    located = [
        _race(trace, events, row, count, int(first[row]), int(second[row]), int(values[row, 1]))
        for row, count in found.values()
    ]
    races = [race for race in located if race.first.place.function and race.second.place.function]
    notes = [
        f"pairs of accesses in code that is not in the file were left out ({len(located) - len(races):,})"
    ]
    notes = notes if len(races) < len(located) else []
    notes += [
        f"{_UNWATCHED[cause]} (at least {count:,})"
        for cause, count in sorted(left_out.items())
        if cause < len(_UNWATCHED)
    ]
    return races, notes


def _race(
    trace: EventTrace, events: Events, row: int, count: int, address: int, earlier: int, block: int
) -> Race:
    launch = trace.launches[int(events.launch[row])]
    flags = int(events.flags[row])
    lane = int(events.lanes[row]).bit_length() - 1
    reason = flags & 15
    first = _side(trace, launch, earlier & 0xFFFFFFFF, block, earlier >> 32, bool(flags & _EARLIER_WRITES))
    second = _side(
        trace,
        launch,
        int(events.pc[row]),
        int(events.block[row]),
        int(events.warp[row]) * 32 + lane,
        bool(flags & _WRITES),
    )
    return Race(
        launch.name, launch.number, "shared" if flags & _SHARED else "global", address, count,
        REASONS[reason] if reason < len(REASONS) else "", first, second,
    )  # fmt: skip


def _side(trace: EventTrace, launch: TracedLaunch, pc: int, block: int, thread: int, writes: bool) -> Side:
    if launch.said.get("compiled"):
        return _compiled_side(trace, launch, pc, block, thread, writes)
    place = trace.places(launch, np.array([pc], np.uint32))[0]
    sass = trace.sass(place)
    operation = operation_of(sass, writes)
    return Side(
        block, thread, operation, trace.describe(place), sass, trace.chain(place), -1, place, launch.number
    )


def _compiled_side(
    trace: EventTrace, launch: TracedLaunch, number: int, block: int, thread: int, writes: bool
) -> Side:
    """An access whose check is compiled into the kernel: records have its number where others have a program counter."""
    text, frames = trace.site(launch, number) or ("", ())
    name = str(launch.said["name"]) if text else ""
    place = TracedInstruction(int(launch.said["module"]), name, 0)
    where = (
        f"{short(launch.name)} {Path(frames[0].file).name}:{frames[0].line}" if frames else short(launch.name)
    )
    return Side(
        block, thread, operation_of(text.upper(), writes), where, text, frames, -1, place, launch.number
    )

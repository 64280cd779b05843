"""Single events in the form in which they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsight.formats.events.kinds import BY_NAME, KINDS, TENSOR_COPY
from warpsight.formats.events.records import Events
from warpsight.formats.events.registers import AT_ONCE, name_of
from warpsight.formats.events.tensor_copies import CopyReader, to_json
from warpsight.sass.events.tensor_copies import copies_of
from warpsight.sass.events.trace import EventTrace


def listed(
    trace: EventTrace, launch: int | None, kinds: Sequence[str], head: int | None
) -> list[dict[str, Any]]:
    """The first events that match conditions, each as an object: its place, its operands lane by lane, its instruction."""
    chosen = np.ones(len(trace.events), bool)
    if launch is not None:
        chosen &= trace.events.launch == launch
    if kinds:
        chosen &= np.isin(trace.events.kind, [BY_NAME[name].number for name in kinds])
    events = trace.events.take(np.flatnonzero(chosen)[:head])
    first, second, values, has_values = (
        events.operand(0),
        events.operand(1),
        events.values(),
        events.has_values,
    )
    registers, copies = _registers(trace, events), _copies(trace, events)
    found = []
    for row in range(len(events)):
        own = trace.launches.get(int(events.launch[row]))
        kind = KINDS.get(int(events.kind[row]))
        lanes = np.flatnonzero(events.active[row])
        item: dict[str, Any] = {
            "launch": int(events.launch[row]), "kernel": own.name if own else None, "kind": kind.name if kind else None,
            "time": int(events.time[row]), "block": int(events.block[row]), "warp": int(events.warp[row]),
            "lanes": f"0x{int(events.lanes[row]):08x}", "sm": int(events.sm[row]), "flags": int(events.flags[row]),
            "bytes": int(events.size[row]), "sequence": int(events.sequence[row]),
        }  # fmt: skip
        if own:
            place = trace.places(own, events.pc[row : row + 1])[0]
            item |= {"where": trace.describe(place), "sass": trace.sass(place)}
        operands = ((kind.a, first), (kind.b, second)) if kind else ()
        item["operands"] = {name: values_of[row][lanes].tolist() for name, values_of in operands if name}
        if row in registers:
            item |= {"guard": f"0x{int(events.guard[row]):08x}", "registers": registers[row]}
        if row in copies:
            item["copy"] = copies[row]
        if has_values[row]:
            item["values"] = [low | high << 64 for low, high in values[row][lanes].tolist()]
        found.append(item)
    return found


def _copies(trace: EventTrace, events: Events) -> dict[int, dict[str, Any]]:
    """Row → operands and tensor map of a copy by the TMA."""
    found: dict[int, dict[str, Any]] = {}
    reader = CopyReader(trace.tensor_maps)
    is_copy = events.kind == TENSOR_COPY.number
    for number in np.unique(events.launch[is_copy]).tolist():
        rows = np.flatnonzero(is_copy & (events.launch == number))
        copies = copies_of(trace, trace.launches[number], events.take(rows), reader)
        found.update((row, to_json(copy, reader)) for row, copy in zip(rows.tolist(), copies, strict=True))
    return found


def _registers(trace: EventTrace, events: Events) -> dict[int, dict[str, list[int]]]:
    """Row → name of each of its registers with the values of the lanes whose guard predicate holds, one for uniform registers."""
    values = events.registers()
    guard = events.guard
    found: dict[int, dict[str, list[int]]] = {}
    for number in np.unique(events.launch[values.record]).tolist():
        launch = trace.launches[number]
        own = np.flatnonzero(events.launch[values.record] == number)
        record, slot = values.record[own], values.slot[own]
        half = np.int64(1) << 31
        begin = int(launch.said["pc"]) % (1 << 32)
        pc = (events.pc[record].astype(np.int64) - begin + half) % (1 << 32) - half
        place = (events.flags[record] >> 1).astype(np.int64) * AT_ONCE + slot
        for row, register, lanes in zip(
            record.tolist(),
            trace.operands.registers(launch.said, pc, place).tolist(),
            values.value[own],
            strict=True,
        ):
            active = np.flatnonzero(guard[row] >> np.arange(32, dtype=np.uint32) & 1)
            held = lanes[active[:1] if name_of(register)[0] == "U" else active]
            found.setdefault(row, {})[name_of(register)] = held.tolist()
    return found

"""Kernels, copies and fills: joined with the stack of their call, or kept until the call's row arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture import clock_checks
from warpsight.capture.columns import Nullable, bits, enumerated, one_value, pick, spread, zero_is_null
from warpsight.capture.correlation import UNKNOWN
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, Batch, RecordColumns
from warpsight.model.naming.kernel_names import WHOLE_GRAPH
from warpsight.model.naming.memory_names import MEMCPY_KINDS, MEMORY_KINDS

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
#: Number of segments a row may wait for its call; a call is drained milliseconds after its kernel, so this is generous.
MAXIMUM_AGE = 4
#: Bit of a kernel's flags: the row is a launch of a graph, recorded instead of its kernels.
_WHOLE_GRAPH = 1


@dataclass
class UnmatchedRows:
    """Rows of one kind without a known call: the rows, their full ids, and how many segments they have waited."""

    rows: RecordColumns
    session: Array
    age: Array

    @classmethod
    def none(cls, kind: str) -> UnmatchedRows:
        """No rows."""
        rows = RecordColumns.of(np.zeros(0, DTYPES[layout.BY_NAME[kind].kind]))
        return cls(rows, np.zeros(0, np.int64), np.zeros(0, np.int8))


def convert(arena: Arena, kind: str, batch: Batch, final: bool) -> None:
    """Join rows of `kind`, and waiting rows, with their calls; with `final`, none may keep waiting."""
    waiting = arena.waiting[kind]
    rows, session, age = batch.rows, batch.session, spread(0, len(batch.rows), np.int8)
    if len(waiting.rows):
        rows = RecordColumns.join(waiting.rows, rows)
        session = np.concatenate([waiting.session, session])
        age = np.concatenate([waiting.age + np.int8(1), age])
    if not len(rows):
        return
    correlation, stack, called = _join(arena, kind, rows, session)
    stack = _graph_stacks(arena, rows, stack)
    arena.waiting[kind] = UnmatchedRows.none(kind)
    orphans = stack == UNKNOWN
    if not final and orphans.any():
        hold = orphans & (rows["correlation"] != 0) & (age < MAXIMUM_AGE)
        arena.waiting[kind] = UnmatchedRows(rows[hold], pick(session, hold), pick(age, hold))
        kept = np.flatnonzero(~hold)
        rows, correlation, stack, called = rows[kept], *(v[kept] for v in (correlation, stack, called))
        orphans = orphans[kept]
    if orphans.any():
        real = int((orphans & (rows["correlation"] != 0)).sum())
        arena.loss.count(
            "converter",
            f"the call that caused a {kind.lower()} was not recorded, so it has no stack",
            real,
            kind.lower(),
            "note",
        )
        stack = np.where(orphans, 0, stack)
    _WRITERS[kind](arena, rows, correlation, stack, called)


def _join(arena: Arena, kind: str, rows: RecordColumns, session: Array) -> tuple[Array, Array, Array]:
    """Full correlation ids, stacks of the calls (UNKNOWN: no call yet) and the calls' start times."""
    low = rows["correlation"]
    correlation, called = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    stack = np.full(len(rows), UNKNOWN, np.int32)
    for window, chosen in arena.correlations.split(session, low):
        ids = window.unwrap(pick(low, chosen))
        found, start = window.get(ids)
        if kind == "Kernel":
            window.see(ids)
        if isinstance(chosen, slice):
            correlation, stack, called = window.full(ids), found, start
        else:
            correlation[chosen], stack[chosen], called[chosen] = window.full(ids), found, start
    none = low == 0
    if none.any():
        stack = np.where(none, np.int32(UNKNOWN), stack)
        correlation = np.where(none, 0, correlation)
    return correlation, stack, called


def _graph_stacks(arena: Arena, rows: RecordColumns, stack: Array) -> Array:
    """Give rows of graph nodes the stack of the node's creation, if known."""
    nodes = rows["graph_node"]
    if not (nodes[0] if one_value(nodes) else nodes.any()):
        return stack
    made = arena.graphs.stacks(nodes)
    return np.where(made > 0, made, stack)


def _where(arena: Arena, rows: RecordColumns, correlation: Array) -> dict[str, Any]:
    return {
        "device": arena.devices(rows["device"]),
        "context": rows["context"],
        "stream": rows["stream"],
        "correlation": Nullable(correlation, correlation == 0),
        "process": arena.process_id(),
        "graph": zero_is_null(rows["graph"]),
        "graph_node": zero_is_null(rows["graph_node"]),
    }


def _times(arena: Arena, rows: RecordColumns, kind: str) -> tuple[Array, Array, Array | None]:
    """Start, duration and which of them were lost (both 0)."""
    start, end = rows["start"].view(np.int64), rows["end"].view(np.int64)
    lost = (start == 0) | (end == 0)
    duration = end - start
    count = int(lost.sum())
    backwards = int(((duration < 0) & ~lost).sum())
    if backwards:
        arena.loss.count("converter", f"a {kind} ended before it began", backwards, kind, "note")
    if not count:
        return start, duration, None
    arena.loss.count(arena.device_library, f"timestamps of a {kind} were zero", count, kind, "lost")
    return start, duration, lost


def _kernels(arena: Arena, rows: RecordColumns, correlation: Array, stack: Array, called: Array) -> None:
    start, duration, lost = _times(arena, rows, "kernel")
    clock_checks.launches(arena, rows["device"], start, called, lost)
    clock_checks.note_kernels(arena, rows, start, duration)
    arena.emit(
        "kernel",
        len(rows),
        start=Nullable(start, lost),
        duration=Nullable(duration, lost),
        name_id=zero_is_null(_kernel_names(arena, rows)),
        shape_id=zero_is_null(arena.local.shapes(rows["shape"])),
        **_where(arena, rows, correlation),
        stack=zero_is_null(stack),
        graph_level=bits(rows["flags"], _WHOLE_GRAPH),
        module=zero_is_null(rows["module"]),
        queued=zero_is_null(rows["queued"]),
        submitted=zero_is_null(rows["submitted"]),
    )


def _kernel_names(arena: Arena, rows: RecordColumns) -> Array:
    """Name ids of kernels, 0 for none: that of its graph for a launch that was recorded as a whole, without a name."""
    found: Array = arena.local.names(rows["name"])
    whole = np.flatnonzero((rows["flags"] & _WHOLE_GRAPH != 0) & (rows["name"] == 0))
    if not len(whole):
        return found
    graphs, place = np.unique(rows["graph"][whole], return_inverse=True)
    ids = [
        arena.local.name_of(f"{WHOLE_GRAPH} {graph}" if graph else WHOLE_GRAPH) for graph in graphs.tolist()
    ]
    named: Array = found.copy()
    named[whole] = np.array(ids, named.dtype)[place]
    return named


def _copies(arena: Arena, rows: RecordColumns, correlation: Array, stack: Array, called: Array) -> None:
    start, duration, lost = _times(arena, rows, "memcpy")
    if lost is not None:  # copies have no null times in the schema; a copy without times is useless
        rows, correlation, stack, called = rows[~lost], correlation[~lost], stack[~lost], called[~lost]
        start, duration = start[~lost], duration[~lost]
    source, destination = arena.addresses.find(correlation, rows["graph_node"], called)
    arena.emit(
        "memcpy",
        len(rows),
        start=start,
        duration=duration,
        bytes=rows["bytes"],
        kind=enumerated(rows["kind"], MEMCPY_KINDS),
        source_kind=enumerated(rows["source_kind"], MEMORY_KINDS),
        destination_kind=enumerated(rows["destination_kind"], MEMORY_KINDS),
        asynchronous=(rows["flags"] & 1) != 0,
        source_device=arena.devices(rows["source_device"], none=65535),
        destination_device=arena.devices(rows["destination_device"], none=65535),
        **_where(arena, rows, correlation),
        stack=zero_is_null(stack),
        source_address=zero_is_null(source),
        destination_address=zero_is_null(destination),
    )


def _fills(arena: Arena, rows: RecordColumns, correlation: Array, stack: Array, called: Array) -> None:
    start, duration, lost = _times(arena, rows, "memset")
    if lost is not None:
        rows, correlation, stack, called = rows[~lost], correlation[~lost], stack[~lost], called[~lost]
        start, duration = start[~lost], duration[~lost]
    _, address = arena.addresses.find(correlation, rows["graph_node"], called)
    arena.emit(
        "memset",
        len(rows),
        start=start,
        duration=duration,
        bytes=rows["bytes"],
        value=rows["value"],
        memory_kind=enumerated(rows["memory_kind"], MEMORY_KINDS),
        asynchronous=(rows["flags"] & 1) != 0,
        **_where(arena, rows, correlation),
        stack=zero_is_null(stack),
        address=zero_is_null(address),
    )


_WRITERS: dict[str, Callable[[Arena, RecordColumns, Array, Array, Array], None]] = {
    "Kernel": _kernels,
    "Memcpy": _copies,
    "Memset": _fills,
}


def never_arrived(arena: Arena) -> None:
    """Write launches without a kernel row as kernels without times, and count them."""
    expected = arena.take_expected()
    count = len(expected["correlation"])
    if not count:
        return
    if arena.windowed:
        cause = "kernels were not complete, or not handed over yet, when the window was taken"
        arena.loss.count(arena.device_library, cause, count, "kernel", "note")
    else:
        arena.loss.count(arena.device_library, "kernel record never arrived", count, "kernel", "lost")
    everything = np.ones(count, bool)
    zeros = np.zeros(count, np.int64)
    arena.emit(
        "kernel",
        count,
        start=Nullable(zeros, everything),
        duration=Nullable(zeros, everything),
        context=0,
        stream=0,
        name_id=zero_is_null(expected["name"]),
        shape_id=zero_is_null(expected["shape"]),
        correlation=expected["correlation"],
        process=arena.process_id(),
        stack=zero_is_null(expected["stack"]),
        graph_level=False,
    )

"""Restores an imported SBT file from rows of the trace and the extra data kept by the import."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.varint import Column
from warpsight_plugins.sbt.collecting import Collected, RawFrame, permuted
from warpsight_plugins.sbt.events import SbtEvents

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


def restored(trace: StoredTrace, found: Collected, order: Column | None) -> Collected:
    """The events in exact file order; `order` gives the rows' positions if they are not in time order."""
    events, rows = found.events, len(found.events)
    extra, whole = _kept(trace, "extra"), _kept(trace, "event")
    places = [np.array([row for row, _ in kept], np.int64) for kept in (extra, whole)]
    total = rows + len(extra)
    if order is None or len(order) != rows:
        free = np.ones(total, bool)
        free[places[0][places[0] < total]] = False
        order = np.flatnonzero(free)[:rows]
    row_at = np.full(max(total, int(order.max(initial=-1)) + 1), -1, np.int64)
    row_at[order] = np.arange(rows)
    events = _with_addresses(trace, events, row_at)
    _put(trace, "thread", events, row_at, found)
    _put(trace, "name", events, row_at, found)
    replaced = np.zeros(rows, bool)
    replaced[row_at[places[1]]] = True
    stacks = list(found.stacks)
    raw = _raw([value for _, value in (*extra, *whole)], found, stacks)
    joined = events.take(np.flatnonzero(~replaced)).followed_by(raw)
    ordinal = np.concatenate([order[~replaced], *places])
    return replace(found, events=permuted(joined, np.argsort(ordinal, kind="stable")), stacks=stacks)


def _kept(trace: StoredTrace, key: str) -> list[tuple[int, str]]:
    return trace.sql(
        "SELECT row, value FROM attribute WHERE \"table\" = 'sbt' AND key = $key ORDER BY row", key=key
    ).fetchall()


def _columns(trace: StoredTrace, key: str, expressions: str) -> dict[str, Column]:
    rows = trace.sql(
        f"SELECT row, {expressions} FROM attribute WHERE \"table\" = 'sbt' AND key = $key", key=key
    )
    return {name: np.ma.getdata(values) for name, values in rows.fetchnumpy().items()}


def _with_addresses(trace: StoredTrace, events: SbtEvents, row_at: Column) -> SbtEvents:
    """Addresses of copies; events without addresses have no memory parameters."""
    part = "split_part(trim(value, '[]'), ',', {})::UBIGINT AS {}"
    kept = _columns(trace, "addresses", f"{part.format(1, 'a')}, {part.format(2, 'b')}")
    rows = row_at[kept["row"]]
    order = np.argsort(rows)
    size = np.zeros(len(events), np.uint64)
    size[events.memory_rows] = events.memory[:, 2]
    memory = np.stack([kept["a"][order], kept["b"][order], size[rows[order]]], axis=1).astype(np.uint64)
    flags = events.flags & np.uint8(0xFB)
    flags[rows] |= np.uint8(4)
    return replace(events, flags=flags, memory_rows=rows[order], memory=memory)


def _put(trace: StoredTrace, key: str, events: SbtEvents, row_at: Column, found: Collected) -> None:
    """Threads of stacks, and names of events that have none in their table."""
    if key == "thread":
        kept = _columns(trace, key, "value::UBIGINT AS thread")
        of_row = np.zeros(len(events), np.uint64)
        of_row[events.stack_rows] = 0
        of_row[row_at[kept["row"]]] = kept["thread"]
        events.stack_thread = of_row[events.stack_rows]
        return
    rows = trace.sql(
        "SELECT row, value FROM attribute WHERE \"table\" = 'sbt' AND key = 'name'"
    ).to_arrow_table()
    encoded = rows["value"].combine_chunks().dictionary_encode()
    places = np.array([found.texts.place(json.loads(t)) for t in encoded.dictionary.to_pylist()], np.uint64)
    if len(places):
        events.name[row_at[rows["row"].to_numpy()]] = places[encoded.indices.to_numpy()]


def _raw(values: list[str], found: Collected, stacks: list[tuple[RawFrame, ...]]) -> SbtEvents:
    """Events that are kept whole."""
    import msgspec

    parsed: list[list[Any]] = msgspec.json.decode(("[" + ",".join(values) + "]").encode())
    columns = list(zip(*parsed, strict=True)) or [()] * 11
    names = np.array([found.texts.place(text) for text in columns[7]], np.uint64)
    kernel, memory, stacked = (
        np.flatnonzero([value is not None for value in columns[i]]) for i in (8, 9, 10)
    )
    known: dict[tuple[RawFrame, ...], int] = {}
    threads, places = [], []
    for row in stacked.tolist():
        thread, frames = columns[10][row]
        threads.append(thread)
        key = tuple(tuple(frame) for frame in frames)
        places.append(known.setdefault(key, len(stacks) + len(known)))
    stacks += known
    numbers = [np.array(columns[i], np.uint64) for i in range(7)]
    shapes = np.array([columns[8][i] for i in kernel], np.uint64).reshape(-1, 8)
    addresses = np.array([columns[9][i] for i in memory], np.uint64).reshape(-1, 3)
    own: list[Any] = [numbers[0].astype(np.uint8), numbers[1].astype(np.uint8), *numbers[2:], names]
    stack = (stacked, np.array(threads, np.uint64), np.array(places, np.int64))
    columns_of: list[Any] = [*own, kernel, shapes, memory, addresses, *stack]
    return SbtEvents(*columns_of)

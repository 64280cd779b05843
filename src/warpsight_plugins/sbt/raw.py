"""Whole events as JSON, for those that fit no row."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight_plugins.sbt import layout, stacks
from warpsight_plugins.sbt.events import SbtEvents

if TYPE_CHECKING:
    from warpsight.formats.varint import Column
    from warpsight_plugins.sbt.placing import SbtTexts


def text_of(kind: int) -> str:
    """The name of events whose type has no name."""
    return layout.EVENT_TYPES.get(kind, f"type {kind}")


def raw_events(events: SbtEvents, texts: SbtTexts, reading: stacks.StackIds) -> pa.Array:
    """`[type, flags, time, duration, device, stream, correlation, name, kernel, memory, stack]` per event.

    `kernel` and `memory` are lists of numbers or null, `stack` is `[thread, [[address, function, file, line], …]]` or
    null.
    """
    columns = (
        events.kind,
        events.flags,
        events.time,
        events.duration,
        events.device,
        events.stream,
        events.correlation,
    )
    numbers = [pc.cast(pa.array(column), pa.string()) for column in columns]
    kernel = _scattered(len(events), events.kernel_rows, _lists(events.kernel))
    memory = _scattered(len(events), events.memory_rows, _lists(events.memory))
    stack = _scattered(len(events), events.stack_rows, _stacks(events, texts))
    parts = [*numbers, texts.json(events.name), kernel, memory, stack]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*parts, ","), "]", "")


def _lists(values: Column) -> pa.Array:
    columns = [pc.cast(pa.array(values[:, i]), pa.string()) for i in range(values.shape[1])]
    return pc.binary_join_element_wise("[", pc.binary_join_element_wise(*columns, ","), "]", "")


def _stacks(events: SbtEvents, texts: SbtTexts) -> pa.Array:
    if not len(events.stack_rows):
        return pa.array([], pa.string())
    known = [
        json.dumps(
            [[a, texts[f], texts[p], line] for a, f, p, line in stacks.frames(blob)], ensure_ascii=False
        )
        for blob in events.blobs
    ]
    thread = pc.cast(pa.array(events.stack_thread), pa.string())
    return pc.binary_join_element_wise(
        "[", thread, ",", pa.array(known).take(pa.array(events.stack)), "]", ""
    )


def _scattered(count: int, rows: Column, values: pa.Array) -> pa.Array:
    place = np.full(count, len(values), np.int64)
    place[rows] = np.arange(len(rows))
    return pa.concat_arrays([values.cast(pa.string()), pa.array(["null"])]).take(pa.array(place))

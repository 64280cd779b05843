"""Arrow columns: constants without a list behind them, everything else by its type in the schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

#: Types of columns that may be nothing but null, and of those that wait for the end of the file.
TYPES = {
    "shape_id": pa.int32(), "correlation": pa.int64(), "graph": pa.int32(), "graph_node": pa.int64(), "queued": pa.int64(),
    "source_device": pa.int16(), "destination_device": pa.int16(), "name_id": pa.int32(), "bytes": pa.int64(),
    "sequence": pa.int64(), "shapes": pa.string(), "attributes": pa.string(), "_call_stack": pa.string(),
    "event": pa.int64(), "event_sync": pa.int64(), "_external": pa.int64(), "device": pa.int16(), "pool_size": pa.int64(),
    "pool_used": pa.int64(), "_thread": pa.int64(), "context": pa.int32(), "stream": pa.int64(), "process": pa.int32(),
    "thread": pa.int32(), "function": pa.string(), "kind": pa.string(), "category": pa.string(), "address": pa.uint64(),
    "_forward_thread": pa.int64(), "stack": pa.int32(), "start": pa.int64(), "duration": pa.int64(), "time": pa.int64(),
}  # fmt: skip


def constant(value: object, count: int) -> pa.Array:
    """The same value in every row; None gives a null string."""
    return pa.nulls(count, pa.string()) if value is None else pa.repeat(pa.scalar(value), count)


def table(columns: Mapping[str, Any]) -> pa.Table:
    """An Arrow table of lists, NumPy arrays and Arrow arrays."""
    return pa.table(
        {
            name: values if isinstance(values, pa.Array) else pa.array(values, TYPES.get(name))
            for name, values in columns.items()
        }
    )

"""Building result tables: columns with types and units in one short line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

_TYPES = {"int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(), "string": pa.string(),
          "bool": pa.bool_(), "uint64": pa.uint64()}  # fmt: skip


def table(columns: str, rows: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> pa.Table:
    """A table of rows (mappings) or of columns (a mapping of arrays), with exactly the columns named.

    Args:
        columns: `name:type` or `name:type:unit`, separated by spaces; the unit goes into the field's metadata.
        rows: The rows, or whole columns of equal length; what is not named in `columns` is left out.
    """
    fields = []
    for column in columns.split():
        name, kind, *unit = column.split(":", 2)
        fields.append(pa.field(name, _TYPES[kind], metadata={"unit": unit[0]} if unit else None))
    schema = pa.schema(fields)
    if isinstance(rows, Mapping):
        return pa.Table.from_arrays([pa.array(rows[f.name], f.type) for f in schema], schema=schema)
    return pa.Table.from_pylist([dict(row) for row in rows], schema)

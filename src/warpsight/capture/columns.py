"""NumPy columns as Arrow arrays: nulls, enumerations and strings, each without a loop over rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.model.schema import Column, Table

Array = npt.NDArray[Any]
#: Shared nulls come in multiples of this many rows.
_NULLS = 1 << 18
_RANGES = {
    name: (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


def spread(value: npt.ArrayLike, count: int, kind: npt.DTypeLike | None = None) -> Array:
    """`count` rows of one value: a read-only array of stride 0, recognized by :func:`one_value`."""
    return np.broadcast_to(np.asarray(value, kind), (count,))


def one_value(values: object) -> bool:
    """Whether an array holds one value for all rows, as created by :func:`spread` (not: happens to be equal)."""
    return isinstance(values, np.ndarray) and values.strides == (0,) and len(values) > 1


def pick(values: Array, chosen: Array | slice) -> Array:
    """The chosen rows (indices, mask or slice); a single value for all rows stays single."""
    if one_value(values):
        if isinstance(chosen, slice):
            return np.asarray(values[chosen])
        picked = np.asarray(chosen)
        rows = int(np.count_nonzero(picked)) if picked.dtype == bool else len(picked)
        return spread(values[0], rows, values.dtype)
    return np.asarray(values[chosen])


def bits(values: Array, mask: int) -> Array:
    """Which rows have any of the mask's bits."""
    if one_value(values):
        return spread(bool(values[0] & mask), len(values))
    return np.asarray((values & mask) != 0)


class Nullable:
    """Values with a mask of null rows; a `null` of None means that no row is null."""

    __slots__ = ("null", "values")

    def __init__(self, values: Array, null: Array | None) -> None:
        self.values = values
        self.null = null

    def take(self, order: Array) -> Nullable:
        """The rows in another order."""
        return Nullable(pick(self.values, order), None if self.null is None else pick(self.null, order))


def zero_is_null(values: Array) -> Nullable:
    """An id column whose 0 means none."""
    if one_value(values):
        return Nullable(values, None if values[0] else spread(True, len(values)))
    return Nullable(values, values == 0)


def enumerated(values: Array, names: Mapping[int, str], other: str = "unknown") -> pa.DictionaryArray:
    """Enumeration codes as strings; codes without a name become `other`."""
    known = sorted(names)
    beyond = max(known, default=-1) + 1
    lookup = np.full(beyond + 1, len(known), np.int8)
    lookup[known] = np.arange(len(known), dtype=np.int8)
    places = np.clip(values.astype(np.int64), -1, beyond)  # -1, like `beyond`, is the last place
    return pa.DictionaryArray.from_arrays(lookup[places], [names[n] for n in known] + [other])


def constant(values: object) -> bool:
    """Whether every row has the same number, which compresses to nothing without a dictionary."""
    if isinstance(values, Nullable):
        values = values.values
    if one_value(values):
        return True
    if isinstance(values, np.ndarray) and values.ndim:
        return not len(values) or bool(values[0] == values[-1] and (values == values[0]).all())
    return values is None or not isinstance(values, (str, pa.Array, pa.ChunkedArray))


def arrow(column: Column, values: Nullable | pa.Array | Array | int | str | None, count: int) -> pa.Array:
    """One column of a part from an array, :class:`Nullable`, Arrow array, scalar for all rows, or None."""
    kind = pa.type_for_alias(column.type)
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if values is None:
        return _nulls(kind, count)
    if column.type == "bool":
        return pa.array(np.broadcast_to(np.asarray(values, bool), count).copy())
    if column.type == "string":
        return pa.DictionaryArray.from_arrays(np.zeros(count, np.int8), [values])
    if isinstance(values, Nullable):
        return _with_nulls(kind, np.ascontiguousarray(values.values, column.type), values.null)
    if np.ndim(values) == 0:
        return pa.array(np.full(count, values, column.type))
    return pa.array(np.ascontiguousarray(values, column.type))


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """Nulls in memory that all columns of a type share: a third of a kernel's columns are empty in most recordings."""
    return _shared_nulls(kind, -(-count // _NULLS) * _NULLS).slice(0, count)


@lru_cache(maxsize=8)
def _shared_nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def _with_nulls(kind: pa.DataType, values: Array, null: Array | None) -> pa.Array:
    if null is None or not null.any():
        return pa.array(values)
    if one_value(null) or null.all():
        return _nulls(kind, len(values))
    bitmap = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(values)])


def table(model: Table, rows: Iterable[Mapping[str, Any]]) -> tuple[pa.Table, int]:
    """Rows of a table, and how many of their numbers were left out because the column cannot hold them.

    Programs that overwrite the recorder's memory leave such numbers.
    """
    listed = [dict(row) for row in rows]
    wrong = 0
    for column in model.columns:
        if column.type not in _RANGES:
            continue
        least, most = _RANGES[column.type]
        for row in listed:
            value = row.get(column.name)
            if isinstance(value, int) and not least <= value <= most:
                row[column.name] = None if column.nullable else 0
                wrong += 1
    return pa.Table.from_pylist(listed, model.schema()), wrong


def take(values: pa.Array, order: Array) -> pa.Array:
    """The rows of a column in another order; scalars and None apply to every row."""
    if isinstance(values, Nullable):
        return values.take(order)
    if isinstance(values, pa.Array):
        return values.take(pa.array(order))
    return values if values is None or np.ndim(values) == 0 else pick(values, order)

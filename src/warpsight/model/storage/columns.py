"""Whole columns of a table as NumPy arrays, read straight from its Parquet parts.

Questions about every row of a table begin here. Reading uses no SQL, and copies only the rows of one batch beside the arrays
themselves. The caller selects rows on the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import parquet

    from warpsight.model.schema import Table

Column = NDArray[Any]
#: Rows decoded at once, a row group. Larger batches are slower: their memory goes back to the system and is cleared again.
BATCH_ROWS = 1 << 18
#: Code of a missing string.
NO_TEXT = -1


def read(
    files: Sequence[str],
    table: Table,
    numbers: Mapping[str, int],
    texts: Sequence[str] = (),
    footer: Callable[[str], pq.FileMetaData] | None = None,
    narrow: Sequence[str] = (),
) -> tuple[dict[str, Column], dict[str, list[str]]]:
    """Columns of a table, in the order of its parts.

    Args:
        files: The parts.
        table: The table.
        numbers: Columns of numbers and booleans to read, and the value that replaces null in each.
        texts: Columns of text to read: each becomes codes (int32, :data:`NO_TEXT` for null), numbered in order of appearance.
        footer: Function that returns the footer of a part that has been read already.
        narrow: Columns of int64 that become int32 if all values fit according to the footers.

    Returns:
        The arrays by name, in the schema's types otherwise, and for each text column the texts behind the codes.
    """
    import pyarrow.parquet as pq

    known = footer or pq.read_metadata
    opened = [pq.ParquetFile(file, metadata=known(file), read_dictionary=list(texts)) for file in files]
    kinds: dict[str, Any] = {c.name: c.type for c in table.columns}
    kinds |= {name: np.int32 for name in narrow if all(_fits(file.metadata, name) for file in opened)}
    rows = sum(file.metadata.num_rows for file in opened)
    out = {name: np.empty(rows, kinds[name]) for name in numbers}
    out |= {name: np.empty(rows, np.int32) for name in texts}
    fills = {**numbers, **dict.fromkeys(texts, NO_TEXT)}
    codes: dict[str, dict[str, int]] = {name: {} for name in texts}
    first = 0
    for file in opened:
        has_columns = set(file.metadata.schema.names)
        there = [name for name in out if name in has_columns]
        stop = first + file.metadata.num_rows
        for name in out.keys() - has_columns:  # a column that is younger than this part
            out[name][first:stop] = fills[name]
        for groups in _batches(file.metadata):
            batch = file.read_row_groups(groups, there, use_threads=True)
            for name in there:
                _fill(batch.column(name), out[name], first, fills[name], codes.get(name))
            first += len(batch)
        file.close()
    return out, {name: list(found) for name, found in codes.items()}


def least(
    files: Sequence[str], table: Table, column: str, footer: Callable[[str], pq.FileMetaData]
) -> int | None:
    """The smallest value of an integer column, or None."""
    found: list[int] = []
    for file in files:
        statistics = _statistics(footer(file), column)
        if statistics is None or not all(
            one.has_min_max or one.null_count == one.num_values for one in statistics
        ):
            values = _values_of(file, table, column)
            found += [int(values.min())] if len(values) else []
        else:
            found += [int(one.min) for one in statistics if one.has_min_max]
    return min(found, default=None)


def latest(
    files: Sequence[str], column: str, footer: Callable[[str], pq.FileMetaData], length: str | None = None
) -> int | None:
    """The largest value of a column of integers, or of its sum with another one (null counts as 0); None without values.

    A row group's footer says how large its values can be: the most promising ones are read first, and most of them never.
    """
    groups: list[tuple[float, str, int]] = []
    for file in files:
        metadata = footer(file)
        moments = _largest(metadata, column)
        lengths = [None] * len(moments) if length is None else _largest(metadata, length)
        groups += [
            (moment + max(0, longest or 0), file, group)
            for group, (moment, longest) in enumerate(zip(moments, lengths, strict=True))
            if moment is not None
        ]
    found: int | None = None
    for bound, file, group in sorted(groups, reverse=True):
        if found is not None and bound <= found:
            break
        last = _latest_of(file, footer(file), group, column, length)
        found = last if found is None else found if last is None else max(found, last)
    return found


def _largest(metadata: pq.FileMetaData, column: str) -> list[float | None]:
    """The largest value of a column in each row group by the footer: infinite if it is not there, None without values."""
    statistics = _statistics(metadata, column)
    if statistics is None:
        return [inf] * metadata.num_row_groups
    if not statistics:
        return [None] * metadata.num_row_groups
    return [one.max if one.has_min_max else inf if one.num_values else None for one in statistics]


def _latest_of(
    file: str, metadata: pq.FileMetaData, group: int, column: str, length: str | None
) -> int | None:
    """The largest value or sum in a row group."""
    import pyarrow.parquet as pq

    names = [column] if length is None else [column, length]
    with pq.ParquetFile(file, metadata=metadata) as opened:
        batch = opened.read_row_group(group, [name for name in names if name in metadata.schema.names])
    null = np.iinfo(np.int64).min
    values = {}
    for name, fill in zip(batch.column_names, (null, 0), strict=False):
        values[name] = np.empty(len(batch), np.int64)
        _fill(batch.column(name), values[name], 0, fill, None)
    there = np.flatnonzero(values[column] != null)
    moments = values[column][there]
    if length in values:
        moments += values[length][there]
    return int(moments.max()) if len(moments) else None


def has(files: Sequence[str], table: Table, column: str, footer: Callable[[str], pq.FileMetaData]) -> bool:
    """Whether a column has any value but null."""
    for file in files:
        statistics = _statistics(footer(file), column)
        if statistics is None:
            if len(_values_of(file, table, column)):
                return True
        elif any(one.num_values for one in statistics):  # values other than nulls
            return True
    return False


def _values_of(file: str, table: Table, column: str) -> Column:
    """The values of a column of integers, without the nulls."""
    null = np.iinfo({c.name: c.type for c in table.columns}[column]).max
    values = read([file], table, {column: int(null)})[0][column]
    there: Column = values[values != null]
    return there


def _statistics(metadata: pq.FileMetaData, column: str) -> list[Any] | None:
    """The footer's statistics of a column in each row group; [] for a missing column, None where the footer has none."""
    names = metadata.schema.names
    if column not in names:
        return []
    place = names.index(column)
    found = [metadata.row_group(i).column(place).statistics for i in range(metadata.num_row_groups)]
    return None if any(one is None or not one.has_null_count for one in found) else found


def _fits(metadata: pq.FileMetaData, column: str) -> bool:
    """Whether the values of a column are known to fit into 32 bits."""
    statistics = _statistics(metadata, column)
    return statistics is not None and all(
        one.null_count == one.num_values or (one.has_min_max and one.min >= -(1 << 31) and one.max < 1 << 31)
        for one in statistics
    )


def _batches(metadata: parquet.FileMetaData) -> list[list[int]]:
    """The row groups of a part, as many at a time as make a batch."""
    out: list[list[int]] = []
    held = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if not out or held + rows > BATCH_ROWS:
            out.append([])
            held = 0
        out[-1].append(group)
        held += rows
    return out


def _fill(column: pa.ChunkedArray, out: Column, at: int, fill: int, codes: dict[str, int] | None) -> None:
    for i in range(column.num_chunks):
        chunk = column.chunk(i)
        place = out[at : at + len(chunk)]
        at += len(chunk)
        if codes is not None:
            known = [codes.setdefault(text, len(codes)) for text in chunk.dictionary.to_pylist()]
            chunk = chunk.indices
            missing = _missing(chunk)
            index = _values(chunk, np.dtype(np.int32))
            if missing is not None:
                index = np.where(missing, 0, index)
            place[:] = np.array(known or [NO_TEXT], np.int32)[index]
        else:
            missing = _missing(chunk)
            # An older part may hold the column in a narrower type.
            place[:] = _values(chunk, _dtype(chunk.type))
        if missing is not None:
            place[missing] = fill


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    """NumPy's type of numbers and truth values; Arrow's own answer needs pandas in some versions of Arrow."""
    import pyarrow.types as types

    if types.is_boolean(kind):
        return np.dtype(bool)
    letter = "f" if types.is_floating(kind) else "u" if types.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def _missing(chunk: pa.Array) -> Column | None:
    """Which values are null; None when none is."""
    if not chunk.null_count:
        return None
    return ~_bits(chunk.buffers()[0], chunk.offset, len(chunk))


def _values(chunk: pa.Array, kind: np.dtype[Any]) -> Column:
    """The values of a chunk from its buffer; values at nulls are undefined."""
    buffer = chunk.buffers()[1]
    if kind.kind == "b":
        return _bits(buffer, chunk.offset, len(chunk))
    values: Column = np.frombuffer(buffer, kind, len(chunk), chunk.offset * kind.itemsize)
    return values


def _bits(buffer: pa.Buffer, offset: int, count: int) -> Column:
    raw = np.frombuffer(buffer, np.uint8)[offset // 8 : (offset + count + 7) // 8]
    out: Column = np.unpackbits(raw, bitorder="little")[offset % 8 : offset % 8 + count].astype(bool)
    return out

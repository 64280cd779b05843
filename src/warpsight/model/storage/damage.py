"""Finds out what is wrong with a trace after a read error, by looking for impossible values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from warpsight.errors import TraceError
from warpsight.model.schema import LATER, TABLES, Table

#: Columns that refer to ids of another table.
_REFERENCES = {"name_id": "name", "shape_id": "shape", "stack": "stack", "frame": "frame", "parent": "stack"}
#: Times are ns since 1970, or since a machine's start: beyond this, sums overflow.
_LATEST = 1 << 62
#: Larger traces are not scanned: that would take longer than the answer did.
_LARGEST = 1 << 28


def unreadable(where: str, error: BaseException) -> TraceError:
    """The error for a part, or for the data named by `where`, that cannot be valid."""
    reason = str(error).strip().partition("\n")[0]
    return TraceError(f"{where} cannot be read: {reason}; copy the trace again, or record it again")


def unreadable_part(parts: Sequence[str]) -> tuple[str, BaseException] | None:
    """The first part without a footer, with the reason."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part in parts:
        try:
            pq.read_metadata(part)
        except (pa.ArrowException, OSError) as error:
            return part, error
    return None


def missing(rows: object, found: Callable[[str], int]) -> dict[str, int]:
    """Rows by table that the manifest lists and the parts lack; `found` counts a table's rows."""
    listed = rows if isinstance(rows, Mapping) else {}
    known = {name: count for name, count in listed.items() if isinstance(count, int) and name in TABLES}
    gone = {name: count - found(name) for name, count in known.items() if count > 0}
    return {name: count for name, count in gone.items() if count > 0}


def found(files: Mapping[str, Sequence[str]]) -> str:
    """The first problem in the parts of a trace, by table, as a clause; empty if there is none."""
    import pyarrow as pa

    if sum(Path(part).stat().st_size for parts in files.values() for part in parts) > _LARGEST:
        return ""
    try:
        highest = {table: _most(files, table) for table in set(_REFERENCES.values())}
        for name, table in TABLES.items():
            for part in files[name]:
                problem = next(_of_part(table, part, highest), "")
                if problem:
                    return f"table {name} {problem}"
    except (pa.ArrowException, OSError) as error:
        return f"a part cannot be read: {str(error).splitlines()[0]}"
    return ""


def _most(files: Mapping[str, Sequence[str]], table: str) -> int:
    """The largest id that a table defines; -1 if it is empty, the maximum if its ids are not numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    ids = [pq.read_table(part, columns=["id"], partitioning=None)["id"] for part in files[table]]
    if not all(pa.types.is_integer(column.type) for column in ids):
        return sys.maxsize
    return max((pc.max(column).as_py() or 0 for column in ids if len(column)), default=-1)


def _of_part(table: Table, part: str, highest: Mapping[str, int]) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    data, schema = pq.read_table(part, partitioning=None), table.schema()
    for column in table.columns:
        if column.name not in data.column_names:
            if column.name not in LATER.get(table.name, ()):
                yield f"has no column {column.name}"
            continue
        values, kind = data[column.name], schema.field(column.name).type
        values.validate(full=True)  # strings in UTF-8
        if pa.types.is_dictionary(values.type):
            continue
        if values.type != kind and not (pa.types.is_integer(values.type) and pa.types.is_integer(kind)):
            yield f"holds {values.type} in column {column.name}, where {kind} belongs"
            continue
        if values.null_count and not column.nullable:
            yield f"holds nulls in column {column.name}"
        if not pa.types.is_integer(values.type) or values.null_count == len(values):
            continue
        least, most = (value.as_py() for value in pc.min_max(values).values())
        yield from _of_numbers(table.name, column.name, column.unit, least, most, highest)


def _of_numbers(
    table: str, column: str, unit: str, least: int, most: int, highest: Mapping[str, int]
) -> Iterator[str]:
    target = _REFERENCES.get(column) if (column, table == "stack") != ("parent", False) else None
    if target is not None and (least < 0 or most > highest[target]):
        yield f"refers in column {column} to {least if least < 0 else most}, which table {target} does not define"
    if column in ("id", "process", "device", "depth") and least < 0:
        yield f"holds {least} in column {column}"
    if unit == "ns" and (most > _LATEST or least < -_LATEST):
        yield f"holds a time in column {column} that is out of range"
    if column == "duration" and least < 0:
        yield f"holds the duration {least} ns"

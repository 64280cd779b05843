"""One zip archive with a file per table: what the tabular formats share."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import KINDS, Selection
from warpsight.model.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "Every row and column of every table, names and shapes looked up; units where the format has metadata.",
    ),
    lost=("Units in CSV and JSON lines: times are ns.",),
    tested=("pyarrow, csv and json in tests",),
)
_BATCH_ROWS = 262_144
_SELECTABLE = frozenset(table for tables in KINDS.values() for table in tables)


def archive(
    trace: StoredTrace,
    file: IO[bytes],
    selection: Selection,
    suffix: str,
    write: Callable[[IO[bytes], pa.Schema, Any], None],
    *,
    as_json: bool = False,
) -> dict[str, int]:
    """Write every table that has rows; `write(out, schema, batches)` writes one. Returns counts of tables and rows."""
    tables = rows = 0
    # Parquet is compressed already.
    method, level = (zipfile.ZIP_STORED, None) if suffix == ".parquet" else (zipfile.ZIP_DEFLATED, 1)
    with zipfile.ZipFile(file, "w", method, compresslevel=level) as made:
        for table in TABLES:
            if not trace.count(table) or (table in _SELECTABLE and not selection.wants(table)):
                continue
            schema, batches = _rows(trace, table, selection, as_json)
            counted = _Counting(batches)
            with made.open(f"{table}{suffix}", "w", force_zip64=True) as out:
                write(out, schema, counted)
            tables += 1
            rows += counted.rows
    return {"tables": tables, "rows": rows}


class _Counting:
    """Passes batches on and counts their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _rows(
    trace: StoredTrace, table: str, selection: Selection, as_json: bool
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The schema of a table's view, with units where they are known, and its rows."""
    import pyarrow as pa

    columns = {column.name for column in TABLES[table].columns}
    terms = ["true"]
    if "start" in columns and table in _SELECTABLE:
        whole = selection.begin is None and selection.end is None
        only = selection.where(table).removeprefix("start IS NOT NULL")
        terms.append(only.removeprefix(" AND ") or "true" if whole else selection.where(table))
    elif "time" in columns and table in _SELECTABLE:
        terms.append(selection.instants())
    if selection.processes and "process" in columns:
        terms.append(f"process IN ({', '.join(str(int(p)) for p in selection.processes)})")
    order = TABLES[table].sort
    sql = f'SELECT {"to_json(t)::VARCHAR AS line" if as_json else "*"} FROM "{table}" t WHERE {" AND ".join(terms)}'
    relation = trace.sql(f"{sql} ORDER BY {order}" if order else sql)
    reader = (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(_BATCH_ROWS)
    known = TABLES[table].schema()
    fields = [
        f.with_metadata(known.field(f.name).metadata) if f.name in columns else f for f in reader.schema
    ]
    schema = pa.schema(fields)
    return schema, (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)

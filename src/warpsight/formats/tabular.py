"""All tables of a trace as files that every data tool reads, one per table, in one zip archive.

Parquet and Arrow IPC keep types and units (in the fields' metadata); CSV and JSON lines are text. Names and shapes are
looked up: a kernel's row has its name, grid and block.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import KINDS, Selection
from warpsight.model.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=("every row and column, with names and shapes looked up; units where the format has metadata",),
    lost=("units in CSV and JSON lines: times are ns",),
    tested=("pyarrow, csv and json",),
)
_BATCH_ROWS = 262_144
_SELECTABLE = frozenset(table for tables in KINDS.values() for table in tables)


def parquet(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Parquet, zstd."""
    import pyarrow.parquet as pq

    return _archive(trace, file, selection, ".parquet", partial(pq.ParquetWriter, compression="zstd"))


def arrow(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Arrow IPC files (Feather 2)."""
    import pyarrow as pa

    return _archive(trace, file, selection, ".arrow", pa.ipc.new_file)


def csv(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """CSV with a header line; texts quoted, nulls empty; texts that look like a formula begin with an apostrophe."""
    import pyarrow.csv as pcsv

    return _archive(trace, file, selection, ".csv", pcsv.CSVWriter, change=_without_formulas)


def jsonl(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """JSON lines: one object per row, with nulls."""
    return _archive(trace, file, selection, ".jsonl", None)


def _without_formulas(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [
        pc.replace_substring_regex(column, r"^([=+@\t\r-])", r"'\1")
        if pa.types.is_string(column.type)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _archive(
    trace: StoredTrace,
    file: IO[bytes],
    selection: Selection,
    suffix: str,
    writer: Callable[[IO[bytes], pa.Schema], Any] | None,
    change: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
) -> dict[str, int]:
    """Write every non-empty table, with an Arrow writer or as lines of JSON. Returns counts of tables and rows."""
    tables = rows = 0
    # Parquet is compressed already.
    method, level = (zipfile.ZIP_STORED, None) if suffix == ".parquet" else (zipfile.ZIP_DEFLATED, 1)
    with zipfile.ZipFile(file, "w", method, compresslevel=level) as made:
        for table in TABLES:
            if not trace.count(table) or (table in _SELECTABLE and not selection.wants(table)):
                continue
            schema, batches = _rows(trace, table, selection, as_json=writer is None)
            with made.open(f"{table}{suffix}", "w", force_zip64=True) as out, ExitStack() as open_files:
                opened = open_files.enter_context(writer(out, schema)) if writer is not None else None
                for batch in batches:
                    rows += batch.num_rows
                    if opened is not None:
                        opened.write_batch(change(batch))
                    else:
                        out.write("".join(f"{line}\n" for line in batch.column(0).to_pylist()).encode())
            tables += 1
    return {"tables": tables, "rows": rows}


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

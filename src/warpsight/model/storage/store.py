"""How the parts of a trace are encoded: the only module that writes Parquet."""

from __future__ import annotations

import base64
import os
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warpsight.model import arrow, private_files
from warpsight.model.schema import Table
from warpsight.model.storage.layout import part_number as part_number
from warpsight.model.storage.layout import part_path as part_path
from warpsight.model.storage.layout import parts as parts

#: Rows per row group: the unit of decoding and of parallelism for readers.
ROW_GROUP_ROWS = 262_144
#: zstd level 1: level 3 saves 2-4% of the bytes for twice the time (benchmarks/convert.py).
COMPRESSION_LEVEL = 1

#: Ids stored without a dictionary: zstd finds their repetitions for a third of the time a dictionary takes. Kernels are
#: what readers group by name, shape and stack, and dictionary pages make that quicker; launches are joined by correlation.
_PLAIN_IDS = {"launch": ("name_id", "shape_id", "stack"), "api": ("stack",)}

#: Deltas of times are already noise: zstd saves 2% of them at the price of a third of the time for writing and reading.
_UNCOMPRESSED = ("start", "duration")

#: Columns whose ranges readers use to skip row groups, besides times and ids.
_STATISTICS = ("name_id", "device", "stream", "process", "thread")


@lru_cache(maxsize=64)
def _arrow_schema(table: Table) -> bytes:
    """The schema as Arrow readers see it: parts written from dictionaries are read as strings."""
    return base64.b64encode(table.schema().serialize().to_pybytes())


def write_part(path: Path, table: Table, data: pa.Table, plain: Collection[str] = ()) -> None:
    """Write one part with secrets removed, under a temporary name, then rename it.

    Files have mode 0600, folders 0700.

    `plain` names columns that are neither deltas nor worth a dictionary: the same number in every row.

    Raises:
        OSError: when the disk is full or the folder cannot be written; the temporary file is removed.
    """
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name("." + path.name)
    data = _without_secrets(table, data)
    delta = [name for name in table.delta if name in data.column_names]
    # Parquet has no dictionary encoding for booleans, and floats gain nothing from one.
    direct = {*delta, *plain, *_PLAIN_IDS.get(table.name, ())}
    dictionary = [c.name for c in table.columns if c.name not in direct and c.type not in ("bool", "float64")]
    packed = [name for name in data.column_names if name not in _UNCOMPRESSED]
    data = data.replace_schema_metadata({b"ARROW:schema": _arrow_schema(table)})
    try:
        descriptor = private_files.create(temporary, new=False)
        with os.fdopen(descriptor, "wb") as file:
            pq.write_table(
                data,
                file,
                row_group_size=ROW_GROUP_ROWS,
                compression=dict.fromkeys(packed, "zstd") | dict.fromkeys(_UNCOMPRESSED, "none"),
                compression_level=dict.fromkeys(packed, COMPRESSION_LEVEL),
                use_dictionary=dictionary,
                column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
                store_schema=False,
                write_batch_size=65_536,
                write_statistics=[*delta, *_STATISTICS],
            )
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(path)) from error
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _without_secrets(table: Table, data: pa.Table) -> pa.Table:
    from warpsight.model.sharing import secrets

    for column in table.columns:
        if (column.free or column.word) and column.name in data.column_names:
            old = data.column(column.name)
            new = secrets.column(column.name, old)
            if new is not old:
                data = data.set_column(data.column_names.index(column.name), column.name, new)
    return data


def read_part(table: Table, part: Path | str, metadata: pq.FileMetaData | None = None) -> pa.Table:
    """Read a part in the form that :func:`conform` gives, without columns of later versions."""
    file = pq.ParquetFile(part, metadata=metadata)
    there = set(file.metadata.schema.names)
    known = [column.name for column in table.columns if column.name in there]
    return conform(table, file.read(columns=known))


def conform(table: Table, data: pa.Table) -> pa.Table:
    """`data` with exactly the schema's columns, order and types; columns it lacks are null.

    Raises:
        KeyError: for a column that is not in the schema, or a missing column that may not be null.
        pyarrow.ArrowInvalid: for a value its column cannot hold.
    """
    schema = table.schema()
    known = {c.name for c in table.columns}
    unknown = [name for name in data.column_names if name not in known]
    if unknown:
        raise KeyError(f"table {table.name} has no column {unknown[0]}")
    arrays = []
    for column in table.columns:
        field = schema.field(column.name)
        if column.name not in data.column_names:
            if not column.nullable and len(data):
                raise KeyError(f"table {table.name} needs a value in column {column.name}")
            arrays.append(pa.nulls(len(data), field.type))
            continue
        values = data.column(column.name)
        if pa.types.is_dictionary(values.type):
            values = arrow.cast(values, values.type.value_type)
        arrays.append(arrow.cast(values, field.type))
        if not column.nullable and values.null_count:
            raise pa.ArrowInvalid(f"{table.name}.{column.name} holds a null")
    return pa.Table.from_arrays(arrays, schema=schema)

"""The SQL behind a trace's views: `NAME_ids` has ids, `NAME` has strings as well."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from warpsight.model.schema import LATER, TABLES, WIDENED

_NAME = ("name", "demangled", "short")
_SHAPE = tuple(c.name for c in TABLES["shape"].columns if c.name != "id")
#: Tables with a name_id column; their plain view adds name, demangled and short.
NAMED = tuple(table.name for table in TABLES.values() if any(c.name == "name_id" for c in table.columns))
_SQL_TYPES = {
    "int64": "BIGINT",
    "int32": "INTEGER",
    "int16": "SMALLINT",
    "int8": "TINYINT",
    "uint64": "UBIGINT",
    "uint32": "UINTEGER",
    "float64": "DOUBLE",
    "string": "VARCHAR",
    "bool": "BOOLEAN",
}


def quote(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


#: Views that read parts; the others look up strings for the rows of one of these.
RAW = tuple(f"{name}_ids" if name in NAMED else name for name in TABLES)
_LOOKED_UP = {"name": _NAME, "shape": _SHAPE}


def names() -> tuple[str, ...]:
    """All views."""
    return (*RAW, *NAMED)


def looks_up_in(name: str) -> tuple[str, ...]:
    """The tables in which a view looks up strings; each needs its :func:`variable` first."""
    if name not in NAMED:
        return ()
    return ("name", "shape") if any(c.name == "shape_id" for c in TABLES[name].columns) else ("name",)


def create(name: str, files: Mapping[str, Sequence[str]]) -> str:
    """The statement that creates a view from the part files of each table (none: an empty relation)."""
    if name in NAMED:
        return f'CREATE VIEW "{name}" AS {_looked_up(name)}'
    table = name if name in TABLES else name.removesuffix("_ids")
    return f'CREATE VIEW "{name}" AS {base(table, files.get(table, ()))}'


def variable(table: str) -> str:
    """The statement that gives a connection (each cursor is one) the lists for looking up strings of table `name` or `shape`.

    One variable per table, with a list of all values of each column; the value of id n is at place n. Unlike a join, a lookup
    costs nothing if a statement does not use the column. It is evaluated once per distinct id of a dictionary-coded page instead
    of once per row, and filters and LIMIT apply to the rows directly.
    """
    lists = ", ".join(f'"{c}" := list(d."{c}" ORDER BY i.id)' for c in _LOOKED_UP[table])
    ids = f'SELECT unnest(range(1, max(id) + 1)) AS id FROM "{table}"'  # a missing id leaves a null
    rows = f'({ids}) i LEFT JOIN "{table}" d ON d.id = i.id'
    return f"SET VARIABLE warpsight_{table} = (SELECT struct_pack({lists}) FROM {rows})"


def base(table: str, files: Sequence[str]) -> str:
    """The statement that reads a table's parts with the schema's columns (no parts: an empty relation)."""
    columns = TABLES[table].columns
    if not files:
        nulls = ", ".join(f'CAST(NULL AS {_SQL_TYPES[c.type]}) AS "{c.name}"' for c in columns)
        return f"SELECT {nulls} WHERE false"
    absent, narrow, mixed = _older(table, files)
    names = ", ".join(
        f'CAST(NULL AS {_SQL_TYPES[c.type]}) AS "{c.name}"' if c.name in absent
        else f'CAST("{c.name}" AS {_SQL_TYPES[c.type]}) AS "{c.name}"' if c.name in narrow
        else f'"{c.name}"'
        for c in columns
    )  # fmt: skip
    listed = ", ".join(quote(file) for file in files)
    return f"SELECT {names} FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = {mixed})"


def _older(table: str, files: Sequence[str]) -> tuple[set[str], set[str], bool]:
    """Columns that no part has, columns that some part holds in a narrower type, and whether the parts differ.

    The parts of one process are of one version except for the last ones, which a newer version may have recovered.
    """
    later, widened = set(LATER.get(table, ())), set(WIDENED.get(table, ()))
    if not later | widened:
        return set(), set(), False
    import pyarrow as pa
    import pyarrow.parquet as pq

    ends: dict[str, list[str]] = {}
    for file in files:
        ends.setdefault(os.path.dirname(file), []).append(file)
    schemas = [pq.read_schema(part) for parts in ends.values() for part in {parts[0], parts[-1]}]
    absent = [frozenset(later - set(schema.names)) for schema in schemas]
    narrow = [frozenset(c for c in widened if schema.field(c).type != pa.int64()) for schema in schemas]
    versions = set(zip(absent, narrow, strict=True))
    return set(frozenset.intersection(*absent)), set(frozenset.union(*narrow)), len(versions) > 1


def _looked_up(table: str) -> str:
    own = TABLES[table].columns
    columns = [f't."{c.name}"' for c in own]
    columns += [f'getvariable(\'warpsight_name\')."{c}"[t.name_id] AS "{c}"' for c in _NAME]
    if any(c.name == "shape_id" for c in own):
        columns += [f'getvariable(\'warpsight_shape\')."{c}"[t.shape_id] AS "{c}"' for c in _SHAPE]
    return f'SELECT {", ".join(columns)} FROM "{table}_ids" t'

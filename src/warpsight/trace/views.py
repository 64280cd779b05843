"""The SQL behind a trace's views: `NAME_ids` has ids, `NAME` the text joined to them.

For questions about many rows group the raw relation by id first and join the text afterwards: `kernel_ids`
grouped by `name_id` reads two columns of ten million kernels in a fraction of the time a join of every row
takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from warpsight.trace.schema import TABLES

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


def create(files: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The statements that create every view, given the part files of each table (none: an empty relation)."""
    for name in TABLES:
        raw = f"{name}_ids" if name in NAMED else name
        yield f'CREATE VIEW "{raw}" AS {_base(name, files.get(name, ()))}'
    for name in NAMED:
        yield f'CREATE VIEW "{name}" AS {_joined(name)}'


def _base(table: str, files: Sequence[str]) -> str:
    columns = TABLES[table].columns
    if not files:
        nulls = ", ".join(f'CAST(NULL AS {_SQL_TYPES[c.type]}) AS "{c.name}"' for c in columns)
        return f"SELECT {nulls} WHERE false"
    names = ", ".join(f'"{c.name}"' for c in columns)
    listed = ", ".join(quote(file) for file in files)
    return f"SELECT {names} FROM read_parquet([{listed}], hive_partitioning = false)"


def _joined(table: str) -> str:
    own = TABLES[table].columns
    columns = [f't."{c.name}"' for c in own] + ["n.name", "n.demangled", "n.short"]
    joins = "LEFT JOIN name n ON t.name_id = n.id"
    if any(c.name == "shape_id" for c in own):
        columns += [f"s.{c}" for c in _SHAPE]
        joins += " LEFT JOIN shape s ON t.shape_id = s.id"
    return f'SELECT {", ".join(columns)} FROM "{table}_ids" t {joins}'

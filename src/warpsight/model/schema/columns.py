"""What a table and a column are, and the notation the schema modules are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column: `type` is an Arrow type name, `unit` is kept in the field's metadata ("" when there is none)."""

    name: str
    type: str
    nullable: bool
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table of a trace.

    `sort` names the column rows are sorted by within a part; `delta` columns are stored DELTA_BINARY_PACKED, all others
    dictionary-coded.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    sort: str | None = None

    def schema(self) -> pa.Schema:
        """The Arrow schema, with meaning and unit in every field's metadata."""
        import pyarrow as pa

        types = {
            "int64": pa.int64(),
            "int32": pa.int32(),
            "int16": pa.int16(),
            "int8": pa.int8(),
            "uint64": pa.uint64(),
            "float64": pa.float64(),
            "string": pa.string(),
            "bool": pa.bool_(),
            "uint32": pa.uint32(),
        }
        return pa.schema(
            [
                pa.field(c.name, types[c.type], c.nullable, {"unit": c.unit, "meaning": c.meaning})
                for c in self.columns
            ]
        )

    @property
    def delta(self) -> tuple[str, ...]:
        """Columns stored as deltas: times, durations and ids that mostly grow."""
        return tuple(c.name for c in self.columns if c.unit in ("ns", "id"))


def table(name: str, meaning: str, text: str, sort: str | None = None) -> Table:
    """Parse lines `name type[?] unit meaning…`; `-` stands for no unit, `?` for nullable."""
    columns = []
    for line in filter(str.strip, text.splitlines()):
        column, kind, unit, note = line.split(None, 3)
        columns.append(
            Column(column, kind.rstrip("?"), kind.endswith("?"), "" if unit == "-" else unit, note)
        )
    return Table(name, meaning, tuple(columns), sort)

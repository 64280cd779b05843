"""What a table and a column are, and the notation the schema modules are written in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: As in SQL.
        type: An Arrow type name.
        nullable: Whether it may be null.
        unit: Kept in the field's metadata; "" when there is none.
        meaning: One line for the reference.
        free: Text that comes from the program, its machine or its user, not the recorder's own words: what is written there
            goes through :mod:`warpsight.model.sharing.secrets`, and what is shared through the redaction beside it.
    """

    name: str
    type: str
    nullable: bool
    unit: str
    meaning: str
    free: bool = False


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
    """Parse lines `name type[?] unit meaning…`: `-` is not a unit, `?` nullable, `text` a string that is :attr:`Column.free`."""
    columns = []
    for line in filter(str.strip, text.splitlines()):
        column, kind, unit, note = line.split(None, 3)
        base, free = kind.rstrip("?"), kind.startswith("text")
        columns.append(
            Column(
                column,
                "string" if free else base,
                kind.endswith("?"),
                "" if unit == "-" else unit,
                note,
                free,
            )
        )
    return Table(name, meaning, tuple(columns), sort)

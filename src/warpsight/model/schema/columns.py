"""Tables and columns, and the notation of the schema modules."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
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
        unit: Kept in the field's metadata, or "".
        meaning: One line for the reference.
        free: Whether it holds text from the program, its machine or its user, not the recorder's own words. Such text goes
            through :mod:`warpsight.model.sharing.secrets` when it is written, and through the redaction beside it when it is
            shared.
        word: Whether it holds words of the recorder, or of another tool whose file was imported. Secrets are searched for here,
            too.
    """

    name: str
    type: str
    nullable: bool
    unit: str
    meaning: str
    free: bool
    word: bool


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

        return pa.schema(
            [
                pa.field(
                    c.name, pa.type_for_alias(c.type), c.nullable, {"unit": c.unit, "meaning": c.meaning}
                )
                for c in self.columns
            ]
        )

    def only(self, names: Collection[str]) -> Table:
        """The table without its other columns, for readers that need a few."""
        return replace(self, columns=tuple(c for c in self.columns if c.name in names))

    @property
    def delta(self) -> tuple[str, ...]:
        """Columns stored as deltas: times, durations and ids that mostly grow."""
        return tuple(c.name for c in self.columns if c.unit in ("ns", "id"))


def tables(text: str, **shared: str) -> tuple[Table, ...]:
    """Parse tables separated by empty lines: `name[sort] meaning`, then for each column a line `column type[?] unit meaning`.

    `-` means no unit, `?` nullable, `text` a string that is :attr:`Column.free`, `word` one that is :attr:`Column.word`;
    `@name` stands for the lines of `shared`.
    """
    found = []
    for paragraph in text.strip().split("\n\n"):
        head, *lines = paragraph.splitlines()
        name, meaning = head.split(None, 1)
        name, _, sort = name.rstrip("]").partition("[")
        columns: list[Column] = []
        for line in map(str.strip, lines):
            columns += map(_column, shared[line[1:]].strip().splitlines() if line.startswith("@") else [line])
        found.append(Table(name, meaning, tuple(columns), sort or None))
    return tuple(found)


def _column(line: str) -> Column:
    name, kind, unit, meaning = line.split(None, 3)
    base = kind.rstrip("?")
    free, word = base == "text", base == "word"
    arrow = "string" if free or word else base
    return Column(name, arrow, kind.endswith("?"), "" if unit == "-" else unit, meaning, free, word)

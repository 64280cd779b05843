"""Rows of an export with their references resolved, one at a time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.formats.source import Source

#: Elements inside each other at most; a cell of a backtrace is nine deep.
_DEEPEST = 100
_PLACE = re.compile(r"line (\d+)")


@dataclass(frozen=True)
class InstrumentsCell:
    """A value: its raw text, the text Instruments shows, its attributes and its children."""

    tag: str
    text: str
    shown: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    inside: tuple[InstrumentsCell, ...] = ()

    @property
    def number(self) -> int | None:
        """The raw text as a decimal or hexadecimal integer; None if it is not a number."""
        try:
            return int(self.text.strip(), 0)
        except ValueError:
            return None

    def find(self, tag: str) -> InstrumentsCell | None:
        """The first cell of a kind inside, at any depth."""
        for cell in self.inside:
            if cell.tag == tag:
                return cell
            if (found := cell.find(tag)) is not None:
                return found
        return None


@dataclass(frozen=True)
class InstrumentsRow:
    """One row of a table: cells by column mnemonic; empty cells are absent."""

    schema: str
    cells: Mapping[str, InstrumentsCell]

    def number(self, *columns: str) -> int | None:
        """The first of these columns that holds a number."""
        for column in columns:
            cell = self.cells.get(column)
            if cell is not None and cell.number is not None:
                return cell.number
        return None

    def shown(self, *columns: str) -> str:
        """The first of these columns with a displayed text."""
        return next((self.cells[c].shown for c in columns if c in self.cells and self.cells[c].shown), "")


def rows(source: Source) -> Iterator[InstrumentsRow]:
    """The rows of a file. A node without a schema continues the previous one, as xctrace writes them.

    Raises:
        FormatError: for damaged XML, or a reference to an id that was never written.
    """
    known: dict[str, InstrumentsCell] = {}
    schema, columns = "", []
    parents: list[ElementTree.Element] = []
    with source.open() as file:
        try:
            for event, element in ElementTree.iterparse(file, events=("start", "end")):
                if event == "start":
                    parents.append(element)
                    if len(parents) > _DEEPEST:
                        raise source.error(
                            f"is nested more than {_DEEPEST} elements deep, which no export is"
                        )
                    continue
                parents.pop()
                if element.tag == "schema":
                    schema = element.get("name", "")
                    columns = [(column.findtext("mnemonic") or "").strip() for column in element.iter("col")]
                elif element.tag == "row":
                    cells = [_resolve(source, child, known) for child in element]
                    yield InstrumentsRow(
                        schema, {c: cell for c, cell in zip(columns, cells, strict=False) if cell is not None}
                    )
                    if parents:
                        parents[-1].remove(element)
        except ElementTree.ParseError as error:
            found = _PLACE.search(str(error))
            line = int(found[1]) if found else None
            if not schema:
                raise source.error(f"is not XML of xctrace: {error}", line=line) from None
            source.ended_early(f"the XML is damaged or ends at line {line}")


def _resolve(
    source: Source, element: ElementTree.Element, known: dict[str, InstrumentsCell]
) -> InstrumentsCell | None:
    """The cell of an element; None for a sentinel, which means no value."""
    reference = element.get("ref")
    if reference is not None:
        if reference not in known:
            raise source.error(f"refers to id {reference!r}, which no earlier cell defines")
        return known[reference]
    if element.tag == "sentinel":
        return None
    inside = tuple(cell for child in element if (cell := _resolve(source, child, known)) is not None)
    text = element.text or ""
    attributes = {key: value for key, value in element.attrib.items() if key not in ("id", "fmt")}
    cell = InstrumentsCell(element.tag, text, element.get("fmt", text.strip()), attributes, inside)
    identity = element.get("id")
    if identity is not None:
        known[identity] = cell
    return cell

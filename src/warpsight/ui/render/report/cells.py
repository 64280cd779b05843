"""Tables of results as cells of a page: text for people, a number to sort by, a share to draw as a bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.analysis.base.words import moment
from warpsight.ui.render import numbers
from warpsight.ui.render.report.timeline import place

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns whose numbers are names.
_IDENTITIES = ("device", "stream", "process", "thread", "pid", "context", "number")


@dataclass(frozen=True)
class _ReportCell:
    """`sort` is the sort key, `bar` (0 to 1) is drawn behind the text, `title` is the tooltip.

    `place` is an address within the page that the text leads to.
    """

    text: str
    sort: float | str
    bar: float | None = None
    title: str = ""
    place: str = ""


#: Characters of a kernel's name: three lines of a narrow table.
_NAME = 72


@dataclass(frozen=True)
class Head:
    """One column: `number` aligns it to the right."""

    name: str
    number: bool
    wide: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table of a page; `left_out` counts rows that are not in it."""

    id: str
    caption: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[_ReportCell]]
    left_out: int = 0


def table(
    identity: str, caption: str, source: pa.Table, columns: Mapping[str, str], *, top: int, text: Callable[[str], str],
    bar: str | None = None, origin: int = 0, wide: Sequence[str] = (),
) -> ReportTable:  # fmt: skip
    """The first `top` rows of some columns.

    Args:
        identity: The element's id.
        caption: What the table shows, for screen readers.
        source: The rows; units from the metadata of its fields.
        columns: Column → heading, in order; columns missing from the source are left out.
        top: Largest number of rows.
        text: Redaction of texts.
        bar: The column drawn as a bar, relative to its largest value.
        origin: Time that columns named start or begin are relative to, ns.
        wide: Columns of long texts.
    """
    chosen = source.slice(0, top)
    heads, cells = [], []
    for name, heading in columns.items():
        if name not in source.column_names:
            continue
        unit = (source.schema.field(name).metadata or {}).get(b"unit", b"").decode()
        values = chosen.column(name).to_pylist()
        number = name not in _IDENTITIES and any(
            isinstance(v, (int, float)) and not isinstance(v, bool) for v in values
        )
        if name in ("start", "begin"):
            heads.append(Head(heading, True))
            cells.append(_moments(chosen, values, origin))
            continue
        most = max((abs(v) for v in values if isinstance(v, (int, float))), default=0) if name == bar else 0
        heads.append(Head(heading, number, name in wide))
        whole = [text(v) for v in values if isinstance(v, str)] if name == "name" else []
        short = dict(zip(whole, numbers.shorten_apart(whole, _NAME), strict=True))
        cells.append([_cell(name, v, unit, most, text, short) for v in values])
    return ReportTable(identity, caption, heads, list(zip(*cells, strict=True)), len(source) - len(chosen))


def _moments(chosen: pa.Table, values: Sequence[int | None], origin: int) -> list[_ReportCell]:
    """Moments formatted as options accept them, linked to the timeline if the rows have a duration."""
    lasts = (
        chosen.column("duration").to_pylist() if "duration" in chosen.column_names else [None] * len(values)
    )
    out = []
    for begin, last in zip(values, lasts, strict=True):
        at = 0 if begin is None else begin - origin
        where = place(at, at + last) if last else ""
        out.append(_ReportCell("", -1) if begin is None else _ReportCell(moment(at), float(at), place=where))
    return out


def _cell(
    name: str, value: Any, unit: str, most: float, text: Callable[[str], str], short: Mapping[str, str]
) -> _ReportCell:
    if isinstance(value, str):
        whole = text(value)
        shown = short.get(whole, whole)
        return _ReportCell(shown, whole.lower(), title=whole if shown != whole else "")
    if value is None:
        return _ReportCell("", -1)
    if isinstance(value, bool):
        return _ReportCell("yes" if value else "", float(value))
    shown = str(value) if name in _IDENTITIES else numbers.cell(value, unit)
    return _ReportCell(shown, float(value), abs(value) / most if most else None)

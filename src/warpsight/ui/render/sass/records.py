"""Records of instruction traces and their counts as a table, JSON, CSV or NDJSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import IO, Any

from warpsight.ui.render import numbers, terminal
from warpsight.ui.render.tables import csv_cell

#: A cell is cut after this many characters on a terminal: whole values are in pipes and in the other forms.
_CELL = 80


def write_counts(
    field: str, totals: Sequence[tuple[Any, int]], form: str, header: bool, stream: IO[str]
) -> None:
    """How many records each group has."""
    if form == "json":
        stream.write(json.dumps({str(key): count for key, count in totals}, indent=1) + "\n")
    elif form == "ndjson":
        stream.writelines(
            json.dumps({field: key, "count": count}, separators=(",", ":")) + "\n" for key, count in totals
        )
    elif form == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        if header:
            writer.writerow([csv_cell(field), "count"])
        writer.writerows([csv_cell(_plain(key)), count] for key, count in totals)
    else:
        rows = [[_cell(key, stream), numbers.count(count, stream)] for key, count in totals]
        _table([field, "count"], rows, header, stream, right={1})


def write_records(
    groups: Mapping[Any, Sequence[dict[str, Any]]],
    fields: Sequence[str] | None,
    group_by: str | None,
    form: str,
    header: bool,
    stream: IO[str],
) -> None:
    """Records, in groups ordered by their key when `group_by` is given; all fields when `fields` is None."""
    ordered = sorted(groups.items(), key=lambda item: str(item[0])) if group_by else list(groups.items())
    if form == "json":
        chosen = {str(key): [_project(r, fields) for r in records] for key, records in ordered}
        content: Any = chosen if group_by else next(iter(chosen.values()), [])
        stream.write(json.dumps(content, indent=1) + "\n")
        return
    for number, (key, records) in enumerate(ordered):
        if form == "ndjson":
            for record in records:
                group = {"_group": key} if group_by else {}
                stream.write(json.dumps({**group, **_project(record, fields)}, separators=(",", ":")) + "\n")
            continue
        if group_by:
            stream.write(f"{chr(10) if number else ''}=== Group: {key} ({len(records)} records) ===\n")
        _section(records, fields, form, header, stream)


def _section(
    records: Sequence[dict[str, Any]], fields: Sequence[str] | None, form: str, header: bool, stream: IO[str]
) -> None:
    names = list(fields or dict.fromkeys(name for record in records for name in record))
    if form == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        if header:
            writer.writerow(map(csv_cell, names))
        writer.writerows([csv_cell(_plain(record.get(name))) for name in names] for record in records)
    elif not records:
        stream.write("no records\n")
    else:
        _table(
            names, [[_cell(record.get(name), stream) for name in names] for record in records], header, stream
        )


def _project(record: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    return record if fields is None else {name: record.get(name) for name in fields}


def _plain(value: object) -> object:
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, dict, bool)) else value


def _cell(value: object, stream: IO[str]) -> str:
    text = terminal.printable(str(_plain(value)))
    return text if len(text) <= _CELL or not stream.isatty() else text[: _CELL - 1] + "…"


def _table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    header: bool,
    stream: IO[str],
    right: set[int] | frozenset[int] = frozenset(),
) -> None:
    """Columns as wide as their widest cell."""
    shown = [[name.upper() for name in names], *rows] if header else list(rows)
    widths = [max((len(row[place]) for row in shown), default=0) for place in range(len(names))]
    for row in shown:
        cells = [
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        stream.write("  ".join(cells).rstrip() + "\n")

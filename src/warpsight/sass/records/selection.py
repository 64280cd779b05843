"""`sass query`: records of an instruction trace that match conditions: first, last or all, optionally per group."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsight.errors import UsageError
from warpsight.formats.errors import decodes
from warpsight.sass.records import filters
from warpsight.sass.records.origin import is_trace


@dataclass(frozen=True)
class RecordSelection:
    """Which records, and how many per group: the first `head`, the last `tail`, or all if both are None."""

    conditions: filters.Filter = field(default_factory=lambda: filters.Filter(()))
    head: int | None = 10
    tail: int | None = None
    group_by: str | None = None
    #: Describing records (kernel, host stacks, completion) are records like others.
    describing: bool = False


@dataclass
class SelectedRecords:
    """Selected records by group key (a single group None without grouping), and the total of each group."""

    groups: dict[Any, list[dict[str, Any]]]
    sizes: dict[Any, int]
    notes: list[str]


@decodes
def select(path: Path | str, selection: RecordSelection) -> SelectedRecords:
    """Whole records, in the order they were recorded.

    Raises:
        FormatError: for a damaged line inside a file.
        UsageError: for a head or tail below 0, or a field that an imported trace does not hold.
    """
    if min(selection.head or 0, selection.tail or 0) < 0:
        raise UsageError("the number of records cannot be negative")
    if is_trace(path):
        return _select_of_tables(path, selection)
    first = _first(path, selection)
    if first is not None:
        return first
    from warpsight.sass.records.matching import matching

    matched = matching(path, selection)
    if matched is not None:
        return SelectedRecords({None: matched[0]}, {}, matched[1])
    from warpsight.sass.records import query

    return query.select(path, selection)


def _first(path: Path | str, selection: RecordSelection) -> SelectedRecords | None:
    """The first records of a file, without columns; None for other selections, and if the file ends or is damaged earlier."""
    wanted = selection.head
    if wanted is None or selection.tail is not None or selection.group_by or selection.conditions.groups:
        return None
    import msgspec

    from warpsight.formats.writing import clp
    from warpsight_plugins.cutracer import records
    from warpsight_plugins.cutracer.header import CutracerHeader

    header, found = CutracerHeader(), list[dict[str, Any]]()
    with clp.source_of(path) as source, source.open() as file:
        while len(found) < wanted:
            line = file.readline()
            if not line.endswith(b"\n"):
                return None
            if not line.strip():
                continue
            try:
                record = msgspec.json.decode(line)
                describes = record.get("type") in records.DESCRIBING
                if describes:
                    header.take(record)
            except (msgspec.DecodeError, ValueError, TypeError, AttributeError, RecursionError):
                return None
            if "opcode_id" in record and "sass" not in record and not header.sass:
                return None  # its instruction is described later, or not at all
            if selection.describing or not describes:
                found.append(header.complete(record))
    return SelectedRecords({None: found}, {}, [])


def _select_of_tables(path: Path | str, selection: RecordSelection) -> SelectedRecords:
    """The same for an imported trace; its records have the fields that its tables hold."""
    from warpsight.sass.records.imported import ImportedRecords

    with ImportedRecords(path) as opened:
        head = None if selection.tail is not None else selection.head
        if selection.group_by is None:
            return SelectedRecords({None: opened.ends(selection.conditions, head, selection.tail)}, {}, [])
        groups, sizes = opened.groups(selection.conditions, selection.group_by, head, selection.tail)
        return SelectedRecords(groups, sizes, [])

"""What two traces hold, with the texts behind ids: equal for a trace and its copy, whose ids may differ."""

from __future__ import annotations

from collections import Counter
from typing import Any

from warpsight.model import StoredTrace
from warpsight.model.schema import TABLES

_INTERNED = ("name", "shape", "frame", "stack")


def rows(trace: StoredTrace) -> dict[str, Counter[Any]]:
    """The rows of every table that has some; ids of names, shapes and stacks are what they stand for."""
    return {table: _rows(trace, table) for table in TABLES if table not in _INTERNED and trace.count(table)}


def _rows(trace: StoredTrace, table: str) -> Counter[Any]:
    columns = [column.name for column in TABLES[table].columns]
    shown = [name for name in trace.table(table).columns if name not in ("name_id", "shape_id")]
    listed = ", ".join(f'"{name}"' for name in shown)
    found = trace.sql(f"SELECT {listed} FROM {table}").fetchall()
    if "stack" not in columns:
        return Counter(map(repr, found))
    place = shown.index("stack")
    stacks = _stacks(trace)
    return Counter(repr((*row[:place], stacks.get(row[place]), *row[place + 1 :])) for row in found)


def _stacks(trace: StoredTrace) -> dict[int | None, tuple[Any, ...]]:
    """All columns of a stack's frames, and how it was taken."""
    frames = {row[0]: row[1:] for row in trace.sql("SELECT * FROM frame").fetchall()}
    out: dict[int | None, tuple[Any, ...]] = {}
    for number, parent, frame, depth, method, cut in trace.sql("SELECT * FROM stack ORDER BY id").fetchall():
        out[number] = (*out.get(parent, ()), (frames[frame], depth, method, cut))
    return out

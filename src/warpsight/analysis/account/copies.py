"""Names of copies and fills, and which copies are migrations of managed memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import work as device_work
from warpsight.model.work import COPY, Work, numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ENDS = ("source_kind", "destination_kind")


def copy_names(trace: StoredTrace, work: Work, mine: Column) -> tuple[list[str], Column]:
    """Names of copies (`memcpy HtoD, pageable`) and fills, and each such row's index into them."""
    texts = ["memset"]
    code = np.zeros(len(mine), np.int64)
    moved = np.flatnonzero(work.kind[mine] == COPY)
    if len(moved):
        columns, coded = _copies(trace, work, mine[moved])
        pageable = np.logical_or(*_of_memory(columns, coded, "pageable"))
        managed = np.logical_and(*_of_memory(columns, coded, "managed"))
        group, (kinds, memory) = numbered([columns["kind"], np.where(pageable, 1, np.where(managed, 2, 0))])
        code[moved] = group + 1
        texts += [
            f"memcpy {coded['kind'][one] if one >= 0 else 'unknown'}" + ("", ", pageable", ", managed")[held]
            for one, held in zip(kinds.tolist(), memory.tolist(), strict=True)
        ]
    return texts, code


def migrations(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """Which rows of work are copies between managed memory: without a call, these are pages that the driver moved."""
    out = np.zeros(len(rows), bool)
    moved = np.flatnonzero(work.kind[rows] == COPY)
    if len(moved):
        out[moved] = np.logical_and(*_of_memory(*_copies(trace, work, rows[moved]), "managed"))
    return out


def sizes(trace: StoredTrace, work: Work, rows: Column) -> Column:
    """The sizes of rows of work that are copies, in bytes."""
    found: Column = _copies(trace, work, rows)[0]["bytes"]
    return found


def _copies(trace: StoredTrace, work: Work, rows: Column) -> tuple[dict[str, Column], dict[str, list[str]]]:
    """Size, direction and memory kinds of the rows of work that are copies, and the meaning of the codes."""
    copies, source = device_work.everything(trace).copies
    place = rows if work.source is None else work.source[rows]
    row = source[np.searchsorted(copies, place)]
    columns, coded = trace.columns("memcpy", {"bytes": 0}, ["kind", *_ENDS])
    return {name: column[row] for name, column in columns.items()}, coded


def _of_memory(columns: dict[str, Column], coded: dict[str, list[str]], kind: str) -> tuple[Column, Column]:
    """Whether each copy reads from a kind of memory, and whether it writes to it."""
    read, written = (
        columns[end] == coded[end].index(kind) if kind in coded[end] else np.zeros(len(columns[end]), bool)
        for end in _ENDS
    )
    return read, written

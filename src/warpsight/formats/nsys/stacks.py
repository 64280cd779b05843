"""Call chains of a report as stacks of the trace.

Chains are rows (id, stackDepth, symbol, module), innermost frame at depth 0. They become a tree level by level from the
outermost frame: one look-up for each distinct (parent, frame), however many chains share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.nsys.report import INT
from warpsight.formats.reading.databases import distinct_rows

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report
    from warpsight.formats.reading.databases import ForeignRows

Array = npt.NDArray[Any]
_COLUMNS = ("id", "symbol", "module", "unresolved", "originalIP", "stackDepth")
METHOD = "imported"


class ChainStacks:
    """Stack ids by chain id."""

    def __init__(self, report: Report, table: str) -> None:
        """Read one table of call chains: SAMPLING_, CUDA_, OSRT_ or another *_CALLCHAINS."""
        self._ids = np.empty(0, np.int64)
        self._stacks = np.empty(0, np.int64)
        rows = report.rows(table, dict.fromkeys(_COLUMNS, INT))
        if not len(rows):
            return
        chain, depth = rows.numbers("id"), rows.numbers("stackDepth")
        order = np.lexsort((-depth, chain))  # chains together, outermost frame first
        chain = chain[order]
        frames = _frames(report, rows)[order]
        first = np.flatnonzero(np.r_[True, chain[1:] != chain[:-1]])
        length = np.diff(np.r_[first, len(chain)])
        self._ids = chain[first]
        self._stacks = _tree(report, frames, first, length)

    def stacks(self, ids: Array) -> pa.Array:
        """Stack ids of a column of chain ids, or null."""
        if not len(self._ids):
            return pa.nulls(len(ids), pa.int32())
        places = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return pa.array(self._stacks[places], pa.int32(), mask=self._ids[places] != ids)


def _frames(report: Report, rows: ForeignRows) -> Array:
    """Frame ids: a symbol in a module, or an address if there is no symbol."""
    symbol, module = rows.numbers("symbol", -1), rows.numbers("module", -1)
    address = np.where(rows.numbers("unresolved") != 0, rows.numbers("originalIP"), 0)
    known, places = distinct_rows([symbol, module, address])
    symbols, modules = report.texts(known[:, 0]), report.texts(known[:, 1])
    ids = [
        report.target.definitions.frame(
            (
                name or f"0x{at & 0xFFFFFFFFFFFFFFFF:x}",
                where,
                None,
                (at & 0xFFFFFFFFFFFFFFFF) if at else None,
                "native",
                None,
            )
        )
        for name, where, at in zip(symbols, modules, known[:, 2].tolist(), strict=True)
    ]
    return np.asarray(np.array(ids, np.int64)[np.asarray(places)])


def _tree(report: Report, frames: Array, first: Array, length: Array) -> Array:
    """Stack ids of chains that begin at `first` in `frames`."""
    stacks = np.zeros(len(first), np.int64)
    add = report.target.definitions.stack
    for level in range(int(length.max())):
        active = np.flatnonzero(length > level)
        known, places = distinct_rows([stacks[active], frames[first[active] + level]])
        ids = [add(parent, frame, METHOD) for parent, frame in known.tolist()]
        stacks[active] = np.array(ids, np.int64)[np.asarray(places)]
    return stacks

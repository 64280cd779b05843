"""What can be said only at the end of a Kineto file: stacks of operators, calls and device work, links between operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.kineto.held import Held
from warpsight.formats.kineto.placing import Placing
from warpsight.formats.kineto.stacks import PythonStacks

Int64 = NDArray[np.int64]


def finish(
    held: Held, stacks: PythonStacks, placing: Placing, flows: list[tuple[Any, int, int, bool]]
) -> None:
    """Write all rows that were held."""
    operators = _operators(held, stacks, placing)
    calls = [_calls(table, held, stacks, placing, operators) for table in ("launch", "api")]
    by_correlation = _Lookup(calls)
    for table in ("kernel", "memcpy", "memset", "sync", "event"):
        for rows in held.tables(table):
            if table in ("kernel", "memcpy", "memset"):
                found = by_correlation.of(_ints(rows["correlation"]))
                rows = rows.append_column("stack", _nullable(found))
            placing.target.add(table, _with_process(rows, placing.main))
    _links(held, placing, flows)


class _Lookup:
    """Values by a key that occurs in several pieces; 0 for an unknown key."""

    def __init__(self, pieces: list[tuple[Int64, Int64]]) -> None:
        keys = np.concatenate([k for k, _ in pieces] or [np.zeros(0, np.int64)])
        values = np.concatenate([v for _, v in pieces] or [np.zeros(0, np.int64)])
        there = values != 0
        keys, values = keys[there], values[there]
        order = np.argsort(keys, kind="stable")
        self._keys, self._values = keys[order], values[order]

    def of(self, keys: Int64) -> Int64:
        """The values of some keys."""
        if not len(self._keys):
            return np.zeros(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._values[place], 0)


def _operators(held: Held, stacks: PythonStacks, placing: Placing) -> _Lookup:
    """Write operators; returns their stacks by external id, for calls that have none of their own."""
    known = []
    for rows in held.tables("op"):
        found = stacks.at(_ints(rows["_thread"]), _ints(rows["start"])).astype(np.int64)
        found, told = _told(rows, found, stacks)
        if told:
            known.append((_ints(rows["correlation"]), found))
        rows = rows.append_column("stack", _nullable(found)).drop_columns(["_thread", "_call_stack"])
        placing.target.add("op", rows)
    return _Lookup(known)


def _told(rows: Any, found: Int64, stacks: PythonStacks) -> tuple[Int64, bool]:
    """Stacks that rows tell as text, where no Python function was running."""
    texts = rows["_call_stack"]
    if texts.null_count == len(texts):
        return found, False
    own = np.array([stacks.of_text(t) if t else 0 for t in texts.to_pylist()], np.int64)
    return np.where(found == 0, own, found), True


def _calls(
    table: str, held: Held, stacks: PythonStacks, placing: Placing, operators: _Lookup
) -> tuple[Int64, Int64]:
    """Write calls; returns their correlations and stacks."""
    pieces = []
    for rows in held.tables(table):
        found = stacks.at(_ints(rows["_thread"]), _ints(rows["start"])).astype(np.int64)
        found, _ = _told(rows, found, stacks)
        found = np.where(found == 0, operators.of(_ints(rows["_external"])), found)
        pieces.append((_ints(rows["correlation"]), found))
        rows = rows.append_column("stack", _nullable(found)).drop_columns(
            ["_thread", "_external", "_call_stack"]
        )
        placing.target.add(table, rows)
    keys = np.concatenate([k for k, _ in pieces] or [np.zeros(0, np.int64)])
    return keys, np.concatenate([v for _, v in pieces] or [np.zeros(0, np.int64)])


def _links(held: Held, placing: Placing, flows: list[tuple[Any, int, int, bool]]) -> None:
    """Forward-backward links, as pairs of operators' ids."""
    if not flows:
        return
    moments = np.unique(np.array([moment for _, _, moment, _ in flows], np.int64))
    operators: dict[tuple[int, int], int] = {}
    for rows in held.tables("op"):
        start = _ints(rows["start"])
        chosen = np.flatnonzero(np.isin(start, moments))
        threads, ids = _ints(rows["_thread"])[chosen], _ints(rows["correlation"])[chosen]
        for thread, moment, number in zip(
            threads.tolist(), start[chosen].tolist(), ids.tolist(), strict=True
        ):
            operators.setdefault((thread, moment), number)
    begins = {identity: (thread, moment) for identity, thread, moment, first in flows if first}
    rows_out = []
    for identity, thread, moment, first in flows:
        if first:
            continue
        a, b = operators.get(begins.get(identity, (-1, -1)), -1), operators.get((thread, moment), -1)
        if a >= 0 and b >= 0:
            rows_out.append({
                "from_correlation": a, "to_correlation": b, "kind": "forward-backward", "process": placing.main
            })  # fmt: skip
    placing.target.add("flow", rows_out)
    missing = sum(not first for *_, first in flows) - len(rows_out)
    if missing:
        placing.target.lost(
            missing, "links between forward and backward whose operators are not in the file", "flow"
        )


def _ints(column: Any) -> Int64:
    """A column as numbers; null is -1."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    filled: Int64 = values.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return filled


def _nullable(values: Int64) -> Any:
    return pa.array(values.astype(np.int32), mask=values == 0)


def _with_process(rows: Any, process: int) -> Any:
    return rows.append_column("process", pa.array(np.full(len(rows), process, np.int32)))

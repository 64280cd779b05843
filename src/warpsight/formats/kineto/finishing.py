"""Data known only at the end of a Kineto file: stacks of operators, calls and device work, and links between operators."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.kineto.backward import BackwardStacks, accumulates
from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.columns import table as as_table
from warpsight.formats.kineto.held import HeldTables
from warpsight.formats.kineto.ordered import Ordered
from warpsight.formats.kineto.placing import Placing
from warpsight.formats.kineto.stacks import PythonCallStacks
from warpsight.model import arrow

Int64 = NDArray[np.int64]


def finish(held: HeldTables, stacks: PythonCallStacks, placing: Placing) -> None:
    """Write all rows that were held back."""
    with (
        closing(Ordered()) as by_external,
        closing(Ordered()) as by_correlation,
        closing(BackwardStacks(placing.target.definitions)) as backward,
    ):
        _forwards(held, stacks, placing, backward)
        _operators(held, stacks, placing, by_external, backward)
        for table in ("launch", "api"):
            _calls(table, held, stacks, placing, by_external, by_correlation, backward)
        _device_work(held, placing, by_correlation)
    with closing(Ordered()) as operators, closing(Ordered()) as begins:
        _links(held, placing, operators, begins)


def _device_work(held: HeldTables, placing: Placing, by_correlation: Ordered) -> None:
    correlations, processes = _launching(held)
    for table in ("kernel", "memcpy", "memset", "sync", "event"):
        for rows in held.tables(table):
            if table in ("kernel", "memcpy", "memset"):
                found = _found(by_correlation, _ints(rows["correlation"]))
                rows = rows.append_column("stack", _nullable(found))
            process = np.full(len(rows), placing.main, np.int32)
            if len(correlations):
                own = _ints(rows["correlation"])
                place = np.minimum(np.searchsorted(correlations, own), len(correlations) - 1)
                known = correlations[place] == own
                process[known] = processes[place[known]]
            placing.target.add(table, rows.append_column("process", pa.array(process)))


def _launching(held: HeldTables) -> tuple[Int64, Int64]:
    """Correlations that occur in calls of one process only, ascending, and that process; empty in a file with one process.

    Device work does not name its process. A file that was put together from those of several ranks has several.
    """
    called = [
        np.stack([_ints(rows["correlation"]), _ints(rows["process"])])
        for table in ("launch", "api")
        for rows in held.tables(table)
    ]
    pairs = np.unique(np.concatenate(called, axis=1), axis=1) if called else np.zeros((2, 0), np.int64)
    pairs = pairs[:, pairs[0] >= 0]
    if len(np.unique(pairs[1])) < 2:
        return pairs[0, :0], pairs[1, :0]
    _, place, count = np.unique(pairs[0], return_index=True, return_counts=True)
    alone = place[count == 1]
    return pairs[0, alone], pairs[1, alone]


def _forwards(held: HeldTables, stacks: PythonCallStacks, placing: Placing, backward: BackwardStacks) -> None:
    """Join backward with forward operators, if both are in the file and the forward ones have stacks."""
    adding = placing.names_for(accumulates)
    for rows in held.tables("op"):
        if rows["_forward_thread"].null_count == len(rows):
            continue  # of a version without threads, or without autograd
        found, _ = _with_stacks_of_rows(rows, stacks.at(_ints(rows["_thread"]), _ints(rows["start"])), stacks)
        backward.add(rows, found, adding)
    backward.finish()


def _operators(
    held: HeldTables,
    stacks: PythonCallStacks,
    placing: Placing,
    by_external: Ordered,
    backward: BackwardStacks,
) -> None:
    """Write operators, keeping their stacks by external id for calls that lack their own."""
    for rows in held.tables("op"):
        threads, start = _ints(rows["_thread"]), _ints(rows["start"])
        found, has_stacks = _with_stacks_of_rows(rows, stacks.at(threads, start), stacks)
        if has_stacks:
            _keep(by_external, _ints(rows["correlation"]), found)
        found = np.where(found == 0, backward.at(threads, start), found)
        rows = rows.append_column("stack", _nullable(found))
        rows = rows.drop_columns(["_thread", "_call_stack", "_forward_thread"])
        placing.target.add("op", rows)


def _with_stacks_of_rows(rows: pa.Table, found: Int64, stacks: PythonCallStacks) -> tuple[Int64, bool]:
    """Stacks that rows carry as strings, where no Python function was running."""
    texts = rows["_call_stack"]
    if texts.null_count == len(texts):
        return found, False
    own = np.array([stacks.of_text(t) if t else 0 for t in texts.to_pylist()], np.int64)
    return np.where(found == 0, own, found), True


def _calls(
    table: str,
    held: HeldTables,
    stacks: PythonCallStacks,
    placing: Placing,
    by_external: Ordered,
    by_correlation: Ordered,
    backward: BackwardStacks,
) -> None:
    """Write calls; keeps their stacks by correlation."""
    for rows in held.tables(table):
        threads, start = _ints(rows["_thread"]), _ints(rows["start"])
        found, _ = _with_stacks_of_rows(rows, stacks.at(threads, start), stacks)
        if by_external:
            found = np.where(found == 0, _found(by_external, _ints(rows["_external"])), found)
        found = np.where(found == 0, backward.at(threads, start), found)
        _keep(by_correlation, _ints(rows["correlation"]), found)
        rows = rows.append_column("stack", _nullable(found)).drop_columns(
            ["_thread", "_external", "_call_stack"]
        )
        placing.target.add(table, rows)


def _keep(known: Ordered, keys: Int64, stacks: Int64) -> None:
    """Remember the stacks of some keys; the first one if a key has several."""
    there = stacks != 0
    known.add(np.zeros(int(there.sum()), np.int64), keys[there], stacks[there])


def _found(known: Ordered, keys: Int64) -> Int64:
    return known.find(np.zeros(len(keys), np.int64), keys)


def _links(held: HeldTables, placing: Placing, operators: Ordered, begins: Ordered) -> None:
    """Forward-backward links as pairs of operator ids (one higher than the ids here, because 0 means none)."""
    if next(held.tables("flow"), None) is None:
        return
    for rows in held.tables("op"):
        operators.add(_ints(rows["_thread"]), _ints(rows["start"]), _ints(rows["correlation"]) + 1)
    for rows in held.tables("flow"):
        first = arrow.keep(rows, rows["begins"])
        found = operators.find(_ints(first["_thread"]), _ints(first["start"]))
        begins.add(np.zeros(len(found), np.int64), _ints(first["id"]), found, -1)
    missing = 0
    for rows in held.tables("flow"):
        second = arrow.keep(rows, arrow.invert(rows["begins"]))
        origin = _found(begins, _ints(second["id"]))
        found = operators.find(_ints(second["_thread"]), _ints(second["start"]))
        linked = (origin > 0) & (found > 0)
        count = int(linked.sum())
        missing += len(second) - count
        placing.target.add("flow", as_table({
            "from_correlation": origin[linked] - 1, "to_correlation": found[linked] - 1,
            "kind": constant("forward-backward", count), "process": np.full(count, placing.main, np.int32),
        }))  # fmt: skip
    if missing:
        placing.target.lost(
            missing, "links between forward and backward whose operators are not in the file", "flow"
        )


def _ints(column: pa.ChunkedArray) -> Int64:
    """A column as numbers; null is -1."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    filled: Int64 = arrow.fill_null(values, -1).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return filled


def _nullable(values: Int64) -> pa.Array:
    return pa.array(values.astype(np.int32), mask=values == 0)

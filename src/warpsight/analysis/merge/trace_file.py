"""A merge as a trace: the GPU side unchanged, with the host stacks on the matched calls and their work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.analysis.merge import inputs
from warpsight.analysis.merge.matching import MATCHED
from warpsight.analysis.merge.merge import DROPPED, Merged
from warpsight.model.schema import TABLES
from warpsight.model.storage import manifest
from warpsight.model.storage.writer import INTERNED, TraceWriter

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]

_CALLS = ("launch", "api")
_WORK = ("kernel", "memcpy", "memset")
#: Columns that identify a call in its table.
_KEY = ("process", "thread", "start", "correlation")
#: Manifest entries that the trace writer fills in itself.
_OWN_ENTRIES = ("format", "schema", "warpsight", "rows", "processes", "devices")


def write(
    merged: Merged, trace: StoredTrace, path: str | os.PathLike[str], origin: str, force: bool = False
) -> None:
    """Write a new trace: every row of `trace`, with the matched stacks in place of its own.

    Args:
        merged: A merge into `trace`.
        trace: The GPU side.
        path: The trace folder to make.
        origin: Where the stacks come from, for the note in table `loss`.
        force: Replace an existing trace.

    Raises:
        TraceError: when `path` exists and `force` is not set, or it is not a trace.
    """
    with TraceWriter(path, force=force) as writer:
        writer.take_up(trace)
        stack_of_call = _stack_ids(merged, writer)
        for table in TABLES:
            if table not in INTERNED:
                writer.add(table, trace.arrow(table) if table not in (*_CALLS, *_WORK) else
                           _with_stacks(table, merged, trace, stack_of_call))  # fmt: skip
        writer.add("loss", _losses(merged, origin))
        writer.describe(**{k: v for k, v in trace.manifest.items() if k not in _OWN_ENTRIES})
        _copy_files(trace.folder, Path(path))


def _stack_ids(merged: Merged, writer: TraceWriter) -> Column:
    """The trace's stack of each call, 0 for none; one extra entry for work without a call."""
    matched = merged.state == MATCHED
    number = merged.samples.stack[matched]
    ids = np.zeros(len(merged.samples.stacks), np.int64)
    for used in np.unique(number).tolist():
        frames = [frame for frame in merged.samples.stacks[used] if frame[0] not in DROPPED]
        ids[used] = writer.definitions.stack_of(frames)
    of_call = np.zeros(len(merged.calls) + 1, np.int64)
    of_call[merged.call[matched]] = ids[number]
    return of_call


def _with_stacks(table: str, merged: Merged, trace: StoredTrace, stack_of_call: Column) -> pa.Table:
    rows = trace.arrow(table)
    if not len(rows):
        return rows
    if table in _CALLS:
        found = _of_calls(rows, merged, stack_of_call)
    else:
        found = stack_of_call[inputs.joined(merged.calls, *_numbers(rows, ("process", "correlation")))]
    stack = pc.if_else(pa.array(found > 0), pa.array(found, pa.int32()), rows["stack"].combine_chunks())
    return rows.set_column(rows.column_names.index("stack"), rows.schema.field("stack"), stack)


def _of_calls(rows: pa.Table, merged: Merged, stack_of_call: Column) -> Column:
    """The stack of each row of a table of calls, 0 for none."""
    calls = merged.calls
    chosen = np.flatnonzero(stack_of_call[:-1])
    ours = np.stack([getattr(calls, name)[chosen] for name in _KEY], axis=1)
    theirs = np.stack(_numbers(rows, _KEY), axis=1)
    _, place = np.unique(np.concatenate([ours, theirs]), axis=0, return_inverse=True)
    place = place.ravel()
    stack = np.zeros(int(place.max(initial=0)) + 1, np.int64)
    stack[place[: len(ours)]] = stack_of_call[chosen]
    found: Column = stack[place[len(ours) :]]
    return found


def _numbers(rows: pa.Table, names: tuple[str, ...]) -> list[Column]:
    return [pc.fill_null(rows[name].cast(pa.int64()), -1).to_numpy() for name in names]


def _losses(merged: Merged, origin: str) -> list[dict[str, Any]]:
    """The outcome for the stacks, recorded in the trace so that it shows which stacks were added later."""
    counts = merged.counts()
    base = {"source": "merge", "kind": "stack"}
    text = f"host stacks were merged from {origin}: {counts['matched']:,} of {counts['stacks']:,} found their launch"
    rows = [{**base, "cause": text, "count": 0, "severity": "note"}]
    for key, why in (
        ("ambiguous", "host stacks could belong to more than one launch and are on none"),
        ("alone", "host stacks have no launch in the GPU trace"),
    ):
        if counts[key]:
            rows.append({**base, "cause": why, "count": counts[key], "severity": "lost"})
    if merged.samples.skipped:
        why = "lines of the stack file could not be read"
        rows.append({**base, "cause": why, "count": merged.samples.skipped, "severity": "lost"})
    return rows


def _copy_files(source: Path, target: Path) -> None:
    """Copy the files next to a trace's tables: cubins, sources."""
    for item in source.iterdir():
        if item.name.startswith((".", "table=")) or item.name in (manifest.FILE, "raw"):
            continue
        if item.is_dir():
            shutil.copytree(item, target / item.name)
        else:
            shutil.copy2(item, target / item.name)

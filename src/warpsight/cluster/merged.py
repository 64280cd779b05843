"""One trace of all ranks of a job, on one clock, for all other verbs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from warpsight.cluster.clocks.rank_clocks import RankClock
from warpsight.cluster.job import Job
from warpsight.cluster.summary import RankSummary
from warpsight.errors import WarpsightError
from warpsight.formats.importing import open_any
from warpsight.model.definitions import FRAME_COLUMNS
from warpsight.model.schema import TABLES
from warpsight.model.storage.writer import INTERNED, TraceWriter

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Columns in ns that are not times on the trace's clock.
_NO_MOMENTS = ("duration", "realtime", "device_time", "uncertainty")
_DEVICES = ("device", "source_device", "destination_device")
#: Rows that refer to positions in another tool's file are meaningless once files are merged.
_LEFT_OUT = (*INTERNED, "attribute", "process", "device")


def merge(job: Job, path: str | os.PathLike[str], *, force: bool = False) -> dict[str, int]:
    """Write a trace with the rows of all ranks, their times on the reference clock, and return its row counts.

    Processes are numbered by rank. Raises:
        TraceError: when `path` exists without `force`.
        WarpsightError: when nothing that was read is a trace.
    """
    if not job.summaries:
        raise WarpsightError("there are no traces to merge, only dumps")
    with TraceWriter(path, force=force) as writer:
        joining = _Joining(job, writer)
        by_path: dict[str, list[int]] = {}
        for place, one in enumerate(job.summaries):
            by_path.setdefault(one.about.path, []).append(place)
        for source, places in by_path.items():
            with open_any(source) as trace:
                joining.take(trace, places)
        worst = job.clocks.worst
        writer.describe(
            source=[{"tool": "warpsight cluster merge", "file": Path(source).name} for source in by_path],
            clocks={"unit": "ns", "bound": worst, "ranks": {
                str(one.about.rank): job.clocks.clocks[job.clocks.of[place]].source for place, one in enumerate(job.summaries)
            }},
        )  # fmt: skip
        return dict(joining.rows)


class _Joining:
    """Copies one trace after the other into a new one."""

    def __init__(self, job: Job, writer: TraceWriter) -> None:
        self._job = job
        self._writer = writer
        self._devices: dict[tuple[str, str], int] = {}
        self.rows: dict[str, int] = {}

    def take(self, trace: StoredTrace, places: list[int]) -> None:
        """The rows of a trace that belong to some ranks (by their places) or to no process."""
        clock = self._job.clocks.clocks[self._job.clocks.of[places[0]]]
        processes = self._processes(trace, places, clock)
        maps = _interned(trace, self._writer)
        devices = self._add_devices(trace, clock)
        for name in TABLES:
            if name not in _LEFT_OUT and trace.count(name):
                rows = _changed(trace.arrow(name), name, clock, processes, maps, devices)
                if len(rows):
                    self._writer.add(name, rows)
                    self.rows[name] = self.rows.get(name, 0) + len(rows)

    def _processes(self, trace: StoredTrace, places: list[int], clock: RankClock) -> dict[int, int]:
        """New numbers of the ranks' processes by their old ones; their rows are written."""
        summaries = {self._job.summaries[place].about.process: self._job.summaries[place] for place in places}
        rows = [row for row in trace.arrow("process").to_pylist() if row["process"] in summaries]
        for row in rows:
            one: RankSummary = summaries[row["process"]]
            row["rank"], row["process"] = one.about.rank, one.about.rank
            for column in ("start", "end"):
                if row[column] is not None:
                    row[column] = int(clock.corrected(np.array([row[column]]))[0])
        self._writer.add("process", rows)
        return {process: one.about.rank for process, one in summaries.items()}

    def _add_devices(self, trace: StoredTrace, clock: RankClock) -> dict[int, int]:
        """New ids of devices by their old ones: ranks of one host share its devices."""
        out, new = {}, []
        for row in trace.arrow("device").to_pylist():
            key = clock.name, row["uuid"]
            if key not in self._devices:
                self._devices[key] = len(self._devices)
                new.append({**row, "device": self._devices[key]})
            out[row["device"]] = self._devices[key]
        self._writer.add("device", new)
        return out


def _interned(trace: StoredTrace, writer: TraceWriter) -> dict[str, Column]:
    """New ids of names, shapes and stacks by old id, starting at 1; 0 means that an id is missing."""
    own = writer.definitions
    names = {row["id"]: own.name(row["name"]) for row in trace.arrow("name").to_pylist()}
    columns = [column.name for column in TABLES["shape"].columns[1:]]
    shapes = {row["id"]: own.shape([row[c] for c in columns]) for row in trace.arrow("shape").to_pylist()}
    frames = {
        row["id"]: own.frame(tuple(row[c] for c in FRAME_COLUMNS)) for row in trace.arrow("frame").to_pylist()
    }
    stacks: dict[int, int] = {0: 0}
    for row in trace.arrow("stack").sort_by("depth").to_pylist():
        parent = stacks[row["parent"] or 0]
        stacks[row["id"]] = own.stack(parent, frames[row["frame"]], row["method"], row["cut"])
    return {"name_id": _table(names), "shape_id": _table(shapes), "stack": _table(stacks)}


def _table(ids: Mapping[int, int]) -> Column:
    out = np.zeros(max(ids, default=0) + 1, np.int64)
    for old, new in ids.items():
        out[old] = new
    return out


def _changed(
    rows: pa.Table,
    name: str,
    clock: RankClock,
    processes: Mapping[int, int],
    maps: Mapping[str, Column],
    devices: Mapping[int, int],
) -> pa.Table:
    """Rows of the wanted processes with times, ids and numbers of the new trace."""
    if "process" in rows.column_names:
        wanted = pc.is_in(rows["process"], pa.array(list(processes), rows["process"].type))
        rows = rows.filter(pc.or_(wanted, pc.is_null(rows["process"])))
    for column in TABLES[name].columns:
        values = rows[column.name]
        if column.unit == "ns" and column.name not in _NO_MOMENTS and column.type == "int64":
            values = _mapped(values, clock.corrected)
        elif column.name == "process":
            values = _mapped(values, _table(processes).__getitem__)
        elif column.name in _DEVICES:
            values = _mapped(values, _table(devices).__getitem__)
        elif column.name in maps and name not in INTERNED:
            values = _mapped(values, partial(_found, maps[column.name]))
        else:
            continue
        place = rows.column_names.index(column.name)
        rows = rows.set_column(place, rows.schema.field(place), values.cast(rows.schema.field(place).type))
    return rows


def _found(known: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """What ids are in the new trace; 0 where that is not known."""
    return np.where(ids < len(known), known[np.minimum(ids, len(known) - 1)], 0)


def _mapped(values: pa.ChunkedArray, change: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> pa.Array:
    """Numbers changed by a function of arrays; null stays null."""
    missing = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    plain = pc.fill_null(values, 0).to_numpy() if values.null_count else values.to_numpy()
    return pa.array(change(plain.astype(np.int64)), mask=missing)

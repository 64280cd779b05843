"""Reading a trace's rows as the slices and counters of a timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.intervals import lanes, nesting
from warpsight.formats.selection import DEVICE_TABLES, Selection
from warpsight.formats.timeline import CATEGORY, Column, Counter, Slices, Texts, Track

if TYPE_CHECKING:
    from warpsight.trace import Trace

#: Rows of a thread's timeline: table, expression of the name's index or text column.
_HOST = {"launch": "function", "api": "function", "op": "name_id", "marker": "name_id", "user_event": "name"}
_CATEGORY_OF = {"marker": "nvtx", "user_event": "event"}
_OPTIONAL = ("correlation", "shape", "stack", "bytes", "flow")


@dataclass
class Batch:
    """Rows of several tables with the key of the track they belong to; optional columns are None or full."""

    key: Column
    start: Column
    end: Column
    name: Column
    category: Column
    correlation: Column | None = None
    shape: Column | None = None
    stack: Column | None = None
    bytes: Column | None = None
    flow: Column | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.start)

    def take(self, rows: Column | slice) -> Batch:
        """Some of the rows."""
        optional = {c: None if getattr(self, c) is None else getattr(self, c)[rows] for c in _OPTIONAL}
        return Batch(
            self.key[rows], self.start[rows], self.end[rows], self.name[rows], self.category[rows], **optional
        )


def _concat(batches: list[Batch]) -> Batch:
    batches = [b for b in batches if len(b)] or batches[:1]
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, Any] = {
        c: np.concatenate([getattr(b, c) for b in batches])
        for c in ("key", "start", "end", "name", "category")
    }
    for column in _OPTIONAL:
        if any(getattr(b, column) is not None for b in batches):
            columns[column] = np.concatenate([
                np.full(len(b), 0) if getattr(b, column) is None else getattr(b, column) for b in batches
            ])  # fmt: skip
    return Batch(**columns)


class Reader:
    """Reads one trace for one export; `pieces` yields everything to be written, track by track."""

    def __init__(self, trace: Trace, selection: Selection, texts: Texts) -> None:
        self.trace = trace
        self.selection = selection
        self.texts = texts
        self.origin, self.horizon = self._extent()
        self._uuids = count(1)
        self._parents: dict[int, Track] = {}
        #: Flows of the process read last that end at more than one slice: kernels of one graph launch.
        self.shared_flows: Column = np.empty(0, np.uint64)
        self._processes = trace.sql("SELECT * FROM process ORDER BY process").fetchall()
        self._process_columns = trace.sql("SELECT * FROM process").columns
        self._devices = dict(trace.sql("SELECT device, name FROM device ORDER BY device").fetchall())
        #: Kernels that were launched and never reported by the device: they have no place on a timeline.
        self.unfinished = self._scalar("SELECT count(*) FROM kernel_ids WHERE start IS NULL")

    def parents(self, track: Track) -> list[Track]:
        """The tracks above a track, outermost first."""
        above = self._parents.get(track.parent or 0)
        return [] if above is None else [*self.parents(above), above]

    def pieces(self) -> Iterator[Slices | Counter]:
        """All tracks: every process's devices and threads, then counters."""
        for track, process in self.processes():
            device, host = self._device_batch(process), self._host_batch(process)
            if self.selection.flows:
                _connect(device, host, process)
                if device.flow is not None:
                    flows = np.sort(device.flow[device.flow != 0])
                    self.shared_flows = np.unique(flows[1:][flows[1:] == flows[:-1]])
            yield from self._streams(track, process, device)
            del device
            yield from self._threads(track, process, host)
        yield from self._counters()

    def processes(self) -> Iterator[tuple[Track, int]]:
        """Track and id of every selected process; a process id that occurs twice (two hosts) is replaced."""
        seen: set[int] = set()
        for values in self._processes:
            row = dict(zip(self._process_columns, values, strict=True))
            if self.selection.processes and row["process"] not in self.selection.processes:
                continue
            pid = row["pid"] if row["pid"] not in seen else 1_000_000_000 + row["process"]
            seen.add(pid)
            name = row["command"] if row["rank"] is None else f"rank {row['rank']}: {row['command']}"
            yield (
                self._parent(
                    Track(next(self._uuids), name[:200], pid=pid, command=row["command"], is_group=True)
                ),
                row["process"],
            )

    def _parent(self, track: Track) -> Track:
        self._parents[track.uuid] = track
        return track

    def _scalar(self, sql: str) -> int:
        value = self.trace.sql(sql).fetchall()[0][0]
        return 0 if value is None else int(value)

    def _extent(self) -> tuple[int, int]:
        first, last = [], []
        for table in (*DEVICE_TABLES, *_HOST):
            source = _source(table)
            sql = f"SELECT min(start), max(start + coalesce(duration, 0)) FROM {source} WHERE {self.selection.where(table)}"
            first.append(self.trace.sql(sql).fetchall()[0])
        for table in ("memory", "counter"):
            sql = f"SELECT min(time), max(time) FROM {table} WHERE {self.selection.instants()}"
            last.append(self.trace.sql(sql).fetchall()[0])
        times = [row for row in (*first, *last) if row is not None and row[0] is not None]
        return min((row[0] for row in times), default=0), max((row[1] for row in times), default=0)

    # -- devices

    def _device_batch(self, process: int) -> Batch:
        batches = [self._device_rows("kernel", process,
                   "name_id", "shape_id", "CASE WHEN graph IS NULL THEN 0 ELSE stack END", "NULL")]  # fmt: skip
        for table, name in (
            ("memcpy", "'Memcpy ' || kind"),
            ("memset", "'Memset'"),
            ("sync", "'Wait: ' || kind"),
        ):
            size = "NULL" if table == "sync" else "bytes"
            batches.append(self._device_rows(table, process, name, "NULL", "NULL", size))
        return _concat(batches)

    def _device_rows(self, table: str, process: int, name: str, shape: str, stack: str, size: str) -> Batch:
        if not self.selection.wants(table):
            return _nothing()
        source, where = _source(table), self.selection.where(table, process)
        if name != "name_id":
            name = self._indexed(source, name, where)
        # Waits have tracks of their own: they are the host's, though told per stream.
        key = "((coalesce(device, -1)::BIGINT + 2) << 56) | (context::BIGINT << 28) | (stream & 268435455)::BIGINT"
        key = f"-({key})" if table == "sync" else key
        rows = self._columns(f"""
            SELECT {key} AS key, start, start + coalesce(duration, 0) AS "end", {_or0(name)}::INTEGER AS name,
              coalesce(correlation, 0) AS correlation, {_or0(shape)} AS shape, {_or0(stack)} AS stack, {_or0(size)} AS bytes
            FROM {source} WHERE {where}""", drop=tuple(c for c, e in
            (("shape", shape), ("stack", stack), ("bytes", size)) if e == "NULL"))  # fmt: skip
        return _batch(rows, table)

    def _streams(self, process: Track, number: int, batch: Batch) -> Iterator[Slices]:
        groups: dict[int, Track] = {}
        found = list(_by_key(batch))
        several = len({abs(key) >> 28 & 268435455 for key, _ in found}) > 1
        for key, rows in found:
            device = (abs(key) >> 56) - 2
            if device not in groups:
                label = f"GPU {device}: {self._devices.get(device, 'unknown')}" if device >= 0 else "GPU"
                groups[device] = self._parent(
                    Track(next(self._uuids), label, process.uuid, device, process.pid, is_group=True)
                )
            stream, context = abs(key) & 268435455, abs(key) >> 28 & 268435455
            name = f"Stream {stream}" if stream != 268435455 else "Context"
            name = f"{name}, context {context}" if several else name
            name = f"{name}: waits" if key < 0 else name
            part = batch.take(rows)
            yield from self._laned(part, name, groups[device], stream * 2 + (key < 0))

    def _laned(
        self, part: Batch, name: str, parent: Track, rank: int, source: bool = False
    ) -> Iterator[Slices]:
        """One track per lane; tracks of one name are shown as one by the Perfetto UI."""
        lane = lanes(part.start, part.end)

        def track(_: int) -> Track:
            return Track(next(self._uuids), name, parent.uuid, rank, parent.pid)

        yield from self._split(part, lane, track, source)

    def _split(self, part: Batch, lane: Column, track: Any, source: bool) -> Iterator[Slices]:
        highest = int(lane.max(initial=-1))
        for i in range(highest + 1):
            yield _slices(part if highest == 0 else part.take(np.flatnonzero(lane == i)), track(i), source)

    # -- threads

    def _host_batch(self, process: int) -> Batch:
        return _concat([self._host_rows(table, process) for table in _HOST])

    def _host_rows(self, table: str, process: int) -> Batch:
        if not self.selection.wants(table):
            return _nothing()
        source, where = _source(table), self.selection.where(table, process)
        name = _HOST[table]
        if name != "name_id":
            name = self._indexed(source, name, where)
        called = table in ("launch", "api")
        unfinished = "-1" if called else "start"
        key = "thread::BIGINT * 2" + (" + (kind = 'start/end')::BIGINT" if table == "marker" else "")
        rows = self._columns(f"""
            SELECT {key} AS key, start, coalesce(start + duration, {unfinished}) AS "end", {_or0(name)}::INTEGER AS name,
              {"coalesce(correlation, 0)" if called else "0"} AS correlation, coalesce(stack, 0) AS stack
            FROM {source} WHERE {where}""", drop=() if called else ("correlation",))  # fmt: skip
        batch = _batch(rows, table)
        return self._close(batch) if called else batch

    def _close(self, batch: Batch) -> Batch:
        """Calls that never returned last until the end of the trace and say so."""
        never = np.flatnonzero(batch.end < 0)
        if len(never):
            batch.end, batch.name = batch.end.copy(), batch.name.copy()
            batch.end[never] = self.horizon
            for old in np.unique(batch.name[never]):
                new = self.texts.name(f"{self.texts.names[old]} (never returned)")
                batch.name[never[batch.name[never] == old]] = new
        return batch

    def _threads(self, process: Track, number: int, batch: Batch) -> Iterator[Slices]:
        names = dict(self.trace.sql(f"SELECT thread, name FROM thread WHERE process = {number}").fetchall())
        main: dict[int, Track] = {}
        for key, rows in _by_key(batch):
            thread, part = key >> 1, batch.take(rows)
            if thread not in main:
                label = names.get(thread) or f"thread {thread}"
                main[thread] = Track(next(self._uuids), label, process.uuid, 0, process.pid, thread)
            home = main[thread]
            if key & 1:  # ranges that may end on another thread, in any order
                yield from self._laned(part, f"{home.name}: ranges", process, 1, True)
                continue
            if not bool((part.start[1:] > part.start[:-1]).all()):
                part = part.take(np.lexsort((-part.end, part.start)))
            depth = nesting(part.start, part.end)
            yield from self._split(part, depth, lambda i, home=home: home, True)
            crossing = part.take(np.flatnonzero(depth < 0))
            if len(crossing):
                yield from self._laned(crossing, f"{home.name}: overlapping", process, 1, True)

    # -- counters

    def _counters(self) -> Iterator[Counter]:
        rank = 0
        if self.selection.wants("counter"):
            chosen = self.trace.sql(
                "SELECT DISTINCT device, name, unit, process FROM counter ORDER BY ALL"
            ).fetchall()
            for device, name, unit, process in chosen:
                if self.selection.devices and device not in self.selection.devices:
                    continue
                rows = self._columns(f"""
                    SELECT time, value FROM counter WHERE name = {_quote(name)} AND unit = {_quote(unit)}
                      AND device IS NOT DISTINCT FROM {_null(device)} AND process IS NOT DISTINCT FROM {_null(process)}
                      AND {self.selection.instants()} ORDER BY time""")  # fmt: skip
                where = "" if device is None else f"GPU {device}: "
                track = Track(next(self._uuids), f"{where}{name}", rank=(rank := rank + 1), unit=unit)
                yield Counter(track, rows["time"], rows["value"])
        if self.selection.wants("memory"):
            yield from self._memory(rank)

    def _memory(self, rank: int) -> Iterator[Counter]:
        """Bytes allocated over time per process, device and allocator."""
        groups = self.trace.sql(
            "SELECT DISTINCT process, device, allocator FROM memory WHERE operation IN ('allocate', 'free') ORDER BY ALL"
        ).fetchall()
        for process, device, allocator in groups:
            if self.selection.processes and process not in self.selection.processes:
                continue
            rows = self._columns(f"""
                WITH sized AS (
                  SELECT time, operation, coalesce(bytes, lag(bytes) OVER (PARTITION BY address ORDER BY time), 0) AS bytes
                  FROM memory WHERE process = {process} AND device IS NOT DISTINCT FROM {_null(device)}
                    AND allocator IS NOT DISTINCT FROM {_null(allocator)} AND operation IN ('allocate', 'free'))
                SELECT time,
                  (sum(CASE operation WHEN 'allocate' THEN bytes ELSE -bytes END) OVER (ORDER BY time))::DOUBLE AS value
                FROM sized QUALIFY {self.selection.instants()} ORDER BY time""")  # fmt: skip
            where = "host" if device is None else f"GPU {device}"
            label = f"{where}: allocated, process {process}" + (f", {allocator}" if allocator else "")
            yield Counter(
                Track(next(self._uuids), label, rank=(rank := rank + 1), unit="B"),
                rows["time"],
                rows["value"],
            )

    # -- reading

    def _indexed(self, source: str, expression: str, where: str) -> str:
        """SQL that turns a text expression with few values into its index in the texts."""
        values = self.trace.sql(f"SELECT DISTINCT {expression} FROM {source} WHERE {where}").fetchall()
        if not values:
            return "0"
        cases = " ".join(f"WHEN {_quote(v)} THEN {self.texts.name(v)}" for (v,) in values if v is not None)
        return f"CASE {expression} {cases} ELSE 0 END" if cases else "0"

    def _columns(self, sql: str, drop: tuple[str, ...] = ()) -> dict[str, Column]:
        columns = self.trace.sql(sql).fetchnumpy()
        return {name: np.ma.getdata(values) for name, values in columns.items() if name not in drop}


def _source(table: str) -> str:
    return f"{table}_ids" if table in ("kernel", "launch", "marker", "op") else table


def _or0(expression: str) -> str:
    return "0" if expression in ("NULL", "0") else f"coalesce({expression}, 0)"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _null(value: int | str | None) -> str:
    return "NULL" if value is None else _quote(value) if isinstance(value, str) else str(int(value))


def _batch(rows: dict[str, Column], table: str) -> Batch:
    category = np.full(len(rows["start"]), CATEGORY[_CATEGORY_OF.get(table, table)], np.int8)
    return Batch(category=category, **rows)


def _nothing() -> Batch:
    none = np.empty(0, np.int64)
    return Batch(none, none, none, none, np.empty(0, np.int8))


def _by_key(batch: Batch) -> Iterator[tuple[int, Column | slice]]:
    """Row numbers of every key, in order of start."""
    if not len(batch):
        return
    rows: Column | None = None
    if not bool((batch.start[1:] >= batch.start[:-1]).all()):
        rows = np.argsort(batch.start, kind="stable")
    key = batch.key if rows is None else batch.key[rows]
    if bool((key == key[0]).all()):
        yield int(key[0]), slice(None) if rows is None else rows
        return
    values = np.unique(key)
    kind = np.int16 if len(values) < 32768 else np.int64  # NumPy sorts short integers by radix
    place = np.searchsorted(values, key).astype(kind)
    order = np.argsort(place, kind="stable")
    bounds = np.cumsum(np.bincount(place))
    order = order if rows is None else rows[order]
    for value, first, last in zip(values, np.concatenate([[0], bounds[:-1]]), bounds, strict=True):
        yield int(value), order[first:last]


def _connect(device: Batch, host: Batch, process: int) -> None:
    """Give rows on both sides that share a correlation one flow number; others get none."""
    if device.correlation is None or host.correlation is None:
        return
    salt = np.uint64((process + 1) << 48)
    for rows, other in ((device, host), (host, device)):
        assert rows.correlation is not None
        assert other.correlation is not None
        joined = np.isin(rows.correlation, other.correlation) & (rows.correlation != 0)
        rows.flow = np.where(joined, rows.correlation.astype(np.uint64) ^ salt, np.uint64(0))


def _slices(part: Batch, track: Track, source: bool) -> Slices:
    optional = {c: getattr(part, c) for c in _OPTIONAL}
    return replace(Slices(track, part.start, part.end, part.name, part.category, source=source), **optional)

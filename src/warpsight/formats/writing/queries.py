"""A process's rows as batches, window by window, so that memory use is bounded by a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from warpsight.formats.selection import DEVICE_TABLES, Selection
from warpsight.formats.writing.batch import TrackBatch, concat, nothing
from warpsight.formats.writing.correlation import SharedCorrelations
from warpsight.formats.writing.timeline import ADDRESSES, CATEGORY, NVTX, Column, Texts
from warpsight.model.views import quote
from warpsight.model.work import numbered

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Rows of a thread's timeline: table, expression of the name's index or text column.
_HOST_TABLES = {
    "launch": "function",
    "api": "function",
    "op": "name_id",
    "marker": "name_id",
    "user_event": "name",
}
_DEVICE_NAMES = {"kernel": "coalesce(name_id, 0)", "memcpy": "'Memcpy ' || kind", "memset": "'Memset'",
                 "sync": "'Wait: ' || kind"}  # fmt: skip
#: Those with attributes that the program gave.
_ATTRIBUTED = ("op", "marker", "user_event")
#: What a range has beside its attributes, as the member `nvtx`; the color stands first. A plain push/pop range of NVTX
#: without any of it has none.
_NVTX_MEMBERS = """concat_ws(',',
    '"color":"#' || lpad(lower(to_hex(color)), 8, '0') || '"', '"domain":' || to_json(domain),
    '"category":' || to_json(category),
    '"payload":' || CASE WHEN isfinite(payload) THEN to_json(payload)::VARCHAR ELSE '"' || payload || '"' END,
    CASE WHEN source <> 'nvtx' THEN '"source":' || to_json(source) END,
    CASE WHEN kind <> 'push/pop' THEN '"kind":' || to_json(kind) END, CASE WHEN open THEN '"open":true' END)"""
_NVTX = f"""CASE WHEN {_NVTX_MEMBERS} = '' THEN '' ELSE '"{NVTX}":{{' || {_NVTX_MEMBERS} || '}}' END"""
_IS_MORE = (
    "color IS NOT NULL OR domain IS NOT NULL OR category IS NOT NULL OR payload IS NOT NULL OR source <> 'nvtx' "
    "OR kind <> 'push/pop' OR open"
)
_CATEGORY_OF = {"marker": "nvtx", "user_event": "event"}
#: Approximate rows per window; a kernel and its launch are two.
WINDOW_ROWS = 600_000
_BUCKETS = 4096
_CHUNK_ROWS = 1_000_000


@dataclass(frozen=True)
class TimeWindow:
    """Rows with a start from `begin` up to `end`; None means open."""

    begin: int | None = None
    end: int | None = None

    @property
    def where(self) -> str:
        """The SQL condition."""
        terms = [] if self.begin is None else [f"start >= {self.begin}"]
        terms += [] if self.end is None else [f"start < {self.end}"]
        return " AND ".join(terms) or "true"


class Queries:
    """The SQL of one export."""

    def __init__(self, trace: StoredTrace, selection: Selection, texts: Texts) -> None:
        """Find out which tables have rows, and where the timeline begins and ends."""
        self.trace = trace
        self.selection = selection
        self.texts = texts
        self._names: dict[tuple[str, str], str] = {}
        self._places: dict[int, list[tuple[int, int, int]]] = {}
        self._tables = [
            t for t in (*DEVICE_TABLES, *_HOST_TABLES) if selection.wants(t) and trace.count(t)
        ]  # fmt: skip
        self.origin, self.horizon = self._extent()
        self._graphs = any(
            self.scalar(f"SELECT count(*) FROM {source(t)} WHERE graph IS NOT NULL")
            for t in self._tables if t in ("kernel", "memcpy", "memset")
        )  # fmt: skip
        self._addresses = {
            t: [c for c in ADDRESSES[t] if self.scalar(f"SELECT count({c}) FROM {t}")]
            for t in self._tables if t in ADDRESSES
        }  # fmt: skip

    def scalar(self, sql: str) -> int:
        """The single number that a query returns; 0 for null."""
        value = self.trace.sql(sql).fetchall()[0][0]
        return 0 if value is None else int(value)

    def columns(self, sql: str) -> dict[str, Column]:
        """A query's columns."""
        return {name: np.ma.getdata(values) for name, values in self.trace.sql(sql).fetchnumpy().items()}

    def _extent(self) -> tuple[int, int]:
        found = []
        for table in self._tables:
            sql = f"""SELECT min(start), max(start + coalesce(duration, 0)) FROM {source(table)}
                      WHERE {self.selection.where(table)}"""
            found.append(self.trace.sql(sql).fetchall()[0])
        for table in ("memory", "counter", "sample"):
            if self.selection.wants(table):
                sql = f"SELECT min(time), max(time) FROM {table} WHERE {self.selection.instants()}"
                found.append(self.trace.sql(sql).fetchall()[0])
        for table in ("overhead", "build"):
            if self.selection.wants(table):
                sql = f"SELECT min(start), max(start + duration) FROM {table} WHERE {self.selection.where(table)}"
                found.append(self.trace.sql(sql).fetchall()[0])
        times = [row for row in found if row[0] is not None]
        return min((row[0] for row in times), default=0), max((row[1] for row in times), default=0)

    def windows(self, process: int) -> list[TimeWindow]:
        """Windows with about equally many rows that together hold all rows of a process."""
        width = max(1, -(-(self.horizon - self.origin + 1) // _BUCKETS))
        counts = np.zeros(_BUCKETS + 2, np.int64)
        for table in self._tables:
            rows = self.columns(f"""
                SELECT greatest(start - {self.origin}, 0) // {width} AS bucket, count(*) AS n FROM {source(table)}
                WHERE {self.selection.where(table, process)} GROUP BY 1""")
            counts[np.minimum(rows["bucket"].astype(np.int64), _BUCKETS + 1)] += rows["n"]
        number = int(counts.sum()) // WINDOW_ROWS + 1
        total = np.cumsum(counts)
        places = np.searchsorted(total, np.arange(1, number) * int(total[-1]) / number) + 1
        edges = [self.origin + int(p) * width for p in np.unique(places)]
        return [TimeWindow(a, b) for a, b in zip([None, *edges], [*edges, None], strict=True)]

    def correlations(self, process: int) -> SharedCorrelations:
        """The correlation column that joins calls and device work of a process."""
        device = [t for t in self._tables if t in DEVICE_TABLES]
        host = [t for t in self._tables if t in ("launch", "api")]
        low, high, rows = 0, -1, 0
        for table in (*device, *host):
            found = self.trace.sql(f"""
                SELECT min(correlation), max(correlation), count(*) FROM {source(table)}
                WHERE {self.selection.where(table, process)}""").fetchall()[0]
            if found[0] is not None:
                low, high = (found[0], found[1]) if not rows else (min(low, found[0]), max(high, found[1]))
                rows += found[2]
        if not rows:
            return SharedCorrelations(process, (0, -1, 0), (), ())
        sides = ((c for t in side for c in self._correlation(t, process)) for side in (device, host))
        return SharedCorrelations(process, (low, high, rows), *sides)

    def _correlation(self, table: str, process: int) -> Iterator[Column]:
        relation = self.trace.sql(f"""
            SELECT correlation FROM {source(table)}
            WHERE {self.selection.where(table, process)} AND correlation IS NOT NULL""")
        # DuckDB 1.4 renamed it.
        reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
        for batch in reader(_CHUNK_ROWS):
            yield batch.column(0).to_numpy()

    # -- rows

    def device(self, process: int, window: TimeWindow) -> TrackBatch:
        """Work on devices."""
        return concat([self._device(t, process, window) for t in DEVICE_TABLES if t in self._tables])

    def _device(self, table: str, process: int, window: TimeWindow) -> TrackBatch:
        name = _DEVICE_NAMES[table]
        name = self._indexed(table, name) if table != "kernel" else name
        columns = {"correlation": "coalesce(correlation, 0)"}
        if table == "kernel":
            columns["shape"] = "coalesce(shape_id, 0)"
        if table in ("memcpy", "memset"):
            columns["bytes"] = "coalesce(bytes, 0)"
            columns |= {c: f"coalesce({c}, 0)::UBIGINT" for c in self._addresses[table]}
        if self._graphs and table != "sync":
            columns |= {"graph": "coalesce(graph, 0)", "node": "coalesce(graph_node, 0)"}
            # The launch's stack is that of the launched work now; a node's own stack is that of its creation.
            columns["stack"] = "CASE WHEN graph IS NULL THEN 0 ELSE coalesce(stack, 0) END"
        columns |= {"device": self._device_of(process), "context": "context", "stream": "stream"}
        rows = self._rows(table, process, window, name, columns, "start + greatest(coalesce(duration, 0), 0)")
        key = self._place(process, [rows.pop(column) for column in ("device", "context", "stream")])
        # Waits are the host's, although recorded per stream, so they have tracks of their own.
        return _as_batch(table, -key if table == "sync" else key, rows)

    def _place(self, process: int, columns: list[Column]) -> Column:
        """The key of each row: the index of its device, context and stream in :meth:`places`, from 1."""
        code, found = numbered(columns)
        number = {where: i for i, where in enumerate(self.places(process), 1)}
        known = [number[where] for where in zip(*(column.tolist() for column in found), strict=True)]
        out: Column = np.array(known, np.int64)[code]
        return out

    def places(self, process: int) -> list[tuple[int, int, int]]:
        """Device (-1: unknown), context and stream of everywhere a process's work ran, in order."""
        if process not in self._places:
            where = f"{self._device_of(process)}, context, stream"
            every = " UNION ".join(
                f"SELECT {where} FROM {source(table)} WHERE process = {process}"
                for table in self._tables
                if table in DEVICE_TABLES
            )
            self._places[process] = self.trace.sql(f"{every} ORDER BY ALL").fetchall() if every else []
        return self._places[process]

    def _device_of(self, process: int) -> str:
        """A row's device: its own, otherwise its context's, otherwise the only one of the process, otherwise -1."""
        # In order: queries of one export must agree, also on a context number that two devices have.
        rows = self.trace.sql(f"""SELECT DISTINCT context, device FROM context
                                  WHERE process = {process} AND device IS NOT NULL ORDER BY ALL""").fetchall()
        devices = {device for _, device in rows} or {
            d for (d,) in self.trace.sql("SELECT device FROM device").fetchall()
        }
        default = devices.pop() if len(devices) == 1 else -1
        cases = " ".join(f"WHEN {context} THEN {device}" for context, device in rows)
        return (
            f"coalesce(device, CASE context {cases} ELSE {default} END)"
            if cases
            else f"coalesce(device, {default})"
        )

    def host(self, process: int, window: TimeWindow) -> TrackBatch:
        """Calls, operators, ranges and events of threads."""
        return concat([self._host(t, process, window) for t in _HOST_TABLES if t in self._tables])

    def _host(self, table: str, process: int, window: TimeWindow) -> TrackBatch:
        called = table in ("launch", "api")
        name = _HOST_TABLES[table]
        name = "coalesce(name_id, 0)" if name == "name_id" else self._indexed(table, name)
        columns = {"correlation": "coalesce(correlation, 0)"} if called else {}
        columns["stack"] = "coalesce(stack, 0)"
        members = self._attributes(table)
        if members is not None:
            columns["attributes"] = members
        key = "thread::BIGINT * 2" + (" + (kind = 'start/end')::BIGINT" if table == "marker" else "")
        length = "CASE WHEN duration < 0 THEN 0 ELSE duration END"
        end = f"coalesce(start + {length}, {'-1' if called else 'start'})"
        batch = self._batch(table, process, window, key, name, columns, end)
        return self._close(batch) if called else batch

    def _attributes(self, table: str) -> str | None:
        """The program's own attributes of a table's rows, or None."""
        if table not in _ATTRIBUTED:
            return None
        if table == "user_event":
            return f"concat_ws(',', '\"kind\":' || to_json(kind), nullif({json_members('attributes')}, ''))"
        members = json_members("attributes")
        if table == "marker" and self.scalar(f"SELECT count(*) FROM {source(table)} WHERE {_IS_MORE}"):
            return f"concat_ws(',', nullif({_NVTX}, ''), nullif({members}, ''))"
        return members if self.scalar(f"SELECT count(attributes) FROM {source(table)}") else None

    def _batch(
        self,
        table: str,
        process: int,
        window: TimeWindow,
        key: str,
        name: str,
        columns: dict[str, str],
        end: str,
    ) -> TrackBatch:
        rows = self._rows(table, process, window, name, {"key": key, **columns}, end)
        return _as_batch(table, rows.pop("key"), rows)

    def _rows(
        self, table: str, process: int, window: TimeWindow, name: str, columns: dict[str, str], end: str
    ) -> dict[str, Column]:
        more = "".join(f", {expression} AS {column}" for column, expression in columns.items())
        return self.columns(f"""
            SELECT start, {end} AS "end", ({name})::INTEGER AS name{more} FROM {source(table)}
            WHERE {self.selection.where(table, process)} AND {window.where}""")

    def _close(self, batch: TrackBatch) -> TrackBatch:
        """Calls that never returned are extended to the end of the trace and marked."""
        never = np.flatnonzero(batch.end < 0)
        if len(never):
            batch.end, batch.name = batch.end.copy(), batch.name.copy()
            batch.end[never] = self.horizon
            for old in np.unique(batch.name[never]):
                new = self.texts.name(f"{self.texts.names[old]} (never returned)")
                batch.name[never[batch.name[never] == old]] = new
        return batch

    def _indexed(self, table: str, expression: str) -> str:
        """SQL that turns a string expression with few values into an index into the distinct strings."""
        if (table, expression) not in self._names:
            values = self.trace.sql(
                f"SELECT DISTINCT {expression} FROM {source(table)} ORDER BY 1"
            ).fetchall()
            cases = " ".join(f"WHEN {quote(v)} THEN {self.texts.name(v)}" for (v,) in values if v is not None)
            self._names[table, expression] = f"CASE {expression} {cases} ELSE 0 END" if cases else "0"
        return self._names[table, expression]

    # -- neither calls of a thread nor device work

    def build(self, process: int) -> TrackBatch:
        """Builds of programs."""
        return self._host_slices("build", process, "'Build ' || program", {"stack": "coalesce(stack, 0)"})

    def overhead(self, process: int) -> TrackBatch:
        """Time the recorder took."""
        return self._host_slices("overhead", process, "kind", {})

    def _host_slices(self, table: str, process: int, name: str, more: dict[str, str]) -> TrackBatch:
        """All rows of a table of one process on one track."""
        if not self.selection.wants(table) or not self.trace.count(table):
            return nothing()
        end = "start + greatest(duration, 0)"
        return self._batch(table, process, TimeWindow(), "0", self._indexed(table, name), more, end)

    def samples(self, process: int) -> TrackBatch:
        """Samples as slices: each lasts while the stack of its thread stays the same.

        A gap of more than four usual periods stays a gap, because nothing is known about it.
        """
        if not self.selection.wants("sample") or not self.trace.count("sample"):
            return nothing()
        rows = self.columns(f"""
            SELECT thread::BIGINT AS key, time AS start, coalesce(stack, 0) AS stack FROM sample
            WHERE process = {process} AND {self.selection.instants()} ORDER BY thread, time""")
        key, start, stack = rows["key"], rows["start"], rows["stack"]
        if not len(start):
            return nothing()
        follows = key[1:] == key[:-1]
        gaps = np.diff(start)
        period = int(np.median(gaps[follows])) if follows.any() else 1
        end = start + period
        end[:-1][follows] = np.minimum(start[:-1] + 4 * period, start[1:])[follows]
        end[:-1][follows & (gaps > 4 * period)] = (start[:-1] + period)[follows & (gaps > 4 * period)]
        first = np.concatenate([[True], ~(follows & (end[:-1] == start[1:]) & (stack[1:] == stack[:-1]))])
        last = np.concatenate([first[1:], [True]])
        name = self._leaves(stack[first])
        category = np.full(len(name), CATEGORY["sample"], np.int8)
        return TrackBatch(start[first], end[last], name, category, stack=stack[first], key=key[first])

    def _leaves(self, stack: Column) -> Column:
        """The innermost frame's function of each stack, as an index into the strings."""
        ids, places = np.unique(stack, return_inverse=True)
        found = dict(
            self.trace.sql("SELECT s.id, f.function FROM stack s JOIN frame f ON s.frame = f.id").fetchall()
        )
        names: Column = np.array(
            [self.texts.name(found.get(int(i), "no Python frame")) for i in ids], np.int32
        )
        return names[places]

    def edges(self, process: int) -> tuple[Column, Column]:
        """Explicit dependencies: the correlation waited for, and the waiting one."""
        if not self.selection.flows or not self.trace.count("flow"):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        rows = self.columns(
            f"SELECT from_correlation AS a, to_correlation AS b FROM flow WHERE process = {process} ORDER BY a, b"
        )
        return rows["a"], rows["b"]


def _as_batch(table: str, key: Column, rows: dict[str, Column]) -> TrackBatch:
    category = np.full(len(key), CATEGORY[_CATEGORY_OF.get(table, table)], np.int8)
    return TrackBatch(key=key, category=category, **rows) if len(key) else nothing()


def source(table: str) -> str:
    """The relation with ids instead of strings."""
    return f"{table}_ids" if table in ("kernel", "launch", "marker", "op") else table


def json_members(column: str) -> str:
    """The members of a JSON object, without braces; any other text becomes a member under its own name."""
    kind = f"CASE WHEN json_valid({column}) THEN json_type({column}) END"
    return (
        f"CASE WHEN {column} IS NULL THEN '' WHEN {kind} IS NOT DISTINCT FROM 'OBJECT' "
        f"THEN trim({column}, E' \\t\\r\\n')[2:-2] ELSE '\"attributes\":' || to_json({column}) END"
    )

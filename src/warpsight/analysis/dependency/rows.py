"""The rows that a dependency graph is made of, as NumPy columns: host calls, device work, waits and event records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.selection import Rows

if TYPE_CHECKING:
    from warpsight.trace import Trace

Column = npt.NDArray[Any]
#: Kinds of device nodes.
KERNEL, COPY, SET, WAIT = 0, 1, 2, 3
NODE_KINDS = ("kernel", "copy", "set", "wait")
#: A stream known by process, context and number, as one integer.
_STREAM = "(process::BIGINT << 48) | (context::BIGINT << 24) | (stream & 16777215)"
_CONTEXT = "(process::BIGINT << 24) | context::BIGINT"


@dataclass
class Calls:
    """Host calls, in order of (thread, start). Times in ns; `end` of a call that never returned is the trace's last moment."""

    start: Column
    end: Column
    thread: Column
    process: Column
    correlation: Column
    #: Index into :attr:`functions`.
    function: Column
    functions: list[str]

    def __len__(self) -> int:
        return len(self.start)


@dataclass
class Work:
    """Device work. `name` is a name id of a kernel, or minus the place in :attr:`texts` of anything else."""

    start: Column
    end: Column
    stream: Column
    process: Column
    correlation: Column
    kind: Column
    name: Column
    graph: Column
    graph_node: Column
    #: The call that issued it returns after it: a synchronous copy, or one from or to pageable memory.
    blocking: Column
    texts: list[str]

    def __len__(self) -> int:
        return len(self.start)


@dataclass
class Waits:
    """Waits of the host or of a stream (table sync)."""

    start: Column
    kind: Column
    kinds: list[str]
    event: Column
    stream: Column
    context: Column
    process: Column
    correlation: Column


@dataclass
class Records:
    """Event records: the event (its handle or unique id), the stream it went to, and the call."""

    time: Column
    event: Column
    stream: Column
    process: Column
    correlation: Column


def columns(trace: Trace, sql: str) -> dict[str, Column]:
    """A query's columns; the queries here give no nulls."""
    return {name: np.ma.getdata(values) for name, values in trace.sql(sql).fetchnumpy().items()}


def coded(trace: Trace, table: str, column: str) -> tuple[str, list[str]]:
    """SQL that gives a text column as its place in a list, and the list: there are few distinct texts."""
    found = trace.sql(f"SELECT DISTINCT {column} FROM {table} ORDER BY 1").fetchall()
    texts = [str(value) for (value,) in found if value is not None]
    if not texts:
        return "0", ["?"]
    cases = " ".join(f"WHEN '{text.replace(chr(39), chr(39) * 2)}' THEN {i}" for i, text in enumerate(texts))
    return f"(CASE {column} {cases} ELSE 0 END)::INTEGER", texts


def calls(trace: Trace, rows: Rows) -> Calls:
    """Every recorded host call of the processes, sorted by thread and start."""
    parts = []
    functions: list[str] = []
    for table, base in (("api", "api"), ("launch", "launch_ids")):
        if not trace.count(table):
            continue
        code, texts = coded(trace, base, "function")
        where = rows.where(device=False, stream=False)
        part = columns(
            trace,
            f"""SELECT start, coalesce(start + duration, -1) AS "end", (process::BIGINT << 32) | thread AS thread,
                process, coalesce(correlation, 0) AS correlation, {code} AS function FROM {base} WHERE {where}""",
        )
        part["function"] = part["function"] + len(functions)
        functions += texts
        parts.append(part)
    names = ("start", "end", "thread", "process", "correlation", "function")
    joined = {n: np.concatenate([p[n] for p in parts]) if parts else np.zeros(0, np.int64) for n in names}
    start = joined["start"]
    joined["end"] = np.where(joined["end"] == -1, horizon(trace), joined["end"])
    order = by_group(joined["thread"], start)
    return Calls(**{n: joined[n][order] for n in names}, functions=functions)


def horizon(trace: Trace) -> int:
    """The last moment of calls and device work."""
    last = 0
    for table in ("launch_ids", "api", "kernel_ids", "memcpy", "memset"):
        value = trace.sql(f"SELECT max(start + coalesce(duration, 0)) FROM {table}").fetchall()[0][0]
        last = max(last, int(value or 0))
    return last


def by_group(group: Column, time: Column) -> Column:
    """The stable order by (group, time); quick on rows that are nearly in that order."""
    if not len(time):
        return np.zeros(0, np.int64)
    places = dense(group)
    low, high = int(time.min()), int(time.max())
    if (int(places.max()) + 1) * (high - low + 1) < 1 << 62:
        return np.argsort(places.astype(np.int64) * (high - low + 1) + (time - low), kind="stable")
    return np.lexsort((time, places))


def dense(group: Column) -> Column:
    """Groups numbered from 0."""
    if len(group) and (group == group[0]).all():
        return np.zeros(len(group), np.int64)
    return np.searchsorted(np.unique(group), group)  # few groups: quicker than unique's inverse


def work(trace: Trace, rows: Rows) -> Work:
    """Kernels, copies and fills that finished, sorted by start."""
    texts: list[str] = [""]
    parts = [_kernels(trace, rows)] if trace.count("kernel") else []
    for table, kind, label in (("memcpy", COPY, "'Memcpy ' || kind"), ("memset", SET, "'Memset'")):
        if not trace.count(table):
            continue
        blocking = "NOT asynchronous"
        if table == "memcpy":
            blocking += " OR (kind <> 'HtoD' AND (source_kind = 'pageable' OR destination_kind = 'pageable'))"
        code, names = coded(trace, f"(SELECT {label} AS label FROM {table})", "label")
        part = columns(
            trace,
            f"""SELECT start, start + duration AS "end", {_STREAM} AS stream, process, coalesce(correlation, 0) AS correlation,
                {code} AS name, coalesce(graph, 0) AS graph, coalesce(graph_node, 0) AS graph_node, ({blocking}) AS blocking
                FROM (SELECT *, {label} AS label FROM {table}) WHERE {rows.where()}""",
        )
        part["name"] = -(part["name"] + len(texts))
        part["kind"] = np.full(len(part["start"]), kind, np.int8)
        texts += names
        parts.append(part)
    names_of = [n for n in Work.__annotations__ if n != "texts"]
    joined = {n: np.concatenate([p[n] for p in parts]) if parts else np.zeros(0, np.int64) for n in names_of}
    order = np.argsort(joined["start"], kind="stable")
    if (np.diff(order) == 1).all():
        return Work(**joined, texts=texts)
    return Work(**{n: joined[n][order] for n in names_of}, texts=texts)


def _kernels(trace: Trace, rows: Rows) -> dict[str, Column]:
    graphs = trace.sql("SELECT count(graph) > 0 FROM kernel_ids").fetchall()[0][0]
    node = "coalesce(graph, 0) AS graph, coalesce(graph_node, 0) AS graph_node" if graphs else ""
    part = columns(
        trace,
        f"""SELECT start, start + duration AS "end", {_STREAM} AS stream, process, coalesce(correlation, 0) AS correlation,
            coalesce(name_id, 0) AS name{", " + node if node else ""}
            FROM kernel_ids WHERE duration IS NOT NULL AND start IS NOT NULL AND {rows.where()}""",
    )
    count = len(part["start"])
    if not graphs:
        part["graph"], part["graph_node"] = np.zeros(count, np.int32), np.zeros(count, np.int64)
    part["kind"] = np.full(count, KERNEL, np.int8)
    part["blocking"] = np.zeros(count, bool)
    return part


def waits(trace: Trace, rows: Rows) -> Waits:
    """Waits that succeeded. Event ids: the unique id of the record where the source has one, else the event."""
    code, kinds = coded(trace, "sync", "kind")
    part = columns(
        trace,
        f"""SELECT start, {code} AS kind, coalesce(event_sync, event, 0)::BIGINT AS event, {_STREAM} AS stream,
            {_CONTEXT} AS context, process, coalesce(correlation, 0) AS correlation FROM sync
            WHERE coalesce(result, 0) = 0 AND {rows.where(device=False, stream=False)} ORDER BY start""",
    )
    return Waits(**part, kinds=kinds)


def records(trace: Trace, rows: Rows) -> Records:
    """Event records in order of their calls where those are known."""
    where = rows.where(time="coalesce(time, 0)", device=False, stream=False) if rows.processes else "true"
    part = columns(
        trace,
        f"""SELECT coalesce(time, -1) AS time, coalesce(event_sync, event, 0)::BIGINT AS event, {_STREAM} AS stream,
            process, coalesce(correlation, 0) AS correlation FROM event WHERE {where}""",
    )
    return Records(**part)


class CallIndex:
    """Finds the call of a correlation: a table where ids are dense, a sorted list where they are spread."""

    def __init__(self, found: Calls) -> None:
        """Index the calls; where two share a correlation, the one that began last is found."""
        known = np.flatnonzero(found.correlation != 0)
        self._processes = np.unique(found.process)
        correlation = found.correlation[known]
        self._low = int(correlation.min()) if len(known) else 0
        self._span = int(correlation.max()) - self._low + 1 if len(known) else 0
        keys = self._keys(found.process[known], correlation)
        self._table: Column | None = None
        size = self._span * len(self._processes)
        if size <= 16 * len(known) + 65_536:
            self._table = np.full(max(size, 1), -1, np.int32)
            self._table[keys] = known
        else:
            order = np.argsort(keys, kind="stable")
            self._sorted, self._rows = keys[order], known[order]

    def _keys(self, process: Column, correlation: Column) -> Column:
        place = np.searchsorted(self._processes, process) if len(self._processes) > 1 else 0
        return place * self._span + (correlation - self._low)

    def find(self, process: Column, correlation: Column) -> Column:
        """Places of calls, -1 where there is none."""
        if not self._span:
            return np.full(len(correlation), -1, np.int64)
        inside = (correlation >= self._low) & (correlation < self._low + self._span) & (correlation != 0)
        if len(self._processes) == 1:
            inside &= process == self._processes[0]
        else:
            inside &= np.isin(process, self._processes)
        keys = np.where(inside, self._keys(np.where(inside, process, self._processes[0]), correlation), 0)
        if self._table is not None:
            return np.where(inside, self._table[keys], -1)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(inside & (self._sorted[at] == keys), self._rows[at], -1)

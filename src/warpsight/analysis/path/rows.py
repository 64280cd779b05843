"""The rows that a dependency graph is made of, as NumPy columns: host calls, device work, waits and event records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.stream_ids import StreamIds
from warpsight.model import calls as shared_calls
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace
    from warpsight.model.work import Everything

Column = npt.NDArray[Any]
#: Kinds of device nodes.
KERNEL, COPY, SET, WAIT = 0, 1, 2, 3
NODE_KINDS = ("kernel", "copy", "set", "wait")
#: Kind of a node by the kind of device work: a communication kernel is a kernel here.
_KIND_OF = np.array([KERNEL, KERNEL, COPY, SET], np.int8)


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
    """Device work. `name` is a name id of a kernel, or minus the place in :attr:`texts` of anything else.

    Streams and contexts are numbers that a :class:`StreamIds` gave; so they are in waits and records.
    """

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
    #: Rows that ended before they began; they count as empty.
    reversed: int

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
    """Every recorded host call of the processes, sorted by thread and start; kept while the trace is open, and read-only."""
    chosen = Rows(rows.begin, rows.end, processes=rows.processes)
    return trace.kept.get(("calls by thread", chosen.key()), lambda: _calls(trace, chosen))


def _calls(trace: Trace, rows: Rows) -> Calls:
    found = shared_calls.load(trace, api=True)
    # Of calls that begin at one moment the others come before the launches.
    index = np.concatenate([np.arange(found.launches, len(found)), np.arange(found.launches)])
    keep = np.ones(len(found), bool)
    if rows.begin is not None:
        keep &= found.start >= rows.begin
    if rows.end is not None:
        keep &= found.start < rows.end
    if rows.processes:
        keep &= np.isin(found.process, list(rows.processes))
    if not keep.all():
        index = index[keep[index]]
    thread = (found.process.astype(np.int64) << 32) | found.thread
    group, _ = device_work.numbered([found.process, found.thread])
    index = index[by_group(group[index], found.start[index])]
    end = found.end
    if len(found.unreturned):
        end = end.copy()
        end[found.unreturned] = horizon(trace)
    columns = (found.start, end, thread, found.process, np.maximum(found.correlation, 0), found.function)
    taken = [column[index] for column in columns]
    for column in taken:
        column.flags.writeable = False
    start, ended, threads, process, correlation, function = taken
    functions = found.functions if len(index) else []
    return Calls(start, ended, threads, process, correlation, function, functions)


def horizon(trace: Trace) -> int:
    """The last moment of calls and device work."""
    ends = (shared_calls.load(trace, api=True).end, device_work.everything(trace).work.end)
    return max((int(end.max()) for end in ends if len(end)), default=0)


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
    if not len(group) or int(group.max()) - int(group.min()) <= 4 * len(group) + 1024:
        return device_work.distinct(group)[1]
    return np.searchsorted(np.unique(group), group)  # few groups: quicker than unique's inverse


def work(trace: Trace, rows: Rows, ids: StreamIds) -> Work:
    """Kernels, copies and fills that finished and began in the time asked for, sorted by start."""
    whole = device_work.everything(trace)
    found = whole.work
    chosen = _chosen(whole, rows)

    def taken(column: Column) -> Column:
        return column if chosen is None else column[chosen]

    stream = np.array([ids.number(q.process, q.context, q.stream) for q in found.queues], np.int64)
    name, blocking, texts = _moved(trace, whole)
    graph, node = _graphs(trace, whole)
    backwards = len(whole.reversed) if chosen is None else int(np.isin(whole.reversed, chosen).sum())
    return Work(
        start=taken(found.start), end=taken(found.end), stream=stream[taken(found.queue)], process=taken(found.process),
        correlation=np.maximum(taken(found.correlation), 0), kind=_KIND_OF[taken(found.kind)], name=taken(name),
        graph=taken(graph), graph_node=taken(node), blocking=taken(blocking), texts=texts, reversed=backwards,
    )  # fmt: skip


def _chosen(whole: Everything, rows: Rows) -> Column | None:
    """Indices of the rows that conditions select; None for all."""
    if rows.key() == Rows().key():
        return None
    work = whole.work
    keep = np.array([device_work.wanted(rows, q) for q in work.queues], bool)[work.queue]
    if rows.begin is not None:
        keep &= work.start >= rows.begin
    if rows.end is not None:
        keep &= work.start < rows.end
    return np.flatnonzero(keep)


def _moved(trace: Trace, whole: Everything) -> tuple[Column, Column, list[str]]:
    """For each row its name, minus the place of a text for copies and sets; whether it blocks its call; and the texts."""
    work = whole.work
    texts, blocking = [""], np.zeros(len(work), bool)
    copies, source = whole.copies
    sets, set_source = whole.sets
    if not len(copies) and not len(sets):
        return work.name_id, blocking, texts
    name = work.name_id.copy()
    if len(copies):
        columns, known = trace.columns(
            "memcpy", {"asynchronous": 0}, ["kind", "source_kind", "destination_kind"]
        )
        pageable = np.zeros(len(copies), bool)
        for side in ("source_kind", "destination_kind"):
            pageable |= _is(columns[side], known[side], "pageable")
        held = ~columns["asynchronous"] | (pageable & ~_is(columns["kind"], known["kind"], "HtoD"))
        blocking[copies] = held[source]
        name[copies] = -(columns["kind"][source] + len(texts))
        texts += [f"Memcpy {kind}" for kind in known["kind"]]
    if len(sets):
        columns, _ = trace.columns("memset", {"asynchronous": 0})
        blocking[sets] = ~columns["asynchronous"][set_source]
        name[sets] = -len(texts)
        texts.append("Memset")
    return name, blocking, texts


def _is(code: Column, texts: list[str], text: str) -> Column:
    """Which codes stand for a text."""
    return code == texts.index(text) if text in texts else np.zeros(len(code), bool)


def _graphs(trace: Trace, whole: Everything) -> tuple[Column, Column]:
    """Graph and graph node of each row, 0 for none; few traces have any."""
    count = len(whole.work)
    has = any(trace.sql(f"SELECT count(graph) + count(graph_node) > 0 FROM {table}").fetchall()[0][0]
              for table in ("kernel_ids", "memcpy", "memset"))  # fmt: skip
    if not has:
        nothing = np.broadcast_to(np.zeros((), np.int8), count)  # takes no memory
        return nothing, nothing
    graph, node = np.zeros(count, np.int32), np.zeros(count, np.int64)
    numbers = {"graph": 0, "graph_node": 0}
    for table, (rows, source) in (
        ("kernel", whole.kernels),
        ("memcpy", whole.copies),
        ("memset", whole.sets),
    ):
        columns, _ = trace.columns(table, numbers)
        graph[rows], node[rows] = columns["graph"][source], columns["graph_node"][source]
    return graph, node


def waits(trace: Trace, rows: Rows, ids: StreamIds) -> Waits:
    """Waits that succeeded. Event ids: the unique id of the record where the source has one, else the event."""
    code, kinds = coded(trace, "sync", "kind")
    part = columns(
        trace,
        f"""SELECT start, {code} AS kind, coalesce(event_sync, event, 0)::BIGINT AS event, stream, context, process,
            coalesce(correlation, 0) AS correlation FROM sync
            WHERE coalesce(result, 0) = 0 AND {rows.where(device=False, stream=False)} ORDER BY start""",
    )
    process, context = part["process"], part["context"]
    part["stream"] = ids.numbers(process, context, part["stream"])
    part["context"] = ids.numbers_of_contexts(process, context)
    return Waits(**part, kinds=kinds)


def records(trace: Trace, rows: Rows, ids: StreamIds) -> Records:
    """Event records in order of their calls where those are known."""
    where = rows.where(time="coalesce(time, 0)", device=False, stream=False) if rows.processes else "true"
    part = columns(
        trace,
        f"""SELECT coalesce(time, -1) AS time, coalesce(event_sync, event, 0)::BIGINT AS event, context, stream, process,
            coalesce(correlation, 0) AS correlation FROM event WHERE {where}""",
    )
    part["stream"] = ids.numbers(part["process"], part.pop("context"), part["stream"])
    return Records(**part)


class CallIndex:
    """Finds the call of a correlation: a table where ids are dense, a sorted list where they are spread."""

    def __init__(self, found: Calls) -> None:
        """Index the calls; where two share a correlation, the one that began last is found."""
        known = np.flatnonzero(found.correlation != 0)
        self._processes = device_work.distinct(found.process)[0]
        self._number: Column | None = None  # of each process, where they lie close together
        if len(self._processes) > 1 and int(self._processes[-1]) - int(self._processes[0]) < 1 << 20:
            self._number = np.full(int(self._processes[-1]) - int(self._processes[0]) + 1, -1, np.int64)
            self._number[self._processes - self._processes[0]] = np.arange(len(self._processes))
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
        keys: Column = correlation - self._low
        if len(self._processes) > 1:
            number = self._number
            place = (
                np.searchsorted(self._processes, process)
                if number is None
                else number[process - self._processes[0]]
            )
            keys += place * self._span
        return keys

    def _known(self, process: Column) -> Column:
        """Which processes have calls."""
        known: Column = (process >= self._processes[0]) & (process <= self._processes[-1])
        if self._number is not None:
            known &= self._number[np.where(known, process - self._processes[0], 0)] >= 0
        elif len(self._processes) > 1:
            known = np.isin(process, self._processes)
        return known

    def find(self, process: Column, correlation: Column) -> Column:
        """Places of calls, -1 where there is none."""
        if not self._span:
            return np.full(len(correlation), -1, np.int64)
        inside = (correlation >= self._low) & (correlation < self._low + self._span) & (correlation != 0)
        inside &= self._known(process)
        keys = np.where(inside, self._keys(np.where(inside, process, self._processes[0]), correlation), 0)
        if self._table is not None:
            return np.where(inside, self._table[keys], -1)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(inside & (self._sorted[at] == keys), self._rows[at], -1)

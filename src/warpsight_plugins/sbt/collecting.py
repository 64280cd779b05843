"""The rows of a trace as SBT events, before their strings are numbered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.formats.selection import Selection
from warpsight.formats.varint import Column
from warpsight_plugins.sbt import layout
from warpsight_plugins.sbt.distinct import distinct
from warpsight_plugins.sbt.events import SbtEvents, nothing

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

#: Address, function, file, line; frames from the innermost outwards.
RawFrame = tuple[int, str, str, int]
#: Stands for a frame that the trace does not describe.
_NO_FRAME: RawFrame = (0, "?", "", 0)

_EVENT_KIND = (
    "CASE kind " + " ".join(f"WHEN '{v}' THEN {k}" for k, v in layout.EVENT_TYPES.items())
    + " ELSE coalesce(try_cast(CASE WHEN kind LIKE 'type %' THEN substr(kind, 6) END AS INTEGER), 255) END"
)  # fmt: skip


def _number_attribute(key: str) -> str:
    """A number among the attributes of a host row."""
    return f"coalesce(try_cast(json_extract_string(attributes, '$.{key}') AS UBIGINT), 0)"


@dataclass(frozen=True)
class _Rows:
    """How a table's rows become events, as expressions of SQL. Without a name events are named after their type."""

    kind: str
    name: str | None = None
    time: str = "start"
    duration: str = "greatest(coalesce(duration, 0), 0)"
    device: str = "coalesce(device, -1)"
    stream: str = "stream"
    context: str = "context"
    correlation: str = "coalesce(correlation, 0)"
    bytes: str | None = None
    shape: str = "0"
    stack: str = "coalesce(stack, 0)"
    thread: str = "0"

    @property
    def on_device(self) -> bool:
        """Whether device and stream are ids of the trace, not the file's own."""
        return self.stream != _HOST["stream"]


_HOST = {
    "device": _number_attribute("device"), "stream": _number_attribute("stream"),
    "correlation": _number_attribute("correlation"), "context": "0",
    "thread": "greatest(thread, 0)",
}  # fmt: skip
_TABLES: dict[str, _Rows] = {
    "kernel": _Rows("1", "coalesce(name_id, 0)", shape="coalesce(shape_id, 0)"),
    "memcpy": _Rows("CASE kind WHEN 'HtoD' THEN 3 WHEN 'DtoH' THEN 4 ELSE 5 END", bytes="bytes"),
    "memset": _Rows("6", bytes="bytes"),
    "sync": _Rows("CASE kind WHEN 'context' THEN 8 ELSE 7 END", stack="0"),
    "memory": _Rows("CASE operation WHEN 'allocate' THEN 15 ELSE 16 END", time="time", duration="0",
                    bytes="coalesce(bytes, 0)", stream="coalesce(stream, 0)", context="coalesce(context, 0)"),
    "marker": _Rows("CASE kind WHEN 'instant' THEN 17 ELSE 18 END", "coalesce(name_id, 0)", **_HOST),
    "user_event": _Rows(_EVENT_KIND, "name", **_HOST),
}  # fmt: skip


@dataclass
class _NumberedTexts:
    """Strings by index; a new string gets the next index."""

    places: dict[str, int]

    def place(self, text: str) -> int:
        """The index of a string."""
        return self.places.setdefault(text, len(self.places))


@dataclass(frozen=True)
class Collected:
    """Events whose `name` is an index into `texts` and whose `stack` is one into `stacks`; `addresses` belong to `memory`."""

    events: SbtEvents
    texts: _NumberedTexts
    stacks: list[tuple[RawFrame, ...]]
    unplaced: int

    def permuted(self, order: Column) -> Collected:
        """The collected events in another order."""
        return replace(self, events=permuted(self.events, order))


#: Columns that only some events have, keyed by the column that says which.
BLOCKS = (
    ("kernel_rows", ("kernel",)),
    ("memory_rows", ("memory",)),
    ("stack_rows", ("stack_thread", "stack")),
)


def permuted(events: SbtEvents, order: Column) -> SbtEvents:
    """Events in another order."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    columns: dict[str, Any] = {}
    for rows, values in BLOCKS:
        moved = place[getattr(events, rows)]
        turn = np.argsort(moved)
        columns[rows] = moved[turn]
        columns |= {name: getattr(events, name)[turn] for name in values}
    for name in ("kind", "flags", "time", "duration", "device", "stream", "correlation", "name"):
        columns[name] = getattr(events, name)[order]
    return SbtEvents(**columns, blobs=events.blobs)


def collect(trace: StoredTrace, selection: Selection) -> Collected:
    """All events of the selected part of a trace, in time order."""
    collector = _Collector(trace, selection)
    events = nothing()
    for table in _TABLES:
        if selection.wants(table) and trace.count(table):
            events = events.followed_by(collector.events(table))
    unplaced = trace.sql("SELECT count(*) FROM kernel_ids WHERE start IS NULL").fetchall()[0][0]
    found = Collected(events, collector.texts, collector.frames(), int(unplaced))
    return found.permuted(np.argsort(events.time.view(np.int64), kind="stable"))


class _Collector:
    def __init__(self, trace: StoredTrace, selection: Selection) -> None:
        self.trace = trace
        self.selection = selection
        self.texts = _NumberedTexts({})
        self._stacks: dict[int, int] = {}
        self._names = dict(trace.sql("SELECT id, name FROM name").fetchall())
        self._devices = dict(trace.sql("SELECT device, index FROM device").fetchall())
        self._streams = trace.sql(
            "SELECT process, context, stream, name FROM stream WHERE stream < 0"
        ).fetchall()
        columns = (
            "grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_static + shared_dynamic, registers"
        )
        shapes = trace.sql(f"SELECT id, {columns} FROM shape ORDER BY id").fetchall()
        self._shapes = np.zeros((max((row[0] for row in shapes), default=0) + 1, 8), np.uint64)
        for number, *values in shapes:
            self._shapes[number] = [value or 0 for value in values]

    def _indices(self, device: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The vendor's index of each row's device; a device that nothing describes keeps its number, none is 0."""
        numbers, place = np.unique(device, return_inverse=True)
        known = [self._devices.get(number, max(number, 0)) for number in numbers.tolist()]
        return np.array(known, np.int64)[place]

    def events(self, table: str) -> SbtEvents:
        """The events of one table, in stored order."""
        rows = _TABLES[table]
        data = self._fetched(table, rows)
        column = {name: data[name].to_numpy() for name in data.column_names if name != "name"}
        count = len(data)
        kind = column["kind"].astype(np.uint8)
        device, stream = column["device"].astype(np.int64), column["stream"].astype(np.int64)
        if rows.on_device:
            device, stream = self._indices(device), self._raw_streams(column, stream)
        shaped = np.flatnonzero(column["shape"])
        shapes = column["shape"][shaped]
        stacked = np.flatnonzero(column["stack"])
        sized = np.arange(count if rows.bytes else 0)
        memory = np.zeros((len(sized), 3), np.uint64)
        if rows.bytes:
            memory[:, 2] = column["bytes"].astype(np.uint64)
        duration = column["duration"].astype(np.uint64)
        flags = np.where(duration > 0, layout.DURATION, 0).astype(np.uint8)
        for place, bit in ((shaped, layout.KERNEL), (sized, layout.MEMORY), (stacked, layout.STACK)):
            flags[place] |= np.uint8(bit)
        return SbtEvents(
            kind, flags, column["time"].view(np.uint64), duration, device.astype(np.uint64), stream.astype(np.uint64),
            column["correlation"].astype(np.int64, copy=False).view(np.uint64) if rows.on_device
            else column["correlation"].astype(np.uint64), self._named(data["name"], kind, rows),
            shaped, self._shapes[np.where(shapes < len(self._shapes), shapes, 0)], sized, memory, stacked,
            column["thread"][stacked].astype(np.uint64), self._placed(column["stack"][stacked]),
        )  # fmt: skip

    def _fetched(self, table: str, rows: _Rows) -> pa.Table:
        where = self.selection.where(table) if rows.time == "start" else self.selection.instants()
        if table == "memory":
            where += " AND operation IN ('allocate', 'free')"
        source = f"{table}_ids" if rows.name and rows.name.startswith("coalesce(name_id") else table
        return self.trace.sql(f"""
            SELECT {rows.kind} AS kind, ({rows.time})::BIGINT AS time, ({rows.duration})::BIGINT AS duration,
              {rows.device} AS device, {rows.stream} AS stream, {rows.context} AS context, process,
              {rows.correlation} AS correlation, {rows.name or "NULL"} AS name, {rows.bytes or "0"} AS bytes,
              {rows.shape} AS shape, {rows.stack} AS stack, {rows.thread} AS thread
            FROM {source} t WHERE {where}""").to_arrow_table()

    def _raw_streams(self, column: dict[str, Column], stream: Column) -> Column:
        """Streams whose own number does not fit the column are identified by name."""
        out = stream.copy()
        for process, context, number, name in self._streams:
            chosen = (column["process"] == process) & (column["context"] == context) & (stream == number)
            out[chosen] = int(name) if name and name.isdigit() else 0
        found: Column = np.maximum(out, 0)
        return found

    def _named(self, names: pa.ChunkedArray, kind: Column, rows: _Rows) -> Column:
        if rows.name is None:
            known, place = distinct(kind)
            texts = [layout.EVENT_TYPES[k] for k in known.tolist()]
        elif rows.name == "name":
            encoded = names.combine_chunks().dictionary_encode()
            texts, place = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
        else:
            known, place = distinct(names.to_numpy())
            texts = [self._names.get(i, "") for i in known.tolist()]
        places = np.array([self.texts.place(text) for text in texts], np.uint64)
        found: Column = places[place] if len(places) else np.empty(0, np.uint64)
        return found

    def _placed(self, stacks: Column) -> Column:
        known, place = distinct(stacks)
        found = [self._stacks.setdefault(i, len(self._stacks)) for i in known.tolist()]
        placed: Column = np.array(found, np.int64)[place]
        return placed

    def frames(self) -> list[tuple[RawFrame, ...]]:
        """The frames of every stack in use."""
        if not self._stacks:
            return []
        frames = {
            i: (address or 0, function, file or "", line or 0)
            for i, address, function, file, line in self.trace.sql(
                "SELECT id, address, function, file, line FROM frame"
            ).fetchall()
        }
        tree = {
            i: (parent, frame)
            for i, parent, frame in self.trace.sql("SELECT id, parent, frame FROM stack").fetchall()
        }
        out = []
        for stack in self._stacks:
            chain, at = [], stack
            while at in tree:
                at, frame = tree[at]
                chain.append(frames.get(frame, _NO_FRAME))
            out.append(tuple(chain))
        return out

"""Chrome's JSON trace format ("Trace Event Format"), for chrome://tracing, Perfetto and everything that reads it.

Times are microseconds with exactly three decimals, put together from integers, so no nanosecond is lost to rounding.
Rows are concatenated as Arrow strings, chunk by chunk; names are escaped once each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.chrome.nvtx import reserved_color
from warpsight.formats.enclosed import writing as enclosed
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.writing.rows import ExportReader
from warpsight.formats.writing.timeline import (
    ADDRESSES,
    CATEGORIES,
    NVTX,
    Column,
    CounterTrack,
    Slices,
    Texts,
    Track,
    hexadecimal,
    load_stacks,
    load_texts,
)

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=("as for perfetto; attributes as members of `args`; the nearest color that the viewer knows",),
    lost=(
        "rows of table `attribute`; losses; devices beyond their names; a counter's process, except in its "
        "name",
    ),
    tested=("Python's json, Perfetto's trace processor",),
)
CHUNK_ROWS = 65_536
#: Tracks that are not threads get ids above those of the kernel's processes and threads (at most 2^22).
_ID_BASE = 10_000_000
#: How the arguments of a range begin that has a color.
_COLORED = rf'^"{NVTX}":\{{"color":"(?P<color>#[0-9a-f]{{8}})"'
_FRACTIONS = pa.array([f".{i:03d}" for i in range(1000)])


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the selected part of a trace; returns counts of slices, samples, tracks and unplaced kernels."""
    texts = load_texts(trace)
    reader = ExportReader(trace, selection, texts)
    written = {"slices": 0, "samples": 0, "tracks": 0, "unplaced": reader.unfinished}
    summed = enclosed.Summed(file)
    writer = _Writer(summed, texts)
    writer.begin(reader.origin)
    for piece in reader.pieces():
        if not len(piece):
            continue
        for track in (*reader.parents(piece.track), piece.track):
            writer.describe(track)
        if isinstance(piece, Slices):
            load_stacks(trace, texts, piece)
            writer.slices(piece, reader.shared_flows)
            written["slices"] += len(piece)
        else:
            writer.counter(piece)
            written["samples"] += len(piece)
    summed.write(b"\n]")
    enclosed.as_member(trace, selection, summed)
    summed.write(b"}\n")
    written["tracks"] = len(writer.described)
    return written


class _Writer:
    def __init__(self, file: enclosed.Summed, texts: Texts) -> None:
        self.file = file
        self.texts = texts
        self.described: set[int] = set()
        self._pids: dict[int, int] = {}
        self._threads: dict[int | None, int] = {}
        self._separator = b"\n"
        self._names: list[str] = []
        self._shapes = _quoted(texts.shapes)
        self._stacks: dict[int, str] = {}

    def begin(self, origin: int) -> None:
        other = {"recorder": "warpsight", "clock": "CLOCK_MONOTONIC", "begin_ns": str(origin)}
        self.file.write(
            b'{"displayTimeUnit":"ns","otherData":' + msgspec.json.encode(other) + b',"traceEvents":['
        )

    def describe(self, track: Track) -> None:
        """Metadata events that name a process, a device or a thread."""
        if track.uuid in self.described or track.unit is not None:
            return
        self.described.add(track.uuid)
        if track.is_group:
            pid = track.pid if track.command is not None and track.pid is not None else _ID_BASE + track.uuid
            self._pids[track.uuid] = pid
            # A device's track names the process whose work it shows: pids of the format are groups of tracks.
            owner = {"process": track.pid} if pid != track.pid and track.pid is not None else {}
            self._meta("process_name", pid, 0, name=track.name, **owner)
            self._meta("process_sort_index", pid, 0, sort_index=track.uuid)
            return
        pid, tid = self._place(track)
        if track.tid is not None:
            self._threads[track.uuid] = track.tid
        # A thread's ranges that do not nest have a track of their own.
        owner = {"thread": self._threads[track.parent]} if track.parent in self._threads else {}
        self._meta("thread_name", pid, tid, name=track.name, **owner)
        self._meta("thread_sort_index", pid, tid, sort_index=track.rank)

    def _place(self, track: Track) -> tuple[int, int]:
        """Process and thread id of a track."""
        pid = self._pids.get(track.parent or 0, track.pid or 0)
        return pid, track.tid if track.tid is not None else _ID_BASE + track.uuid

    def _meta(self, kind: str, pid: int, tid: int, **args: object) -> None:
        event = {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}
        self.file.write(self._separator + msgspec.json.encode(event))
        self._separator = b",\n"

    def _rows(self, parts: Iterable[Any]) -> None:
        """Write one event per row, by concatenating constants and string columns."""
        joined = pc.binary_join_element_wise(*parts, "")
        if not len(joined):
            return
        # The joined column's bytes are in sequence, so writing all rows is one write.
        first, last = joined.offset, joined.offset + len(joined)
        offsets = np.frombuffer(joined.buffers()[1], np.int32)[first : last + 1]
        data = memoryview(joined.buffers()[2])[offsets[0] : offsets[-1]]
        self.file.write(self._separator[:-1])
        self.file.write(
            data[:-1]
        )  # each row ends with a comma; the last one's is written before what follows
        self._separator = b",\n"

    def slices(self, data: Slices, shared: Column) -> None:
        if len(self._names) != len(self.texts.names):
            self._names = _quoted(self.texts.names)
        if data.stack is not None:
            for i in np.unique(data.stack).tolist():
                if i > 0 and i not in self._stacks:
                    self._stacks[i] = _quote(self.texts.stacks.get(i, "?"))
        for begin in range(0, len(data), CHUNK_ROWS):
            self._slice_chunk(data, slice(begin, min(begin + CHUNK_ROWS, len(data))), shared)

    def _slice_chunk(self, data: Slices, rows: slice, shared: Column) -> None:
        pid, tid = self._place(data.track)
        where = f'"pid":{pid},"tid":{tid},"ts":'
        start = _microseconds(data.start[rows])
        names = _looked_up(data.name[rows], self._names)
        category = _looked_up(data.category[rows], [f'"{c}"' for c in CATEGORIES])
        parts = ['\n{"ph":"X",' + where, start, ',"dur":', _microseconds(data.end[rows] - data.start[rows]),
                 ',"name":', names, ',"cat":', category, *_colors(data, rows), ',"args":{', *self._arguments(data, rows),
                 "}},"]  # fmt: skip
        self._rows(parts)
        if data.flow is not None:
            self._flows(data, rows, where, start, shared)

    def _arguments(self, data: Slices, rows: slice) -> list[Any]:
        """`"correlation":5,"shape":"…"`, leaving out missing ones."""
        parts: list[Any] = []
        columns: list[tuple[str, Column, Any]] = []
        if data.correlation is not None:
            columns.append(("correlation", data.correlation[rows], None))
        if data.bytes is not None:
            columns.append(("bytes", data.bytes[rows], None))
        if data.shape is not None:
            columns.append(("shape", data.shape[rows], self._shapes))
        if data.stack is not None:
            columns.append(("stack", data.stack[rows], self._stacks))
        for label in (name for names in ADDRESSES.values() for name in names):
            if (addresses := getattr(data, label)) is not None:
                texts, places = hexadecimal(addresses[rows])
                columns.append(
                    (label, addresses[rows], pa.array(_quoted(texts), pa.string()).take(pa.array(places)))
                )
        before = np.zeros(rows.stop - rows.start, bool)
        for label, values, lookup in columns:
            there = values > 0
            if lookup is None:
                text = pc.cast(pa.array(values), pa.string())
            else:
                text = lookup if isinstance(lookup, pa.Array) else _looked_up(values, lookup)
            comma = pc.if_else(pa.array(before & there), ",", "")
            entry = pc.binary_join_element_wise(comma, f'"{label}":', text, "")
            parts.append(pc.if_else(pa.array(there), entry, ""))
            before |= there
        if data.attributes is not None:
            text = pa.array(data.attributes[rows], pa.string())
            there = pc.not_equal(text, "").to_numpy(zero_copy_only=False)
            parts += [pc.if_else(pa.array(before & there), ",", ""), text]
        return parts

    def _flows(self, data: Slices, rows: slice, where: str, start: pa.Array, shared: Column) -> None:
        """`s` at the launch, `f` at its work; if several kernels share a launch, they are steps `t`."""
        assert data.flow is not None
        flow = data.flow[rows]
        there = np.flatnonzero(flow)
        if not len(there):
            return
        phase: Any = '\n{"ph":"s",'
        if not data.source:
            phase = pc.if_else(
                pa.array(np.isin(flow[there], shared)), '\n{"ph":"t",', '\n{"ph":"f","bp":"e",'
            )
        identity = pc.cast(pa.array(flow[there]), pa.string())
        self._rows(
            [
                phase,
                '"name":"launch","cat":"flow","id":"',
                identity,
                '",' + where,
                start.take(pa.array(there)),
                "},",
            ]
        )

    def counter(self, data: CounterTrack) -> None:
        label = _quote(data.track.unit or "value")
        for begin in range(0, len(data), CHUNK_ROWS):
            rows = slice(begin, min(begin + CHUNK_ROWS, len(data)))
            values = pa.array([repr(v) if np.isfinite(v) else "null" for v in data.value[rows].tolist()])
            head = f'\n{{"ph":"C","pid":0,"tid":0,"name":{_quote(data.track.name)},"ts":'
            self._rows([head, _microseconds(data.time[rows]), f',"args":{{{label}:', values, "}},"])


def _colors(data: Slices, rows: slice) -> list[Any]:
    """`,"cname":"…"` for ranges with a color; empty if none has one."""
    if data.attributes is None:
        return []
    found = pc.extract_regex(pa.array(data.attributes[rows], pa.string()), _COLORED)
    if found.null_count == len(found):
        return []
    coded = found.field("color").dictionary_encode()
    named = [f',"cname":"{reserved_color(color)}"' if color else "" for color in coded.dictionary.to_pylist()]
    return [pc.fill_null(pa.array(named, pa.string()).take(coded.indices), "")]


def _microseconds(ns: Column) -> pa.Array:
    """Integer nanoseconds as microseconds with three decimals."""
    size = np.abs(ns)
    whole = pc.cast(pa.array(size // 1000), pa.string())
    text = pc.binary_join_element_wise(whole, _FRACTIONS.take(pa.array(size % 1000)), "")
    below = ns < 0
    return (
        pc.binary_join_element_wise(pc.if_else(pa.array(below), "-", ""), text, "") if below.any() else text
    )


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _quoted(texts: list[str]) -> list[str]:
    return [_quote(text) for text in texts]


def _looked_up(column: Column, texts: list[str] | dict[int, str]) -> pa.Array:
    """The string for every index; missing ones are empty."""
    values, places = np.unique(column, return_inverse=True)
    if isinstance(texts, dict):
        known = [texts.get(i, "") for i in values.tolist()]
    else:
        known = [texts[i] if 0 <= i < len(texts) else "" for i in values.tolist()]
    return pa.array(known, pa.string()).take(pa.array(places))

"""An instruction trace as a file: its records as columns, chunk by chunk, and its gaps."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.writing.clp import source_of
from warpsight_plugins.cutracer import records
from warpsight_plugins.cutracer.header import CutracerHeader
from warpsight_plugins.cutracer.lines import Chunk, chunks

_TEXT = pa.string()
_ARROW = {int: pa.int64(), str: _TEXT, bool: pa.bool_(), list[int]: pa.list_(pa.int64())}
#: Exceptions from decoding a line that is not JSON, not UTF-8, or nested too deeply.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
#: Fields with one type in every record; others are read record by record. A stream is a pointer.
TYPES: dict[str, pa.DataType] = {
    **{name: _ARROW[kind] for name, kind in records.FIELDS.items()},
    "stream_id": pa.uint64(),
}


class TraceFile:
    """Reads an NDJSON trace once, in chunks of columns; afterwards, :attr:`notes` lists gaps."""

    def __init__(self, path: Path | str) -> None:
        """Open the file.

        Raises:
            FormatError: when it does not exist, or is a CLP archive that cannot be unpacked.
        """
        self.source = source_of(path)
        self.header = CutracerHeader()
        self.notes: list[str] = []
        self.lines = 0

    def chunks(self, fields: Sequence[str]) -> Iterator[tuple[Chunk, pa.Table]]:
        """Columns of every chunk, one row per line; describing records are rows too (their `type` says so).

        Fields that are lists or numbers of varying type come as JSON text. `sass` is filled in from the instruction table,
        `caller` from the stacks.

        Raises:
            FormatError: for a line inside the file that is not a JSON object, with its number.
        """
        needed = _needed(fields)
        with ThreadPoolExecutor(2, thread_name_prefix="sass") as pool:
            waiting: deque[tuple[Chunk, Future[pa.Table]]] = deque()
            for chunk in chunks(self.source):
                waiting.append((chunk, pool.submit(self._columns, chunk, needed)))
                if len(waiting) > 2 or not self.lines:  # the first chunk at once: it may be enough
                    yield self._finished(*waiting.popleft(), fields)
            while waiting:
                yield self._finished(*waiting.popleft(), fields)
        if self.source.truncated:
            self.notes.append(f"{self.source.name}: {self.source.damage}; records up to there were read")
        self.notes += self.header.notes()

    def _finished(
        self, chunk: Chunk, future: Future[pa.Table], fields: Sequence[str]
    ) -> tuple[Chunk, pa.Table]:
        table = future.result()
        self.lines += len(table)
        self._describe(chunk, table)
        columns = {}
        for name in fields:
            if name == "sass":
                columns[name] = self._sass(table)
            elif name == "caller":
                columns[name] = self._callers(table)
            else:
                columns[name] = table[name]
        return chunk, pa.table({"type": table["type"], **columns})

    def _describe(self, chunk: Chunk, table: pa.Table) -> None:
        kinds = table["type"].combine_chunks()
        rows = pc.indices_nonzero(pc.is_in(kinds, pa.array(sorted(records.DESCRIBING)))).to_pylist()
        if not rows:
            return
        for record in self.records(chunk, rows, len(table)):
            self.header.take(record)

    def records(self, chunk: Chunk, rows: Iterable[int], count: int) -> Iterator[dict[str, Any]]:
        """Whole records of some of the `count` rows of a chunk.

        Raises:
            FormatError: when lines and records are not one to one.
        """
        ends = chunk.ends()
        if count > len(ends) or (count < len(ends) and not self.source.truncated):
            raise self.source.error(
                f"{count} records in {len(ends)} lines; each line holds one record", line=chunk.first
            )
        for row in rows:
            try:
                yield msgspec.json.decode(chunk.line(int(row), ends))
            except _UNREADABLE as error:
                raise self.source.error(
                    f"no JSON object: {error}", line=chunk.number(int(row), ends)
                ) from None

    def _sass(self, table: pa.Table) -> pa.Array:
        own = table["sass"].combine_chunks()
        if not self.header.sass or not own.null_count:
            return own
        texts = pa.array(self.header.sass.values(), _TEXT)
        looked_up = pa.DictionaryArray.from_arrays(_places(table["opcode_id"], self.header.sass), texts)
        if own.null_count == len(own):
            return looked_up
        return pc.coalesce(own.cast(_TEXT), looked_up.cast(_TEXT))

    def _callers(self, table: pa.Table) -> pa.Array:
        texts = pa.array(self.header.stacks.values(), _TEXT)
        return texts.take(_places(table["callstack_id"], self.header.stacks))

    def _columns(self, chunk: Chunk, fields: tuple[str, ...]) -> pa.Table:
        """The chunk's columns: all lines at once if every field has its usual type, otherwise line by line."""
        try:
            rows = _decoder(fields).decode_lines(chunk.data)
        except _UNREADABLE:
            return self._slowly(chunk, fields)
        return pa.table({name: column(name, [getattr(row, name) for row in rows]) for name in fields})

    def _slowly(self, chunk: Chunk, fields: tuple[str, ...]) -> pa.Table:
        rows: list[dict[str, Any]] = []
        ends = chunk.ends()
        for place in range(len(ends)):
            try:
                record = msgspec.json.decode(chunk.line(place, ends))
                if not isinstance(record, dict):
                    raise msgspec.DecodeError("expected an object")
            except _UNREADABLE as error:
                if chunk.open_end and place == len(ends) - 1:
                    self.source.ended_early(f"the last record (line {chunk.number(place, ends)}) is cut off")
                    break
                if place == 0 and chunk.first == 1 and chunk.data.startswith(b"CTX "):
                    raise self.source.error(
                        "is a text trace: `sass validate` and `sass compare` read those, everything else the NDJSON form"
                    ) from None
                raise self.source.error(f"no JSON object: {error}", line=chunk.number(place, ends)) from None
            rows.append({name: record.get(name) for name in fields})
        return pa.table({name: column(name, [row[name] for row in rows]) for name in fields})


def _places(ids: pa.ChunkedArray, known: Iterable[int | str]) -> pa.Array:
    """Index of each id among the known ones; compared as strings unless all are numbers, since a damaged column holds strings."""
    ids = ids.combine_chunks()
    if pa.types.is_integer(ids.type):
        return pc.index_in(ids, pa.array(known, pa.int64()))
    return pc.index_in(ids.cast(_TEXT), pa.array(map(str, known), _TEXT))


@lru_cache(maxsize=32)
def _decoder(fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A parser that keeps only these fields; not tracked by the garbage collector, since there are millions."""
    kinds = [(name, _python(name), None) for name in fields]
    return msgspec.json.Decoder(msgspec.defstruct("Fields", kinds, gc=False))


def _python(name: str) -> object:
    return records.FIELDS[name] | None if name in records.FIELDS else Any


def _needed(fields: Sequence[str]) -> tuple[str, ...]:
    """Columns to read: the requested ones, the ones they are derived from, and the record type."""
    wanted = dict.fromkeys(["type", *fields])
    if "sass" in wanted:
        wanted["opcode_id"] = None
    if "caller" in wanted:
        del wanted["caller"]
        wanted["callstack_id"] = None
    return tuple(wanted)


def column(name: str, values: Sequence[Any]) -> pa.Array:
    """Values in the field's type; as JSON strings if they have several types."""
    try:
        if name in TYPES:
            return pa.array(values, TYPES[name])
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        texts = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]
        return pa.array(texts, _TEXT)


def warps_per_cta(path: Path | str) -> int | None:
    """Warps per block of the traced kernel according to the trace's metadata, or None."""
    trace = TraceFile(path)
    for _ in trace.chunks(()):
        break
    return trace.header.warps_per_cta()

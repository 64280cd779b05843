"""Places each event of an SBT file in a table, and keeps the data that its row cannot hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warpsight.formats.varint import Column
from warpsight_plugins.sbt import layout, pairs, stacks
from warpsight_plugins.sbt.distinct import distinct, first_uses
from warpsight_plugins.sbt.events import SbtEvents
from warpsight_plugins.sbt.pairs import PairedEvents
from warpsight_plugins.sbt.raw import raw_events, text_of

if TYPE_CHECKING:
    from warpsight.formats.target import Target

#: Tables that events become rows of, in the order in which rows of one moment are written back.
TABLES = ("kernel", "memcpy", "memset", "sync", "memory", "marker", "user_event")
_TABLE_OF = np.full(256, TABLES.index("user_event"), np.int8)
for _table, _kinds in {"kernel": (1, 2), "memcpy": (3, 4, 5), "memset": (6,), "sync": (7, 8), "memory": (15, 16),
                       "marker": (17, 18, 19)}.items():  # fmt: skip
    _TABLE_OF[list(_kinds)] = TABLES.index(_table)
COPIES = {3: "HtoD", 4: "DtoH", 5: "DtoD"}
#: Columns of a shape, in the order of an event's launch parameters.
_SHAPE_COLUMNS = (
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "shared_dynamic",
    "registers",
)
_INT32_MAX = (1 << 31) - 1
#: Tables whose rows have a name of their own; others are named after their type unless an attribute gives a name.
_NAMED = ("kernel", "marker", "user_event")


class EventPlacer:
    """Adds events to the tables of a trace."""

    def __init__(self, target: Target, process: int, strings: list[bytes] | None) -> None:
        """`strings` is None when the file has lost them."""
        self.target = target
        self.process = process
        self.strings = strings
        self._pairs = PairedEvents()
        self._texts = SbtTexts(strings)
        self._stacks = stacks.StackIds(target, self._texts)
        self._devices: dict[int, int] = {}
        self._streams: dict[int, int] = {}
        self._known_shapes: dict[bytes, tuple[int, bool]] = {}
        self._order: dict[str, list[tuple[Column, Column]]] = {table: [] for table in TABLES}

    def place(self, events: SbtEvents, first: int) -> None:
        """Add events; `first` is the first one's place in the file."""
        self._texts.use(events)
        ready = self._pairs.take(events, np.arange(first, first + len(events)))
        self._place(ready)

    def finish(self) -> None:
        """Add events that still waited for their end."""
        self._place(self._pairs.rest())
        if self._texts.missing:
            cause = "some names are numbers that the string table does not have"
            self.target.lost(self._texts.missing, cause, "name")
        if self._pairs.unended:
            cause = (
                "KernelLaunch events without a duration or a KernelComplete: how long they ran is not known"
            )
            self.target.lost(self._pairs.unended, cause, "kernel")

    def leftovers(self) -> dict[str, str]:
        """Attributes of the whole file: `strings` and `order` if writing it again would change them."""
        found: dict[str, str] = {}
        if self.strings is not None and not self._texts.usual():
            found["strings"] = json.dumps(
                [s.decode("utf-8", "replace") for s in self.strings], ensure_ascii=False
            )
        order = self._file_order()
        if not bool((order[1:] > order[:-1]).all()):
            found["order"] = json.dumps(order.tolist(), separators=(",", ":"))
        return found

    def _file_order(self) -> Column:
        """The file positions of all rows, in the order in which a writer would visit them."""
        pieces = [piece for table in TABLES for piece in self._order[table]]
        if not pieces:
            return np.empty(0, np.int64)
        start = np.concatenate([start for start, _ in pieces])
        return np.concatenate([ordinal for _, ordinal in pieces])[np.argsort(start, kind="stable")]

    def _place(self, ready: pairs.Ready) -> None:
        events, ordinal = ready.events, ready.ordinal
        whole = ready.alone.copy()
        tables = _TABLE_OF[events.kind]
        for number, table in enumerate(TABLES):
            rows = np.flatnonzero((tables == number) & ~ready.alone)
            if not len(rows):
                continue
            part = events.take(rows)
            columns, exact = getattr(self, f"_{table}")(part, ready.length[rows])
            self.target.add(
                table, {**columns, "process": pa.repeat(pa.scalar(self.process, pa.int32()), len(rows))}
            )
            self._order[table].append((part.time.view(np.int64), ordinal[rows]))
            whole[rows[~exact]] = True
            self._beside(table, part, ordinal[rows], exact)
        rows = np.flatnonzero(whole)
        if len(rows):
            values = raw_events(events.take(rows), self._texts, self._stacks)
            alone = pa.array(ready.alone[rows])
            for key, chosen in (("extra", alone), ("event", pc.invert(alone))):
                self._attribute(
                    key, ordinal[rows][chosen.to_numpy(zero_copy_only=False)], values.filter(chosen)
                )

    # Rows of each table, and whether the row (with what `_beside` adds) holds all of the event.

    def _kernel(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        shape, fits = self._shapes(part)
        columns = {
            **self._where(part),
            **self._span(part, length),
            "name_id": self._texts.ids(self.target, part.name),
        }
        columns |= {"shape_id": shape, "stack": self._stack(part), "graph_level": _same(False, len(part))}
        columns["correlation"] = part.correlation.view(np.int64)
        expected = self._flags(part) | np.where(_flagged(part, part.kernel_rows), layout.KERNEL, 0)
        return columns, fits & (part.kind == 1) & (part.flags == expected) & (length == 0)

    def _memcpy(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        count = len(part)
        kinds = pa.array([COPIES.get(i, "") for i in range(6)]).take(pa.array(part.kind))
        unknown = _same("unknown", count)
        columns = {**self._where(part), **self._exact_span(part), "bytes": self._bytes(part), "kind": kinds}
        columns |= {"source_kind": unknown, "destination_kind": unknown, "asynchronous": _same(False, count)}
        columns |= {"correlation": part.correlation.view(np.int64), "stack": self._stack(part)}
        return columns, self._usual(part)

    def _memset(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        count = len(part)
        columns = {**self._where(part), **self._exact_span(part), "bytes": self._bytes(part)}
        columns |= {
            "value": _same(0, count),
            "memory_kind": _same("unknown", count),
            "asynchronous": _same(False, count),
        }
        columns |= {"correlation": part.correlation.view(np.int64), "stack": self._stack(part)}
        return columns, self._usual(part)

    def _sync(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        kinds = pa.array(["stream", "context"]).take(pa.array(part.kind.astype(np.int64) - 7))
        columns = {**self._where(part), **self._exact_span(part), "kind": kinds}
        columns["correlation"] = part.correlation.view(np.int64)
        return columns, part.flags == self._flags(part) & layout.DURATION

    def _memory(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        address = np.zeros(len(part), np.uint64)
        source, destination = part.memory[:, 0], part.memory[:, 1]
        address[part.memory_rows] = np.where(destination, destination, source)
        operation = pa.array(["allocate", "free"]).take(pa.array(part.kind.astype(np.int64) - 15))
        columns = {
            **self._where(part),
            "operation": operation,
            "address": address,
            "bytes": self._bytes(part),
        }
        columns |= {
            "time": part.time.view(np.int64),
            "kind": _same("reported", len(part)),
            "stack": self._stack(part),
        }
        columns["correlation"] = part.correlation.view(np.int64)
        return columns, self._usual(part) & (part.flags & layout.DURATION == 0)

    def _marker(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        columns, exact = self._host_columns(part, length)
        kinds = pa.array(["instant", "start/end"]).take(pa.array((part.kind == 18).astype(np.int64)))
        unended = (part.kind == 18) & (part.duration == 0) & (length == 0)
        columns |= {"kind": kinds, "open": unended, "source": _same("framework", len(part))}
        columns["name_id"] = self._texts.ids(self.target, part.name)
        return columns, exact & (part.kind != 19)

    def _user_event(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        columns, exact = self._host_columns(part, length)
        labels = pa.array([layout.EVENT_TYPES.get(i, f"type {i}") for i in range(256)])
        columns["duration"] = pa.array(np.where(length, length, part.duration.view(np.int64)))
        columns |= {"name": self._texts.column(part.name), "kind": labels.take(pa.array(part.kind))}
        return columns, exact & (part.duration.view(np.int64) >= 0)

    # Columns common to the tables.

    def _host_columns(self, part: SbtEvents, length: Column) -> tuple[dict[str, Any], Column]:
        """Columns of host rows; device, stream and correlation have no columns there and become attributes."""
        numbers = (pc.cast(pa.array(c), pa.string()) for c in (part.device, part.stream, part.correlation))
        pieces = [
            p
            for pair in zip(('{"device":', ',"stream":', ',"correlation":'), numbers, strict=True)
            for p in pair
        ]
        columns = {**self._span(part, length), "stack": self._stack(part)}
        columns["attributes"] = pc.binary_join_element_wise(*pieces, "}", "")
        columns["thread"] = _same(self.target.thread(self.process, 0), len(part))
        return columns, (part.flags == self._flags(part)) & (length == 0)

    def _where(self, part: SbtEvents) -> dict[str, Any]:
        context = self.target.context(self.process, 0)
        for raw in distinct(part.device)[0].tolist():
            if raw not in self._devices:
                index = raw if raw < 1 << 31 else 0
                self._devices[raw] = self.target.device((self.target.scope, raw), index=index)
        for raw in distinct(part.stream)[0].tolist():
            if raw not in self._streams:
                self._streams[raw] = self.target.stream(self.process, context, raw)
        return {
            "device": _mapped(part.device, self._devices, np.int16),
            "stream": _mapped(part.stream, self._streams, np.int64),
            "context": _same(context, len(part)),
        }

    def _span(self, part: SbtEvents, length: Column) -> dict[str, Any]:
        """Start and duration; the duration is missing if the file has none."""
        duration = np.where(length, length, part.duration.view(np.int64))
        return {"start": part.time.view(np.int64), "duration": pa.array(duration, mask=duration <= 0)}

    def _exact_span(self, part: SbtEvents) -> dict[str, Any]:
        return {"start": part.time.view(np.int64), "duration": np.maximum(part.duration.view(np.int64), 0)}

    def _flags(self, part: SbtEvents) -> Column:
        """The flags that follow from duration and stack."""
        timed = np.where((part.duration > 0) & (part.duration < 1 << 63), layout.DURATION, 0)
        flags: Column = timed | np.where(_flagged(part, part.stack_rows), layout.STACK, 0)
        return flags

    def _usual(self, part: SbtEvents) -> Column:
        small = np.ones(len(part), bool)
        small[part.memory_rows] = part.memory[:, 2] < 1 << 63
        expected = self._flags(part) | np.where(_flagged(part, part.memory_rows), layout.MEMORY, 0)
        usual: Column = small & (part.flags == expected)
        return usual

    def _bytes(self, part: SbtEvents) -> Column:
        size = np.zeros(len(part), np.int64)
        size[part.memory_rows] = np.maximum(part.memory[:, 2].view(np.int64), 0)
        return size

    def _shapes(self, part: SbtEvents) -> tuple[pa.Array, Column]:
        """Shape ids, null without parameters, and whether the shape holds all of them."""
        ids, fits = np.zeros(len(part), np.int32), np.ones(len(part), bool)
        if len(part.kernel_rows):
            packed = pa.py_buffer(np.ascontiguousarray(part.kernel))
            kind = pa.binary(8 * len(_SHAPE_COLUMNS))
            coded = pa.FixedSizeBinaryArray.from_buffers(kind, len(part.kernel_rows), [None, packed])
            coded = coded.dictionary_encode()
            place = coded.indices.to_numpy()
            known = [self._shape(raw) for raw in coded.dictionary.to_pylist()]
            ids[part.kernel_rows] = np.array([number for number, _ in known], np.int32)[place]
            fits[part.kernel_rows] = np.array([whole for _, whole in known])[place]
        return pa.array(ids, mask=ids == 0), fits

    def _shape(self, raw: bytes) -> tuple[int, bool]:
        """Id of a shape by its uint64 numbers, and whether it holds all of them."""
        if raw not in self._known_shapes:
            values = np.frombuffer(raw, np.uint64)
            held = np.minimum(values, _INT32_MAX).tolist()
            number = self.target.shape(**dict(zip(_SHAPE_COLUMNS, held, strict=True)))
            self._known_shapes[raw] = number, bool((values <= _INT32_MAX).all())
        return self._known_shapes[raw]

    def _stack(self, part: SbtEvents) -> pa.Array:
        ids = np.zeros(len(part), np.int32)
        if len(part.stack_rows):
            ids[part.stack_rows] = self._stacks.ids(part.blobs)[part.stack]
        return pa.array(ids, mask=ids == 0)

    def _beside(self, table: str, part: SbtEvents, ordinal: Column, exact: Column) -> None:
        """Attributes of events that are otherwise stored in rows."""
        keep = exact[part.memory_rows]
        rows = part.memory_rows[keep]
        if len(rows):
            pair = [pc.cast(pa.array(part.memory[keep, i]), pa.string()) for i in (0, 1)]
            self._attribute(
                "addresses", ordinal[rows], pc.binary_join_element_wise("[", pair[0], ",", pair[1], "]", "")
            )
        keep = exact[part.stack_rows] & (part.stack_thread != 0)
        rows = part.stack_rows[keep]
        if len(rows):
            self._attribute("thread", ordinal[rows], pc.cast(pa.array(part.stack_thread[keep]), pa.string()))
        if table not in _NAMED:
            usual = self._texts.numbers([text_of(kind) for kind in range(256)])
            rows = np.flatnonzero(exact & (part.name.astype(np.int64) != usual[part.kind]))
            if len(rows):
                self._attribute("name", ordinal[rows], self._texts.json(part.name[rows]))

    def _attribute(self, key: str, row: Column, value: pa.Array) -> None:
        count = len(row)
        process = pa.repeat(pa.scalar(self.process, pa.int32()), count)
        self.target.add("attribute", {"table": _same("sbt", count), "row": row, "key": _same(key, count), "value": value,
                                      "process": process})  # fmt: skip


class SbtTexts:
    """The string table: strings by number, and the order in which events use them."""

    def __init__(self, strings: list[bytes] | None) -> None:
        self._known = [] if strings is None else [s.decode("utf-8", "replace") for s in strings]
        self._total = len(self._known)
        self._extra: dict[int, str] = {}
        self._ids: dict[int, int] = {}
        self._order: dict[int, None] = {}
        self._blobs: set[bytes] = set()
        self.missing = 0

    def __getitem__(self, number: int) -> str:
        if number < self._total:
            return self._known[number]
        if number not in self._extra:
            self._extra[number] = f"string {number}"
            self.missing += 1
        return self._extra[number]

    def use(self, events: SbtEvents) -> None:
        """Record the order in which strings are first used: an event's name, then its frames' functions and files."""
        names, first = first_uses(events.name)
        used = [(at, 0, [number]) for number, at in zip(names.tolist(), first.tolist(), strict=True)
                if number not in self._order]  # fmt: skip
        if len(events.stack_rows):
            blobs, at = first_uses(events.stack)
            for blob, place in zip(blobs.tolist(), events.stack_rows[at].tolist(), strict=True):
                if events.blobs[blob] not in self._blobs:
                    self._blobs.add(events.blobs[blob])
                    numbers = [n for _, f, p, _ in stacks.frames(events.blobs[blob]) for n in (f, p)]
                    used.append((place, 1, numbers))
        for _, _, numbers in sorted(used):
            self._order.update(dict.fromkeys(numbers))

    def usual(self) -> bool:
        """Whether writing would number the strings as the file does."""
        return list(self._order) == list(range(self._total)) and len(set(self._known)) == self._total

    def ids(self, target: Target, numbers: Column) -> Column:
        """Name ids."""
        known, place = distinct(numbers)
        for number in known.tolist():
            if number not in self._ids:
                self._ids[number] = target.name(self[number])
        found: Column = np.array([self._ids[n] for n in known.tolist()], np.int32)[place]
        return found

    def column(self, numbers: Column) -> pa.Array:
        """The strings."""
        known, place = distinct(numbers)
        return pa.array([self[n] for n in known.tolist()], pa.string()).take(pa.array(place))

    def json(self, numbers: Column) -> pa.Array:
        """The strings as JSON."""
        known, place = distinct(numbers)
        texts = [json.dumps(self[n], ensure_ascii=False) for n in known.tolist()]
        return pa.array(texts, pa.string()).take(pa.array(place))

    def numbers(self, texts: list[str]) -> Column:
        """The numbers of strings, -1 for strings not in the table."""
        place = {text: number for number, text in reversed(list(enumerate(self._known)))}
        return np.array([place.get(text, -1) for text in texts], np.int64)


def _same(value: object, count: int) -> pa.Array:
    return pa.repeat(value, count)


def _flagged(part: SbtEvents, rows: Column) -> Column:
    out = np.zeros(len(part), bool)
    out[rows] = True
    return out


def _mapped(values: Column, ids: dict[int, int], kind: npt.DTypeLike) -> Column:
    known, place = distinct(values)
    found: Column = np.array([ids[v] for v in known.tolist()], kind)[place]
    return found

"""TracePackets: descriptors, interned texts, clocks, and the columns of slices and samples.

Field numbers are those of `protos/perfetto/trace/*.proto` (Perfetto v52). Each run of slices is a packet sequence of its own with
an incremental clock: a timestamp is the distance from the previous packet, one to three bytes instead of eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from warpsight.formats.perfetto.wire import Column, ConstantPart, Fixed64, Message, Part, Varint, number, text
from warpsight.formats.writing.overlay import BEGIN_IN, BEGIN_OUT, END_IN, END_OUT
from warpsight.formats.writing.timeline import (
    ADDRESSES,
    CATEGORIES,
    CounterTrack,
    Slices,
    Texts,
    Track,
    hexadecimal,
)

CLOCK_REALTIME, CLOCK_MONOTONIC = 1, 3
#: Sequence-scoped clock ids begin at 64.
_CLOCK_DELTA = 64
_CLEARED, _NEEDED = 1, 2
_BEGIN, _END, _COUNTER = 1, 2, 4
#: Children of a track in order of their ranks.
_EXPLICIT_ORDER = 3
_ADDRESSES = tuple(name for names in ADDRESSES.values() for name in names)
_ANNOTATIONS = ("correlation", "shape", "stack", "bytes", "graph", "node", "attributes", *_ADDRESSES)
_ANNOTATION = {name: i for i, name in enumerate(_ANNOTATIONS, 1)}


def packet(*fields: bytes) -> bytes:
    """One TracePacket within a Trace."""
    return text(1, b"".join(fields))


def head(origin: int, realtime: int | None, marker: bytes = b"") -> bytes:
    """The first packet: the trace's clock is CLOCK_MONOTONIC, with the wall clock's reading; `marker` is our own field."""
    clocks = text(1, number(1, CLOCK_MONOTONIC) + number(2, origin))
    if realtime is not None:
        clocks += text(1, number(1, CLOCK_REALTIME) + number(2, realtime))
    return packet(number(10, 1), text(6, clocks + number(2, CLOCK_MONOTONIC)), marker)


def describe(track: Track) -> bytes:
    """The TrackDescriptor of a track."""
    fields = number(1, track.uuid)
    if track.tid is not None:
        assert track.pid is not None
        # Viewers show the number next to the name: the number is enough if there is no name.
        name = text(5, track.name) if track.name != f"thread {track.tid}" else b""
        fields += text(4, number(1, track.pid) + number(2, track.tid) + name)
    elif track.command is not None:
        assert track.pid is not None
        fields += text(3, number(1, track.pid) + text(6, track.name) + text(2, track.command))
    else:
        fields += text(2, track.name) + number(12, track.rank)
        if track.parent is not None:
            fields += number(5, track.parent)
    if track.is_group:
        fields += number(11, _EXPLICIT_ORDER)
    if track.unit is not None:
        fields += text(8, number(3, 3) if track.unit == "B" else text(6, track.unit))
    return packet(number(10, 1), text(60, fields))


def _begin_sequence(sequence: int, track: Track, origin: int, interned: bytes = b"") -> bytes:
    """Reset a sequence: its defaults (clock and track), its strings, and the clock's first reading."""
    defaults = number(58, _CLOCK_DELTA) + text(11, number(11, track.uuid))
    first = packet(
        number(10, sequence), number(13, _CLEARED), number(87, 1), text(59, defaults), text(12, interned)
    )
    clocks = text(1, number(1, _CLOCK_DELTA) + number(2, origin) + number(3, 1))
    clocks += text(1, number(1, CLOCK_MONOTONIC) + number(2, origin))
    return first + packet(number(10, sequence), text(6, clocks))


def _interned_names(field: int, names: Iterable[str]) -> bytes:
    """InternedData entries {iid, name} numbered from 1."""
    return b"".join(text(field, number(1, i) + text(2, name)) for i, name in enumerate(names, 1))


def _by_frequency(column: Column) -> tuple[Column, Column]:
    """Distinct values, most frequent first, and each row's index from 1: frequent values take one byte."""
    if not len(column):
        return column, column
    low, high = int(column.min()), int(column.max())
    counts = np.bincount(column - low, minlength=high - low + 1)
    order = np.argsort(-counts, kind="stable")
    order = order[: int(np.count_nonzero(counts))]
    rank = np.zeros(len(counts), np.uint32)
    rank[order] = np.arange(1, len(order) + 1)
    return order + low, rank[column - low]


def slices(sequence: int, data: Slices, texts: Texts, origin: int) -> tuple[bytes, list[Part]]:
    """The start of the sequence, and the parts of one row: a slice's begin packet and its end packet."""
    names, name = _by_frequency(data.name)
    categories, category = _by_frequency(data.category.astype(np.int64))
    interned = _interned_names(1, (CATEGORIES[i] for i in categories))
    interned += _interned_names(2, (texts.names[i] or "?" for i in names))
    interned += _interned_names(3, _ANNOTATIONS)
    event: list[Part] = [ConstantPart(number(9, _BEGIN)), Varint(10, name), *_category(category)]
    strings: dict[str, int] = {}
    for label in ("correlation", "bytes", "graph", "node"):
        column = getattr(data, label)
        if column is not None:
            # a foreign trace may use negative ids for none
            event.append(_annotation(label, Varint(3, np.maximum(column, 0)), column > 0))
    for label, column, lookup in (
        ("shape", data.shape, dict(enumerate(texts.shapes))),
        ("stack", data.stack, texts.stacks),
    ):
        if column is not None:
            event.append(_annotation(label, Varint(17, _strings(column, lookup, strings)), column > 0))
    for label in _ADDRESSES:
        column = getattr(data, label)
        if column is not None:
            found, places = hexadecimal(column)
            iids = np.array([strings.setdefault(t, len(strings) + 1) if t else 0 for t in found], np.uint32)
            event.append(_annotation(label, Varint(17, iids[places]), column > 0))
    if data.attributes is not None:
        entries, there = _objects(data.attributes, strings)
        event.append(_annotation("attributes", Varint(17, entries), there))
    # Not `terminating`: all kernels of a graph launch share one flow.
    flows = (column for column in (data.flow, data.waited, data.waits) if column is not None)
    event.extend(Fixed64(47, column, column != 0) for column in flows)
    end: Part = ConstantPart(text(11, number(9, _END)))
    if data.arrows is not None:
        event.extend(_arrow(data.arrows[:, place]) for place in (BEGIN_IN, BEGIN_OUT))
        outward = (_arrow(data.arrows[:, place]) for place in (END_IN, END_OUT))
        end = Message(11, [ConstantPart(number(9, _END)), *outward])
    interned += _interned_names(29, strings)
    last = np.concatenate([[origin], data.end[:-1]])
    common = number(10, sequence) + number(13, _NEEDED)
    return _begin_sequence(sequence, data.track, origin, interned), [
        Message(1, [Varint(8, data.start - last), ConstantPart(common), Message(11, event)]),
        Message(1, [Varint(8, data.end - data.start), ConstantPart(common), end]),
    ]


def _arrow(column: Column) -> Fixed64:
    """An arrow's end, if there is one. Viewers connect events with the same number in time order."""
    return Fixed64(47, column, column != 0)


def _category(column: Column) -> list[Part]:
    return [ConstantPart(number(3, 1))] if len(column) and int(column.max()) == 1 else [Varint(3, column)]


def _annotation(label: str, value: Part, present: Column) -> Message:
    return Message(4, [ConstantPart(number(1, _ANNOTATION[label])), value], present)


def _strings(column: Column, lookup: Mapping[int, str], strings: dict[str, int]) -> Column:
    """Ids of a column's strings, which are added to the sequence's interned strings if missing; null gives 0."""
    values, rank = _by_frequency(column)
    iids = np.zeros(len(values) + 1, np.uint32)
    for i, value in enumerate(values, 1):
        if value > 0:
            iids[i] = strings.setdefault(lookup.get(int(value), "?"), len(strings) + 1)
    return iids[rank]


def _objects(column: Column, strings: dict[str, int]) -> tuple[Column, Column]:
    """Ids of rows' attributes as interned JSON objects, and which rows have any."""
    import pyarrow as pa

    coded = pa.array(column, pa.string()).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    iids = np.array([strings.setdefault(f"{{{t}}}", len(strings) + 1) if t else 0 for t in texts], np.uint32)
    found: Column = iids[coded.indices.to_numpy()]
    return found, found > 0


def counter(sequence: int, data: CounterTrack, origin: int) -> tuple[bytes, list[Part]]:
    """The start of the sequence, and the parts of one sample; whole numbers are written as integers."""
    whole = data.value.astype(np.int64) if bool((np.abs(data.value) < 2**53).all()) else None
    value: Part = Fixed64(44, data.value.astype(np.float64))
    if whole is not None and bool((whole == data.value).all()) and bool((whole >= 0).all()):
        value = Varint(30, whole)
    last = np.concatenate([[origin], data.time[:-1]])
    common = number(10, sequence) + number(13, _NEEDED)
    return _begin_sequence(sequence, data.track, origin), [
        Message(
            1,
            [
                Varint(8, data.time - last),
                ConstantPart(common),
                Message(11, [ConstantPart(number(9, _COUNTER)), value]),
            ],
        )
    ]

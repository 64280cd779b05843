"""The event section as columns: found, decoded and encoded without a loop over events.

The start of an event is known only once the previous event has been read. :func:`starts` walks from many guesses at once, each
the first place from which a number of events with known types and flags follow. A walk with a wrong guess is repeated from the
end of the previous walk, until each walk begins where the previous one ends: then all are correct.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.formats import varint
from warpsight.formats.varint import Column
from warpsight_plugins.sbt import layout

#: Bytes of the event section that are decoded at once.
WINDOW_BYTES = 1 << 20
#: Windows of fewer numbers are walked event by event.
_SMALL = 1 << 16
_LANES = 256
_ROUNDS = 8
#: Where a lane's first event is looked for (in numbers), and how many events must follow it.
_GUESS_NUMBERS = 128
_GUESS_EVENTS = 24
_KNOWN = np.isin(np.arange(256), list(layout.EVENT_TYPES))
#: Marks a step that ends where a stack begins.
_STACKED = 0x80

_FLAGS = np.arange(256)
#: Numbers of an event before its stack, by its flags.
_NUMBERS = (
    5
    + (_FLAGS & layout.DURATION > 0)
    + 8 * (_FLAGS & layout.KERNEL > 0)
    + 3 * (_FLAGS & layout.MEMORY > 0)
    + _STACKED * (_FLAGS & layout.STACK > 0)
).astype(np.uint8)
#: By type and flags as one number: how many numbers an event takes before its stack; a byte below 128 is one of them.
_PAIRS = np.arange(1 << 16)
_STEP = (
    _NUMBERS[_PAIRS >> 8] + (_PAIRS & 0xFF < 0x80).astype(np.uint8) + (_PAIRS >> 8 < 0x80).astype(np.uint8)
)

#: By bytes of a number: the bits that are its own.
_LOW_BITS = np.array([((1 << 8 * i) - 1) & 0x7F7F7F7F7F7F7F7F for i in range(9)], np.uint64)
_MOVES = tuple(
    (np.uint64(shift), np.uint64(low), np.uint64(high))
    for shift, low, high in (
        (1, 0x007F007F007F007F, 0x7F007F007F007F00),
        (2, 0x00003FFF00003FFF, 0x3FFF00003FFF0000),
        (4, 0x000000000FFFFFFF, 0x0FFFFFFF00000000),
    )
)


@dataclass
class SbtEvents:
    """Some events in file order.

    `time`, `duration` and `correlation` are uint64[n]; `kernel` (uint64[k, 8]) belongs to events `kernel_rows`,
    `memory` (uint64[m, 3]) to `memory_rows`, and so on. `stack` indexes `blobs`: frame count and frames as the file
    has them.
    """

    kind: Column
    flags: Column
    time: Column
    duration: Column
    device: Column
    stream: Column
    correlation: Column
    name: Column
    kernel_rows: Column
    kernel: Column
    memory_rows: Column
    memory: Column
    stack_rows: Column
    stack_thread: Column
    stack: Column
    blobs: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of events."""
        return len(self.kind)

    def take(self, rows: Column) -> SbtEvents:
        """Some of the events, in the order of `rows` (which must be ascending)."""
        if len(rows) == len(self):
            return self
        place = np.full(len(self), -1, np.int64)
        place[rows] = np.arange(len(rows))
        kernel, memory, stack = place[self.kernel_rows], place[self.memory_rows], place[self.stack_rows]
        has = kernel >= 0, memory >= 0, stack >= 0
        own = (
            self.kind,
            self.flags,
            self.time,
            self.duration,
            self.device,
            self.stream,
            self.correlation,
            self.name,
        )
        blocks = (kernel[has[0]], self.kernel[has[0]], memory[has[1]], self.memory[has[1]])
        stacks = (stack[has[2]], self.stack_thread[has[2]], self.stack[has[2]])
        columns: list[Any] = [*(column[rows] for column in own), *blocks, *stacks, self.blobs]
        return SbtEvents(*columns)

    def followed_by(self, other: SbtEvents) -> SbtEvents:
        """These events followed by others."""
        here = len(self)
        shifts = {"kernel_rows": here, "memory_rows": here, "stack_rows": here, "stack": len(self.blobs)}
        columns = {
            f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name) + shifts.get(f.name, 0)])
            for f in fields(self) if f.name not in ("blobs", "kind", "flags")
        }  # fmt: skip
        columns |= {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("kind", "flags")
        }
        return SbtEvents(**columns, blobs=[*self.blobs, *other.blobs])


def nothing() -> SbtEvents:
    """No events."""
    byte, none, place = np.empty(0, np.uint8), np.empty(0, np.uint64), np.empty(0, np.int64)
    kernel, memory = np.empty((0, 8), np.uint64), np.empty((0, 3), np.uint64)
    columns: list[Any] = [byte, byte, *[none] * 6, place, kernel, place, memory, place, none, place]
    return SbtEvents(*columns)


class _EventBytes:
    """Some bytes of the event section as numbers, and how to get from one event to the next.

    Type and flags are single bytes, which look like numbers as long as they are below 128; an event is known by the
    place of the number that it begins with.
    """

    def __init__(self, data: Column) -> None:
        """Find and decode every number in `data` (uint8)."""
        self.data = np.zeros(len(data) + 8, np.uint8)
        self.data[: len(data)] = data
        self.last = np.flatnonzero(data < 0x80)
        self.begin = np.zeros(len(self.last), np.int64)
        np.add(self.last[:-1], 1, out=self.begin[1:])
        self.size = self.last - self.begin + 1
        self.value = self.data[self.last].astype(np.uint64)
        rows = np.flatnonzero(self.size > 1)
        self.value[rows] = _joined(self.data, self.begin[rows], self.size[rows])
        #: The two bytes from each place on, as one number: type and flags, where an event begins.
        self.pair = np.ndarray((len(data) + 1,), "<u2", self.data, strides=(1,))

    def heads(self, at: Column) -> tuple[Column, Column]:
        """Type and flags of the events that start at the given numbers."""
        first = self.begin[at]
        return self.data[first], self.data[first + 1]

    def after(self, at: Column) -> Column:
        """The index of the number that starts the next event; -1 if the window lacks part of the event."""
        count = len(self.last)
        step = _STEP[self.pair[self.begin[at]]]
        onward: Column = at + (step & 0x7F)
        stacked = np.flatnonzero(step & _STACKED)
        if len(stacked):
            first = onward[stacked]
            inside = first + 1 < count
            frames = self.value[np.where(inside, first + 1, 0)]
            # A number of frames that the window cannot hold is not multiplied: it may be anything.
            inside &= frames < np.uint64(count)
            onward[stacked] = first + 2 + 4 * np.where(inside, frames, 0).astype(np.int64)
            onward[stacked[~inside]] = -1
        onward[onward > count] = -1
        return onward

    def check(self, count: int) -> None:
        """Raise :class:`varint.Overlong` when one of the first `count` numbers takes more than ten bytes."""
        if len(self.size[:count]) and int(self.size[:count].max()) > varint.LONGEST + 2:
            raise varint.Overlong(int(self.begin[int(np.argmax(self.size[:count]))]))


def _joined(data: Column, begin: Column, size: Column) -> Column:
    """The numbers in `size` bytes starting at `begin`, modulo 2^64; `data` has eight more bytes after the last one."""
    # Eight bytes at once: their groups of seven bits move together in pairs, then pairs of pairs.
    value: Column = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))[begin]
    value &= _LOW_BITS[np.minimum(size, 8)]
    high = np.empty_like(value)
    for shift, low_mask, high_mask in _MOVES:
        np.bitwise_and(value, high_mask, out=high)
        high >>= shift
        value &= low_mask
        value |= high
    for place in (8, 9):
        rows = np.flatnonzero(size > place)
        byte = data[begin[rows] + place] & np.uint8(0x7F)
        value[rows] |= byte.astype(np.uint64) << np.uint64(7 * place)
    return value


def starts(window: _EventBytes, limit: int) -> tuple[Column, int]:
    """The index of the number that starts each of the first `limit` events, and of the one after them.

    Events only partly in the window are left out.
    """
    numbers = len(window.last)
    found = _one_by_one(window, 0, limit) if numbers < _SMALL else _together(window, limit)
    return found, int(window.after(found[-1:])[0]) if len(found) else 0


def _together(window: _EventBytes, limit: int) -> Column:
    numbers = len(window.last)
    edges = np.linspace(0, numbers, _LANES + 1).astype(np.int64)
    entry, ends = _guesses(window, edges[:-1]), edges[1:]
    exits = np.full(_LANES, -1, np.int64)
    visited: list[Column] = [np.empty(0, np.int64)] * _LANES
    changed = np.arange(_LANES)
    for _ in range(_ROUNDS):
        _walk_lanes(window, changed, entry, ends, exits, visited)
        # A walk that failed, or skipped the whole next part, cannot be used for the next part until it is verified.
        sure = (exits[:-1] >= 0) & (exits[:-1] < ends[1:])
        expected = np.concatenate([entry[:1], np.where(sure, exits[:-1], entry[1:])])
        changed = np.flatnonzero(expected != entry)
        if not len(changed):
            break
        entry = expected
    joined = np.concatenate([exits[:-1] == entry[1:], [False]])
    true = int(np.argmin(joined))
    if len(changed):  # not walked from their new entries
        true = min(true, int(changed[0]) - 1)
    found = np.concatenate(visited[: true + 1])
    if 0 <= exits[true] < numbers and len(found) < limit:
        found = np.concatenate([found, _one_by_one(window, int(exits[true]), limit - len(found))])
    return found[:limit]


def _guesses(window: _EventBytes, begins: Column) -> Column:
    """For each position, the first one at or after it that looks like the start of an event; the first position is one."""
    numbers = len(window.last)
    place = (begins[:, None] + np.arange(_GUESS_NUMBERS)).ravel()
    place = at = place[place < numbers]
    for _ in range(_GUESS_EVENTS):
        kind, flags = window.heads(at)
        plausible = _KNOWN[kind] & (flags < 16)
        place, onward = place[plausible], window.after(at[plausible])
        going = (onward >= 0) & (onward < numbers)
        place, at = place[going], onward[going]
    if not len(place):
        return begins
    found = place[np.minimum(np.searchsorted(place, begins), len(place) - 1)]
    near = (found >= begins) & (found < begins + _GUESS_NUMBERS)
    guess: Column = np.where(near, found, begins)
    guess[0] = begins[0]
    return guess


def _walk_lanes(
    window: _EventBytes, lanes: Column, entry: Column, ends: Column, exits: Column, visited: list[Column]
) -> None:
    """Walk each of `lanes` from its entry to the end of its part; -1 in `exits` for a lane that got stuck.

    A walk that is repeated goes on only until it meets the one before: from there both are the same.
    """
    met = np.zeros(len(window.last), bool)
    met[np.concatenate([visited[lane] for lane in lanes.tolist()])] = True
    at = entry[lanes].copy()
    going = np.flatnonzero(at < ends[lanes])
    passed: list[Column] = []
    owners: list[Column] = []
    while len(going):
        here = at[going]
        fresh = ~met[here]
        if not fresh.all():
            going, here = going[fresh], here[fresh]
        onward = window.after(here)
        whole = onward >= 0
        passed.append(here[whole])
        owners.append(going[whole])
        at[going] = onward
        going = going[whole & (onward < ends[lanes[going]])]
    if passed:
        places, owner = np.concatenate(passed), np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        pieces = np.split(places[order], np.cumsum(np.bincount(owner, minlength=len(lanes)))[:-1])
    else:
        pieces = [np.empty(0, np.int64)] * len(lanes)
    for lane, piece, end in zip(lanes.tolist(), pieces, at.tolist(), strict=True):
        if 0 <= end < ends[lane]:
            rest = visited[lane]
            visited[lane] = np.concatenate([piece, rest[np.searchsorted(rest, end) :]])
        else:
            visited[lane], exits[lane] = piece, end


def _one_by_one(window: _EventBytes, at: int, limit: int) -> Column:
    """The plain walk, for little data, and for data crafted so that guesses never synchronize."""
    found: list[int] = []
    step = _STEP[window.pair[window.begin]].tolist()
    value, numbers = window.value.tolist(), len(window.last)
    while len(found) < limit and 0 <= at < numbers:
        onward = at + (step[at] & 0x7F)
        if step[at] & _STACKED:
            if onward + 1 >= numbers:
                break
            onward += 2 + 4 * value[onward + 1]
        if onward > numbers:
            break
        found.append(at)
        at = onward
    return np.array(found, np.int64)


def decode(window: _EventBytes, at: Column, previous: int) -> SbtEvents:
    """The columns of the events that start at the given numbers; `previous` is the time before the first."""
    value = window.value
    kind, flags = window.heads(at)
    cursor = at + (kind < 0x80) + (flags < 0x80)
    delta = value[cursor]
    odd = np.flatnonzero(flags >= 0x80)  # the byte runs into the first number
    if len(odd):
        delta[odd] = varint.decode(window.data, window.begin[at[odd]] + 2)[0]
    if len(at):
        delta[:1] += np.uint64(previous & 0xFFFF_FFFF_FFFF_FFFF)  # a sum of arrays wraps without a warning
    cursor += 1
    duration = np.zeros(len(at), np.uint64)
    timed = np.flatnonzero(flags & layout.DURATION)
    duration[timed] = value[cursor[timed]]
    cursor[timed] += 1
    narrow = np.uint64(0xFFFF_FFFF)
    device, stream, correlation, name = (value[cursor + i] for i in range(4))
    cursor += 4
    kernel_rows, kernel = _block(value, cursor, flags & layout.KERNEL, len(layout.KERNEL_FIELDS))
    memory_rows, memory = _block(value, cursor, flags & layout.MEMORY, len(layout.MEMORY_FIELDS))
    stack_rows = np.flatnonzero(flags & layout.STACK)
    first = cursor[stack_rows]
    thread, frames = value[first], value[first + 1].astype(np.int64)
    stack, blobs = _blobs(window.data, window.begin[first + 1], window.last[first + 1 + 4 * frames] + 1)
    return SbtEvents(
        kind, flags, np.cumsum(delta, dtype=np.uint64), duration, device & narrow, stream & narrow, correlation,
        name & narrow, kernel_rows, kernel & narrow, memory_rows, memory, stack_rows, thread, stack, blobs,
    )  # fmt: skip


def _block(value: Column, cursor: Column, flagged: Column, width: int) -> tuple[Column, Column]:
    """The `width` numbers of the flagged events; advances `cursor` past them."""
    rows = np.flatnonzero(flagged)
    at = cursor[rows]
    cursor[rows] += width
    return rows, value[at[:, None] + np.arange(width)]


def _blobs(data: Column, begin: Column, end: Column) -> tuple[Column, list[bytes]]:
    """Distinct stacks as bytes, and the index of every event's stack."""
    if not len(begin):
        return np.empty(0, np.int64), []
    counts = end - begin
    flat = data[varint.ragged(begin, counts)]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(flat)]
    array = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(begin), buffers).dictionary_encode()
    return array.indices.to_numpy().astype(np.int64), array.dictionary.to_pylist()


def read(data: Column, at: int, end: int, base: int, count: int) -> Iterator[tuple[SbtEvents, int]]:
    """All events of a file from byte `at`, window by window, with the position after each window's last event.

    If the data ends early, so does this, without an error: the caller compares the number of events.

    Raises:
        varint.Overlong: for a number of more than ten bytes; its offset counts from the start of the file.
    """
    previous, wide = base, WINDOW_BYTES
    while count > 0 and at < end:
        window = _EventBytes(np.ascontiguousarray(data[at : min(at + wide, end)]))
        found, following = starts(window, count)
        if not len(found):
            if at + wide >= end:
                return
            wide *= 4  # one stack of many frames
            continue
        try:
            window.check(following)
            events = decode(window, found, previous)
        except varint.Overlong as error:
            raise varint.Overlong(at + error.offset) from None
        at += int(window.last[following - 1]) + 1
        count, wide = count - len(events), WINDOW_BYTES
        previous = int(events.time[-1])
        yield events, at


def encode(events: SbtEvents, previous: int) -> bytes:
    """The bytes of events; `previous` is the time before the first."""
    rows = len(events)
    times = np.concatenate([np.array([previous & 0xFFFF_FFFF_FFFF_FFFF], np.uint64), events.time])
    every = np.arange(rows)
    fields = [(every, times[1:] - times[:-1])]
    timed = np.flatnonzero(events.flags & layout.DURATION)
    fields.append((timed, events.duration[timed]))
    fields += [(every, c) for c in (events.device, events.stream, events.correlation, events.name)]
    fields += [(events.kernel_rows, c) for c in events.kernel.T]
    fields += [(events.memory_rows, c) for c in events.memory.T]
    fields.append((events.stack_rows, events.stack_thread))
    sizes = [varint.lengths(values) for _, values in fields]
    total = np.full(rows, 2, np.int64)
    for (place, _), size in zip(fields, sizes, strict=True):
        total[place] += size
    lengths = np.array([len(blob) for blob in events.blobs], np.int64)
    carried = lengths[events.stack] if len(events.stack_rows) else np.empty(0, np.int64)
    total[events.stack_rows] += carried
    ends = np.cumsum(total)
    cursor = ends - total
    out = np.empty(int(ends[-1]) if rows else 0, np.uint8)
    out[cursor], out[cursor + 1] = events.kind, events.flags
    cursor += 2
    for (place, values), size in zip(fields, sizes, strict=True):
        at = cursor[place]
        varint.encode_into(out, at, values, size)
        cursor[place] = at + size
    if len(events.stack_rows):
        flat = np.frombuffer(b"".join(events.blobs), np.uint8)
        begins = np.cumsum(lengths) - lengths
        source = varint.ragged(begins[events.stack], carried)
        out[varint.ragged(cursor[events.stack_rows], carried)] = flat[source]
    return out.tobytes()

"""Ranges: pushes paired with pops per thread and domain, starts with ends by id, across segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture import layout
from warpsight.capture.columns import Nullable, enumerated, zero_is_null
from warpsight.capture.segment import DTYPES, Batch

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_PUSH, _POP, _START, _END, _INSTANT = 1, 2, 3, 4, 5
_SOURCES = {1: "nvtx", 2: "annotate", 3: "framework"}
_KINDS = {_PUSH: "push/pop", _START: "start/end", _INSTANT: "instant"}


@dataclass
class OpenRanges:
    """Rows of ranges that began and have not ended, in the order they began."""

    rows: Array
    thread: Array

    @classmethod
    def none(cls) -> OpenRanges:
        """No ranges."""
        return cls(np.zeros(0, DTYPES[layout.BY_NAME["Marker"].kind]), np.zeros(0, np.int32))


def convert(arena: Arena, batch: Batch, final: bool) -> None:
    """Write what is complete and keep what is open; `final`: what is open is written as such."""
    rows = np.concatenate([arena.open_ranges.rows, batch.rows])
    thread = np.concatenate([arena.open_ranges.thread, batch.thread])
    if not len(rows):
        return
    phase = rows["phase"]
    pushed, popped, depth, unmatched = pair_nested(
        rows, thread, np.flatnonzero((phase == _PUSH) | (phase == _POP))
    )
    started, ended, unmatched_ends = pair_by_id(rows, np.flatnonzero((phase == _START) | (phase == _END)))
    if unmatched + unmatched_ends:
        arena.loss.count(
            "converter",
            "a range ended that had not begun in the recording",
            unmatched + unmatched_ends,
            "marker",
            "note",
        )
    instants = np.flatnonzero(phase == _INSTANT)
    begin = np.concatenate([pushed, started, instants])
    end = np.concatenate([popped, ended, np.full(len(instants), -1)])
    level = np.concatenate([depth, np.full(len(started) + len(instants), -1)])
    still_open = (end < 0) & (phase[begin] != _INSTANT)
    if not final:
        kept = np.sort(begin[still_open])
        arena.open_ranges = OpenRanges(rows[kept].copy(), thread[kept].copy())
        begin, end, level = begin[~still_open], end[~still_open], level[~still_open]
        still_open = np.zeros(len(begin), bool)
    else:
        arena.open_ranges = OpenRanges.none()
    _write(arena, rows, thread, begin, end, level, still_open)


def pair_nested(rows: Array, thread: Array, chosen: Array) -> tuple[Array, Array, Array, int]:
    """Match pushes with pops in each (thread, domain, source).

    Returns the rows of the pushes, the row of each one's pop (-1: still open), the depth of each from 0, and
    the number of pops without a push. The depth is counted here: a recording may begin inside ranges.
    """
    if not len(chosen):
        return _none()
    key = np.stack(
        [
            thread[chosen].astype(np.int64),
            rows["domain"][chosen].astype(np.int64) << 16 | rows["source"][chosen],
        ]
    )
    _, group = np.unique(key, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    chosen, group = chosen[order], group.ravel()[order]
    push = rows["phase"][chosen] == _PUSH
    # Level of each group, from a running sum over all groups that is reset where a group begins, and lifted
    # by the pops that found nothing open: those are where the sum reaches a new low.
    first = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    step = np.where(push, 1, -1)
    total = np.cumsum(step)
    total -= np.repeat(total[first] - step[first], np.diff(np.r_[first, len(group)]))
    lowest = _running_minimum(np.minimum(total, 0), first)
    before = np.r_[0, lowest[:-1]]
    before[first] = 0
    stray = ~push & (lowest < before)
    level = total - lowest - push  # of a push: ranges open around it; of a pop: ranges open after it
    chosen, group, level, push = chosen[~stray], group[~stray], level[~stray], push[~stray]
    order = np.lexsort((np.arange(len(group)), level, group))
    return (*_neighbours(chosen[order], push[order], group[order], level[order]), int(stray.sum()))


def _running_minimum(values: Array, first: Array) -> Array:
    """Running minimum that begins anew at each index in `first`; values are at most 0."""
    span = int(-values.min(initial=0)) + 1
    group = np.zeros(len(values), np.int64)
    group[first] = 1
    offset = (np.cumsum(group) - 1) * span  # lowers every group below all before it
    return np.minimum.accumulate(values - offset) + offset


def _neighbours(chosen: Array, push: Array, group: Array, level: Array) -> tuple[Array, Array, Array]:
    """At one level of one group pushes and pops alternate: a push's pop is the next row."""
    follows = np.r_[(group[1:] == group[:-1]) & (level[1:] == level[:-1]) & push[:-1] & ~push[1:], False]
    at = np.flatnonzero(push)
    end = np.where(follows[at], chosen[np.minimum(at + 1, len(chosen) - 1)], -1)
    return chosen[at], end, level[at]


def pair_by_id(rows: Array, chosen: Array) -> tuple[Array, Array, int]:
    """Match starts with ends by id; an id that is used again starts a new range."""
    if not len(chosen):
        begin, end, _, unmatched = _none()
        return begin, end, unmatched
    is_start = rows["phase"][chosen] == _START
    order = np.lexsort((~is_start, rows["time"][chosen], rows["id"][chosen]))
    chosen, is_start = chosen[order], is_start[order]
    number = rows["id"][chosen]
    begin, end, _ = _neighbours(chosen, is_start, number, np.zeros(len(chosen), np.int64))
    return begin, end, int((~is_start).sum() - (end >= 0).sum())


def _none() -> tuple[Array, Array, Array, int]:
    nothing = np.zeros(0, np.int64)
    return nothing, nothing, nothing, 0


def _write(
    arena: Arena, rows: Array, thread: Array, begin: Array, end: Array, level: Array, still_open: Array
) -> None:
    if not len(begin):
        return
    chosen = rows[begin]
    start = chosen["time"].astype(np.int64)
    duration = np.where(end >= 0, rows["time"][end].astype(np.int64) - start, 0)
    arena.emit(
        "marker",
        len(begin),
        {
            "start": start,
            "duration": Nullable(duration, end < 0),
            "kind": enumerated(chosen["phase"], _KINDS),
            "open": still_open,
            "name_id": zero_is_null(arena.local.names(chosen["name"])),
            "domain": arena.local.texts(chosen["domain"]),
            "category": arena.local.texts(chosen["category"]),
            "color": zero_is_null(chosen["color"]),
            "payload": payload(chosen),
            "depth": Nullable(level, level < 0),
            "source": enumerated(chosen["source"], _SOURCES),
            "stack": zero_is_null(arena.local.stacks(chosen["stack"])),
            "attributes": arena.local.texts(chosen["attributes"]),
            "thread": thread[begin],
            "process": arena.process_id(),
        },
    )


def payload(rows: Array) -> Nullable:
    """Payload bits as numbers, by nvtxPayloadType: 1 u64, 2 i64, 3 f64, 4 u32, 5 i32, 6 f32."""
    raw = np.ascontiguousarray(rows["payload"])
    kind = rows["payload_type"]
    low = raw.astype(np.uint32)
    forms = {
        1: raw,
        2: raw.view(np.int64),
        3: raw.view(np.float64),
        4: low,
        5: low.view(np.int32),
        6: low.view(np.float32),
    }
    values = np.select([kind == k for k in forms], [v.astype(np.float64) for v in forms.values()], 0.0)
    return Nullable(values, (kind < 1) | (kind > 6))

"""Ranges: pushes paired with pops per thread and domain, starts with ends by id, across segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.columns import Nullable, enumerated, zero_is_null
from warpsight.capture.rows import torch_ops
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import DTYPES, Batch

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Array = npt.NDArray[Any]
_PUSH, _POP, _START, _END, _INSTANT = 1, 2, 3, 4, 5
#: Placeholders for the row of a range's end.
WAITING, LOST = -1, -2
_SOURCES = {1: "nvtx", 2: "annotate", 3: "framework", 4: "roctx", 5: "profiler", 6: "openacc", 7: "openmp"}
_KINDS = {_PUSH: "push/pop", _START: "start/end", _INSTANT: "instant"}


@dataclass
class OpenRanges:
    """Rows of ranges that have begun but not ended, in the order they began."""

    rows: Array
    thread: Array

    @classmethod
    def none(cls) -> OpenRanges:
        """No ranges."""
        return cls(np.zeros(0, DTYPES[layout.BY_NAME["Marker"].kind]), np.zeros(0, np.int32))


def convert(arena: Arena, batch: Batch, final: bool) -> None:
    """Write complete ranges and keep open ones; with `final`, write open ones too."""
    rows = np.concatenate([arena.open_ranges.rows, batch.rows])
    thread = np.concatenate([arena.open_ranges.thread, batch.thread])
    if not len(rows):
        return
    phase = rows["phase"]
    pushed, popped, strays = pair_nested(rows, thread, np.flatnonzero((phase == _PUSH) | (phase == _POP)))
    started, ended, stray_ends = _pair_by_id(rows, np.flatnonzero((phase == _START) | (phase == _END)))
    cause = "a range ended that had not begun in the recording"
    arena.loss.count("converter", cause, strays + stray_ends, "marker", "note")
    instants = np.flatnonzero(phase == _INSTANT)
    begin = np.concatenate([pushed, started, instants])
    end = np.concatenate([popped, ended, np.full(len(instants), WAITING)])
    waits = (end == WAITING) & (phase[begin] != _INSTANT)
    arena.open_ranges = OpenRanges.none()
    if not final and waits.any():
        kept = np.sort(begin[waits])
        arena.open_ranges = OpenRanges(rows[kept].copy(), thread[kept].copy())
        begin, end = begin[~waits], end[~waits]
    _write(arena, rows, thread, begin, end)


def pair_nested(rows: Array, thread: Array, chosen: Array) -> tuple[Array, Array, int]:
    """Match pushes with pops of the same depth in each (thread, domain, source).

    Returns the rows of the pushes, the row of each one's pop (WAITING: not yet; LOST: another range began at its depth first) and
    the number of pops without a push. The program itself reports the depth, so a lost row affects only its own range.
    """
    keys = [thread[chosen], *(rows[name][chosen] for name in ("domain", "source", "id"))]
    order = np.lexsort(keys[::-1])  # stable: in the order of time within one depth
    return _pair(chosen[order], rows["phase"][chosen][order] == _PUSH, [key[order] for key in keys])


def _pair_by_id(rows: Array, chosen: Array) -> tuple[Array, Array, int]:
    """Match starts with ends by id, on any thread; a reused id starts a new range."""
    begins = rows["phase"][chosen] == _START
    order = np.lexsort((~begins, rows["time"][chosen], rows["id"][chosen]))
    return _pair(chosen[order], begins[order], [rows["id"][chosen][order]])


def _pair(chosen: Array, begins: Array, keys: list[Array]) -> tuple[Array, Array, int]:
    """Among rows with equal keys, each range ends with the row after its start."""
    same = np.ones(max(len(chosen) - 1, 0), bool)
    for key in keys:
        same &= key[1:] == key[:-1]
    at = np.flatnonzero(begins)
    following = np.minimum(at + 1, len(chosen) - 1)
    continued = np.append(same, False)[at]
    matched = continued & ~begins[following]
    end = np.where(matched, chosen[following], np.where(continued, LOST, WAITING))
    return chosen[at], end, int((~begins).sum() - matched.sum())


def _write(arena: Arena, rows: Array, thread: Array, begin: Array, end: Array) -> None:
    if not len(begin):
        return
    chosen = rows[begin]
    start = chosen["time"].astype(np.int64)
    duration = Nullable(np.where(end >= 0, rows["time"][end].astype(np.int64) - start, 0), end < 0)
    others = ~torch_ops.take(arena, chosen, duration, thread[begin])
    if not others.all():
        begin, end, chosen, start = begin[others], end[others], chosen[others], start[others]
        duration = duration.take(others)
    if not len(begin):
        return
    arena.emit(
        "marker",
        len(begin),
        start=start,
        duration=duration,
        kind=enumerated(chosen["phase"], _KINDS),
        open=(end < 0) & (chosen["phase"] != _INSTANT),
        name_id=zero_is_null(arena.local.names(chosen["name"])),
        domain=arena.local.texts(chosen["domain"]),
        category=arena.local.texts(chosen["category"]),
        color=zero_is_null(chosen["color"]),
        payload=payload(chosen),
        depth=Nullable(chosen["id"].astype(np.int32), chosen["phase"] != _PUSH),
        source=enumerated(chosen["source"], _SOURCES),
        stack=zero_is_null(arena.local.callers(chosen["stack"])),
        attributes=arena.local.texts(chosen["attributes"]),
        thread=thread[begin],
        process=arena.process_id(),
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

"""Checks whether device and host clocks agree: launches must come before kernels, kernels must end before the waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena
    from warpsight.capture.segments.segment import RecordColumns

Array = npt.NDArray[Any]
_STREAM_SYNC, _CONTEXT_SYNC = 3, 4


def launches(arena: Arena, device: Array, start: Array, called: Array, lost: Array | None) -> None:
    """Count kernels that start before the call that launched them, per device."""
    early = (start < called) & (called > 0)
    if lost is not None:
        early &= ~lost
    if not early.any():
        return
    for number in np.unique(device[early]).tolist():
        chosen = early & (device == number)
        lead = int((called[chosen] - start[chosen]).max())
        arena.loss.count(
            "clock",
            f"kernels of device {arena.device(number)} start before their launch call",
            int(chosen.sum()),
            "kernel",
            "note",
            start=int(start[chosen].min()),
            end=int(start[chosen].max()),
            worst=lead,
        )


def note_kernels(arena: Arena, rows: RecordColumns, start: Array, duration: Array) -> None:
    """Keep this segment's kernels for :func:`syncs`, but only if it has waits to compare them with."""
    if arena.checks_syncs:
        arena.checked_kernels.append((rows["context"], rows["stream"], start, start + duration))


def syncs(arena: Arena, rows: Array) -> None:
    """Count waits that ended before a kernel of their stream or context that was running when they began."""
    if not arena.checked_kernels or not len(rows):
        return
    context, stream, start, end = (np.concatenate(c) for c in zip(*arena.checked_kernels, strict=True))
    arena.checked_kernels.clear()
    for number in np.unique(rows["context"]).tolist():
        mine = context == number
        waits = rows[(rows["context"] == number) & (rows["result"] == 0)]
        bad = _violations(start[mine], end[mine], waits[waits["type"] == _CONTEXT_SYNC])
        single = waits[waits["type"] == _STREAM_SYNC]
        streams = np.unique(single["stream"]).tolist()
        for which in streams if len(streams) <= 64 else ():
            chosen = mine & (stream == which)
            bad += _violations(start[chosen], end[chosen], single[single["stream"] == which])
        if bad:
            arena.loss.count(
                "clock", f"kernels of context {number} end after the wait for them ended", bad, "sync", "note"
            )


def _violations(start: Array, end: Array, waits: Array) -> int:
    """Waits that ended before the last end of the kernels that started before them."""
    if not len(start) or not len(waits):
        return 0
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    last = np.maximum.accumulate(end)
    before = np.searchsorted(start, waits["start"].astype(np.int64), "left") - 1
    known = before >= 0
    return int((last[before[known]] > waits["end"].astype(np.int64)[known]).sum())

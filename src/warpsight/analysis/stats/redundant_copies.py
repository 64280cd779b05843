"""Copies that moved the same bytes again although the trace shows no write in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.base.result import Finding
from warpsight.analysis.base.tables import table
from warpsight.model.selection import Rows
from warpsight.model.work import matches, numbered, split

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: Placeholder for an address that was not recorded.
NO_ADDRESS = (1 << 64) - 1
_ENDS = {
    "process": 0,
    "start": 0,
    "duration": 0,
    "bytes": 0,
    "source_address": NO_ADDRESS,
    "destination_address": NO_ADDRESS,
}
_SPEC = """process:int32 device:int16 kind:string source:uint64 destination:uint64 size:int64:B count:int64 bytes:int64:B
    time:int64:ns"""


def redundant(trace: StoredTrace, rows: Rows = _ALL) -> tuple[pa.Table, tuple[Finding, ...]]:
    """Copies that repeat an earlier one of the process: source, destination and size are the same.

    No copy or set in between wrote to any byte of either. Writes by kernels and the host are not recorded, so these are only
    candidates: a copy of input that changes each step is not redundant.

    Returns:
        One row per source, destination and size: `count` copies that could be saved, their bytes and time; and a finding if
        addresses are missing.
    """
    columns, texts = trace.columns("memcpy", {**_ENDS, "device": -1, "stream": -1}, ["kind"])
    keep = rows.mask(columns)
    if rows.name is not None:
        fits = [matches(trace, f"memcpy {kind}", rows.name) for kind in texts["kind"]]
        keep &= np.array([*fits, False])[columns["kind"]]
    total = int(keep.sum())
    keep &= (
        (columns["source_address"] != NO_ADDRESS)
        & (columns["destination_address"] != NO_ADDRESS)
        & (columns["bytes"] > 0)
    )
    c = _in_order({name: column[keep] for name, column in columns.items()})
    count = len(c["start"])
    notes: tuple[Finding, ...] = ()
    if count < total:
        have = "has no addresses: it" if total - count == 1 else "have no addresses: they"
        text = f"{total - count:,} of {total:,} copies {have} cannot be checked for redundancy"
        notes = (Finding("note", text, {"copies": total - count, "of": total}),)
    if not count:
        return table(_SPEC, []), notes
    process, start, size, source, target = (
        c[name] for name in ("process", "start", "bytes", "source_address", "destination_address")
    )
    pair, first = _repeats(process, size, source, target)
    clean = ~_written(trace, process, start, size, source, target, pair, first)
    kinds = [None if code < 0 else texts["kind"][code] for code in c["kind"].tolist()]
    return table(
        _SPEC, _grouped(pair[clean], kinds, (process, c["device"], source, target, size), c["duration"])
    ), notes


def _in_order(columns: dict[str, Column]) -> dict[str, Column]:
    order = np.lexsort((columns["start"], columns["process"]))
    return {name: column[order] for name, column in columns.items()}


def _repeats(process: Column, size: Column, source: Column, target: Column) -> tuple[Column, Column]:
    """Rows that repeat an earlier row, and that row (the last equal one); rows must be sorted by process and time."""
    code, _ = numbered([process, size, source.astype(np.int64), target.astype(np.int64)])
    order = np.argsort(code, kind="stable")
    again = np.flatnonzero(code[order][1:] == code[order][:-1]) + 1
    return order[again], order[again - 1]


def _written(
    trace: StoredTrace,
    process: Column,
    start: Column,
    size: Column,
    source: Column,
    target: Column,
    pair: Column,
    first: Column,
) -> Column:
    """For each pair, whether a copy or set in between wrote to memory that the pair read or wrote.

    Both are grouped by the range they touch, which are few; where ranges meet, the times are looked up in each other.
    """
    out = np.zeros(len(pair), bool)
    if not len(pair):
        return out
    wp, ws, wb, wa = _writes(trace)
    # Without processes' own address spaces in the way: one process after the other.
    for number in np.unique(process[pair]).tolist():
        mine, theirs = np.flatnonzero(process[pair] == number), wp == number
        writes = _Writes(ws[theirs], wb[theirs], wa[theirs])
        for address in (source, target):
            code, (sizes, addresses) = numbered([size[pair[mine]], address[pair[mine]].astype(np.int64)])
            for i, rows in enumerate(split(code, len(sizes))):
                chosen = mine[rows]
                between = (start[first[chosen]], start[pair[chosen]])
                out[chosen] |= writes.into(int(addresses[i]) % (1 << 64), int(sizes[i]), *between)
    return out


def _writes(trace: StoredTrace) -> tuple[Column, ...]:
    """Process, time, size and address of writes by copies and sets, by process and time."""
    fields = {"process": 0, "start": 0, "bytes": 0}
    parts = []
    for name, address in (("memcpy", "destination_address"), ("memset", "address")):
        columns, _ = trace.columns(name, {**fields, address: NO_ADDRESS})
        keep = (columns[address] != NO_ADDRESS) & (columns["bytes"] > 0)
        parts.append([columns[field][keep] for field in (*fields, address)])
    process, *rest = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((rest[0], process))
    return (process[order], *(column[order] for column in rest))


class _Writes:
    """Writes by the address range they wrote, sorted by address."""

    def __init__(self, time: Column, size: Column, address: Column) -> None:
        code, (sizes, addresses) = numbered([size, address.astype(np.int64)])
        low = addresses.astype(np.uint64)
        by_address = np.argsort(low, kind="stable")
        place = np.empty(len(low), np.int64)
        place[by_address] = np.arange(len(low))
        self._low, self._high = low[by_address], (low + sizes.astype(np.uint64))[by_address]
        self._longest = int(sizes.max(initial=0))
        order = np.lexsort((time, place[code]))
        self._times = time[order]
        self._edges = np.searchsorted(place[code][order], np.arange(len(low) + 1))

    def into(self, address: int, size: int, after: Column, before: Column) -> Column:
        """For each i, whether a write after `after[i]` and before `before[i]` went into [address, address + size)."""
        least = np.uint64(max(address - self._longest, 0))
        first = int(np.searchsorted(self._low, least, "left"))
        last = int(np.searchsorted(self._low, np.uint64(min(address + size, (1 << 64) - 1)), "left"))
        out = np.zeros(len(after), bool)
        for met in (np.flatnonzero(self._high[first:last] > np.uint64(address)) + first).tolist():
            times = self._times[self._edges[met] : self._edges[met + 1]]
            out |= np.searchsorted(times, before, "left") > np.searchsorted(times, after, "right")
        return out


def _grouped(
    chosen: Column, kinds: list[str | None], keys: tuple[Column, ...], duration: Column
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if not len(chosen):
        return found
    code, distinct = numbered([key[chosen].astype(np.int64) for key in keys])
    for places in split(code, len(distinct[0])):
        own = chosen[places]
        process, device, source, target, size = (key[own[0]].item() for key in keys)
        found.append({"process": process, "device": None if device < 0 else device, "kind": kinds[int(own[0])],
                      "source": source, "destination": target, "size": size, "count": len(own), "bytes": size * len(own),
                      "time": int(np.maximum(duration[own], 0).sum())})  # fmt: skip
    return sorted(found, key=lambda row: -row["time"])

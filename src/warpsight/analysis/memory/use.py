"""Memory: use over time, the peak and who held it, what was never freed, wrong frees, fragmentation, churn.

Every free is paired with the allocation of its address before it, within a family (:mod:`warpsight.model.allocators`).
Allocators built on one another (torch's caching allocator on cudaMalloc) are separate families, so nothing counts twice.
All times are the trace's: nothing depends on when the analysis runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ranges import open as ranges
from warpsight.model import work as device_work
from warpsight.model.allocators import family
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
NEVER = np.iinfo(np.int64).max
#: Holes larger than this between used addresses separate regions of the address map (B).
_REGION_GAP = 2 << 20
_USAGE = "time:int64:ns bytes:int64:B"


@dataclass(frozen=True)
class Allocations:
    """Allocations as columns, in time order; times in ns, sizes in B.

    Attributes:
        freed: Time of the free, :data:`NEVER` for none; an address allocated anew counts as freed then.
        place: Index into `places`: (process, device or -1, layer).
        double: Places and times of frees of what was already freed.
        unknown: Frees whose allocation is not in the trace: it was made before the recording, or never.
        reused: Allocations at an address that an earlier one still held: its free is missing.
        again: Allocations at an address that was used before.
    """

    time: Column
    freed: Column
    address: Column
    bytes: Column
    stack: Column
    thread: Column
    process: Column
    place: Column
    places: list[tuple[int, int, str]]
    double: list[tuple[int, int, int]]
    unknown: int
    reused: int
    again: int

    def __len__(self) -> int:
        return len(self.time)

    def alive(self, time: int) -> Column:
        """Indices of the allocations that are live just after a moment."""
        return np.flatnonzero((self.time <= time) & (self.freed > time))


def load(trace: StoredTrace, rows: Rows = _ALL) -> Allocations:
    """Pair allocations and frees. Rows that the time window excludes are still read: a free needs its allocation.

    Rows without an address (old profiles, frees of null) are ignored.
    """
    numbers = {
        "time": 0,
        "address": 0,
        "bytes": 0,
        "stack": 0,
        "device": -1,
        "process": 0,
        "thread": -1,
        "correlation": -1,
    }
    c, texts = trace.columns("memory", numbers, ["operation", "allocator"])
    operations = np.array([*texts["operation"], ""])
    c["made"] = (operations == "allocate")[c["operation"]]
    where = Rows(processes=rows.processes, devices=rows.devices)
    moved = (c["made"] | (operations == "free")[c["operation"]]) & (c["address"] != 0)
    keep = np.flatnonzero(moved & where.mask({**c, "start": c["time"]}))
    keep = keep[np.argsort(c["time"][keep], kind="stable")]
    c = {name: column[keep] for name, column in c.items()}
    for name in ("device", "process", "thread"):
        c[name] = c[name].astype(np.int64)
    _threads(trace, c)
    families = [family(text) for text in texts["allocator"]] + [family(None)]  # the last one means no text
    layers = list(dict.fromkeys(families))
    layer = np.array([layers.index(one) for one in families], np.int64)[c.pop("allocator")]
    return _paired(c, layer, layers)


def _threads(trace: StoredTrace, c: dict[str, Column]) -> None:
    """The thread of each event; where the event does not record it, the thread of the call that allocated or freed."""
    missing = np.flatnonzero((c["thread"] < 0) & (c["correlation"] >= 0))
    if not len(missing) or not trace.count("api"):
        return
    calls, texts = trace.columns("api", {"process": 0, "correlation": -1, "thread": -1}, ["function"])
    moves = np.array(["alloc" in name.lower() or "Free" in name for name in texts["function"]] + [False])
    mine = moves[calls["function"]]
    known = {(p, n): thread for p, n, thread in
             zip(*(calls[name][mine].tolist() for name in ("process", "correlation", "thread")), strict=True)}  # fmt: skip
    pairs = zip(c["process"][missing].tolist(), c["correlation"][missing].tolist(), strict=True)
    c["thread"][missing] = [known.get(pair, -1) for pair in pairs]


def _paired(c: dict[str, Column], layer: Column, layers: list[str]) -> Allocations:
    time, made, address, process = c["time"], c["made"].astype(bool), c["address"], c["process"]
    order = np.lexsort((np.arange(len(time)), time, address, layer, process))
    same = np.zeros(len(order), bool)
    if len(order) > 1:
        a, b = order[1:], order[:-1]
        same[1:] = (address[a] == address[b]) & (layer[a] == layer[b]) & (process[a] == process[b])
    allocated = made[order]
    before_made = np.r_[False, allocated[:-1]] if len(order) else same
    freed = np.full(len(time), NEVER)
    closes = same & before_made  # a free, or an allocation that took over the address
    at = np.flatnonzero(closes)
    freed[order[at - 1]] = time[order[at]]
    frees = ~allocated
    double = np.flatnonzero(frees & same & ~before_made)
    device = c["device"].copy()
    chosen = np.flatnonzero(made)
    place, distinct = device_work.numbered([process[chosen], device[chosen], layer[chosen]])
    places = [
        (int(p), int(d), layers[int(i)]) for p, d, i in zip(*(c.tolist() for c in distinct), strict=True)
    ]
    wrong = [
        (int(process[order[i]]), int(time[order[i]]), int(address[order[i]])) for i in double[:1000].tolist()
    ]
    return Allocations(
        time[chosen], freed[chosen], address[chosen], c["bytes"][chosen].astype(np.int64), c["stack"][chosen],
        c["thread"][chosen], process[chosen], place, places, wrong, int((frees & ~same).sum()),
        int((allocated & closes).sum()), int((allocated & same).sum()),
    )  # fmt: skip


def usage(found: Allocations, place: int) -> tuple[Column, Column]:
    """Times of change and the bytes in use from then on, for one device or host; at equal times frees come first."""
    mine = found.place == place
    time = np.concatenate([found.time[mine], found.freed[mine]])
    change = np.concatenate([found.bytes[mine], -found.bytes[mine]])
    real = time != NEVER
    time, change = time[real], change[real]
    order = np.lexsort((change, time))
    level = np.cumsum(change[order])
    return time[order], level


def memory(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Memory in use over time, its peak and holders, leaks, wrong frees, fragmentation and churn.

    Tables:
        summary: per process, device and allocator: allocations, frees, total, peak and its time, at the end, mean lifetime,
            allocations per second, share of allocations at a used address, fragmentation at the peak.
        usage: time and bytes in use, at every change.
        holders: what was held at the peak, by stack and range, the largest first.
        leaks: what was never freed, by stack.
        errors: frees of what was already freed.
        pools: size and use of memory pools over time, if the source has them.

    Fragmentation is 1 - largest free hole / all free bytes of the address regions in use (0: all free memory is one piece).
    """
    found = load(trace, rows)
    summary: list[dict[str, Any]] = []
    used: list[pa.Table] = []
    holders: list[dict[str, Any]] = []
    leaks: list[dict[str, Any]] = []
    texts = _Texts(trace, found)
    who_columns = "process:int32 device:int16 allocator:string "
    for place, (process, device, layer) in enumerate(found.places):
        who = {"process": process, "device": None if device < 0 else device, "allocator": layer}
        mine = np.flatnonzero(found.place == place)
        time, level = usage(found, place)
        top = int(np.argmax(level))
        held = mine[np.isin(mine, found.alive(int(time[top])))]
        summary.append({**who, **_summary(found, mine, time, level, held)})
        same = {name: [value] * len(time) for name, value in who.items()}
        used.append(table(who_columns + _USAGE, {**same, "time": time, "bytes": level}))
        holders += [{**who, **row} for row in texts.grouped(held)]
        leaks += [{**who, **row} for row in texts.grouped(mine[found.freed[mine] == NEVER])]
    grouped = who_columns + "bytes:int64:B count:int64 first:int64:ns last:int64:ns range:string stack:string"
    tables = {
        "summary": table(
            who_columns + "allocations:int64 frees:int64 total:int64:B peak:int64:B peak_time:int64:ns at_end:int64:B "
            "lifetime:float64:ns rate:float64:1/s reuse:float64 fragmentation:float64",
            summary,
        ),
        "usage": pa.concat_tables(used) if used else table(who_columns + _USAGE, []),
        "holders": table(grouped, holders),
        "leaks": table(grouped, leaks),
        "errors": table("process:int32 time:int64:ns address:uint64",
                        [{"process": p, "time": t, "address": a} for p, t, a in found.double]),
        "pools": _pools(trace),
    }  # fmt: skip
    return Result(tables, tuple(_findings(found)))


def _summary(found: Allocations, mine: Column, time: Column, level: Column, held: Column) -> dict[str, Any]:
    top = int(np.argmax(level))
    freed = found.freed[mine] != NEVER
    lifetimes = (found.freed[mine] - found.time[mine])[freed]
    span = max(int(time[-1] - time[0]), 1)
    addresses = np.sort(found.address[mine])
    return {
        "allocations": len(mine), "frees": int(freed.sum()), "total": int(found.bytes[mine].sum()),
        "peak": int(level[top]), "peak_time": int(time[top]), "at_end": int(level[-1]),
        "lifetime": float(lifetimes.mean()) if len(lifetimes) else None, "rate": len(mine) / span * 1e9,
        "reuse": float((addresses[1:] == addresses[:-1]).sum()) / len(mine), "fragmentation": fragmentation(found, mine, held),
    }  # fmt: skip


def fragmentation(found: Allocations, mine: Column, held: Column) -> float:
    """1 - largest hole / all holes, in the address regions that were ever used, with `held` allocated."""
    order = np.argsort(found.address[mine], kind="stable")
    start = found.address[mine][order].astype(np.int64)
    stop = np.maximum.accumulate(start + found.bytes[mine][order])
    first = np.r_[True, start[1:] > stop[:-1] + _REGION_GAP]
    low, high = start[first], stop[np.r_[np.flatnonzero(first)[1:] - 1, len(start) - 1]]
    live = held[np.argsort(found.address[held], kind="stable")]
    live_start = found.address[live].astype(np.int64)
    live_stop = np.maximum.accumulate(live_start + found.bytes[live]) if len(live) else live_start
    edges_begin, edges_end = np.concatenate([low, live_stop]), np.concatenate([live_start, high])
    holes = np.sort(edges_end) - np.sort(edges_begin)
    holes = holes[holes > 0]
    return float(1 - holes.max() / holes.sum()) if len(holes) else 0.0


class _Texts:
    """Groups allocations by stack and range, and names the groups."""

    def __init__(self, trace: StoredTrace, found: Allocations) -> None:
        self._trace, self._found = trace, found
        self._range = np.zeros(len(found), np.int64)
        if len(known := ranges.load(trace)):
            at = known.at(found.process, found.thread, found.time)
            self._range = np.where(at >= 0, known.name_id[np.maximum(at, 0)], 0)
        self._names = names_of.texts(trace, "name")

    def grouped(self, chosen: Column) -> list[dict[str, Any]]:
        """Rows bytes, count, first, last, range, stack; the largest first."""
        if not len(chosen):
            return []
        found = self._found
        keys = np.stack([found.stack[chosen].astype(np.int64), self._range[chosen]])
        groups, inverse = np.unique(keys, axis=1, return_inverse=True)
        inverse = inverse.reshape(-1)
        total = np.zeros(groups.shape[1], np.int64)
        np.add.at(total, inverse, found.bytes[chosen])
        count = np.bincount(inverse)
        first, last = np.full(len(total), NEVER), np.zeros(len(total), np.int64)
        np.minimum.at(first, inverse, found.time[chosen])
        np.maximum.at(last, inverse, found.time[chosen])
        stacks = self._trace.stacks(int(s) for s in groups[0])
        return [
            {"bytes": int(total[i]), "count": int(count[i]), "first": int(first[i]), "last": int(last[i]),
             "range": self._names.get(int(groups[1, i])), "stack": " ← ".join(stacks.get(int(groups[0, i]), ())[::-1]) or None}
            for i in np.argsort(-total, kind="stable").tolist()
        ]  # fmt: skip


def _pools(trace: StoredTrace) -> pa.Table:
    rows = trace.sql("""SELECT process, device, pool, time, operation, pool_size, pool_used FROM memory
                        WHERE pool IS NOT NULL ORDER BY process, pool, time""").to_arrow_table()  # fmt: skip
    columns = "process:int32 device:int16 pool:uint64 time:int64:ns operation:string pool_size:int64:B pool_used:int64:B"
    return table(columns, rows.to_pylist())


def _findings(found: Allocations) -> list[Finding]:
    out = []
    if found.double:
        text = f"{words.counted(len(found.double), 'free', 'frees')} of memory that was already freed"
        out.append(Finding("warning", text, {"frees": len(found.double)}, "memory/double-free"))
    if found.unknown:
        frees = words.counted(found.unknown, "free has", "frees have")
        text = f"{frees} no allocation in the trace: it was made before the recording, or never"
        out.append(Finding("note", text, {"frees": found.unknown}, "memory/unknown-free"))
    if found.reused:
        made = words.counted(found.reused, "allocation", "allocations")
        text = f"{made} took over an address whose free is not in the trace; it counts as freed then"
        out.append(Finding("note", text, {"allocations": found.reused}, "memory/missing-free"))
    return out

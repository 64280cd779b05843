"""Copies and fills: pageable memory, synchronous calls, many small ones, fills that block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.analysis.stats.redundant_copies import redundant
from warpsight.model import calls as host_calls
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.storage.columns import NO_TEXT
from warpsight.model.work import NO_TIME, summed

Column = npt.NDArray[Any]
#: Copies smaller than this are mostly overhead (B).
SMALL = 64 * 1024
_MANY = 50
#: Small copies take at most this many times the median time.
_USUAL = 10
#: A call that waits for its copy returns when the copy ends, within the accuracy of host and device clocks (ns).
_CLOCK_ERROR = 1_000
_ENDS = ("source_kind", "destination_kind")
#: Minimum share of the time for many synchronous copies to be reported.
_WORTH_A_WORD = 0.001
#: Minimum share of the time for repeated copies to be reported.
_REPEATED = 0.02


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about copies and fills."""
    if facts.trace.count("memcpy"):
        copies = _moves(facts, "memcpy")
        yield from _pageable(facts, copies)
        held = copies.synchronous & ~copies.pageable
        pinned = "" if copies.pinned[held].all() else ", with pinned memory"
        advice = f"Copy asynchronously{pinned}, and wait only where the data is used."
        yield from _synchronous(facts, copies, "copies", advice)
        yield from _small(facts, copies)
        yield from _redundant(facts, copies)
    if facts.trace.count("memset"):
        advice = "Fill asynchronously, or let the kernel that follows write the zeros."
        yield from _synchronous(facts, _moves(facts, "memset"), "fills", advice)


@dataclass(frozen=True)
class _Moves:
    """Copies or fills of the judged time.

    Attributes:
        columns: start, end (ns), bytes, stack (0: none).
        pageable: Which touch pageable memory.
        pinned: Which touch pinned memory.
        synchronous: Which held the host: their call was not asynchronous, and did not return before they ended.
        direction: A number for each device and direction; copies of one direction share a link.
        migrations: Which the driver made for managed memory.
    """

    columns: dict[str, Column]
    pageable: Column
    pinned: Column
    synchronous: Column
    direction: Column
    migrations: Column

    def chosen(self, mask: Column) -> dict[str, Column]:
        """The columns of some rows."""
        return {name: column[mask] for name, column in self.columns.items()}


def _moves(facts: Facts, table: str) -> _Moves:
    begin, end = facts.window
    kinds = (*_ENDS, "kind") if table == "memcpy" else ()
    numbers = {
        "start": NO_TIME,
        "duration": 0,
        "bytes": 0,
        "stack": 0,
        "process": -1,
        "device": -1,
        "stream": -1,
        "correlation": -1,
    }
    columns, texts = facts.trace.columns(table, {**numbers, "asynchronous": 1}, kinds)
    keep = facts.rows.mask(columns) & (columns["start"] >= begin) & (columns["start"] < end)
    columns["returned"] = _returned(facts, table, len(keep))
    columns = {name: column[keep] for name, column in columns.items()}

    def of_kind(wanted: str) -> Column:
        """How many of a row's two memories are of a given kind."""
        out = np.zeros(len(columns["start"]), np.int8)
        for kind in kinds[: len(_ENDS)]:
            out += columns[kind] == (texts[kind].index(wanted) if wanted in texts[kind] else NO_TEXT - 1)
        return out

    moved = {"start": columns["start"], "end": columns["start"] + columns["duration"], "bytes": columns["bytes"].astype(float),
             "stack": columns["stack"]}  # fmt: skip
    migrated = (of_kind("managed") == len(_ENDS)) & (
        columns["correlation"] <= 0
    )  # by the driver: no call waits for them
    held = columns["returned"] >= moved["end"] - _CLOCK_ERROR
    synchronous = ~columns["asynchronous"].astype(bool) & ~migrated & held
    direction, _ = device_work.numbered([columns["device"], columns.get("kind", columns["device"])])
    return _Moves(moved, of_kind("pageable") > 0, of_kind("pinned") > 0, synchronous, direction, migrated)


def _returned(facts: Facts, table: str, count: int) -> Column:
    """When the call of each row of a table returned; the maximum time if the trace does not say.

    `cudaMemset` of device memory returns at once, and so does a `cudaMemcpy` within the device, whatever their names say.
    """
    whole = device_work.everything(facts.trace)
    rows, place = whole.copies if table == "memcpy" else whole.sets
    issued, of_all = host_calls.of_work(facts.trace, whole.work, api=True)
    out = np.full(count, np.iinfo(np.int64).max)
    call = of_all[rows]
    out[place[call >= 0]] = issued.end[call[call >= 0]]
    return out


def _exposed(facts: Facts, found: dict[str, Column]) -> int:
    """Time in which only these copies ran."""
    own = intervals.clipped(intervals.union(found["start"], found["end"]), *facts.window)
    return own.total - intervals.intersection(own, facts.kernels).total


def _beside(facts: Facts, moves: _Moves) -> int:
    """Time in which a link is idle: copies that block nothing still occupy it, those of one direction one after another."""
    if not len(moves.direction):
        return facts.length
    length = moves.columns["end"] - moves.columns["start"]
    busiest = int(summed(moves.direction, length, int(moves.direction.max()) + 1).max())
    return max(facts.length - busiest, 0)


def _pageable(facts: Facts, copies: _Moves) -> Iterator[Finding]:
    """Rule of nsys: asynchronous copies from or to pageable memory are staged by the driver and block the caller.

    The driver takes what small ones move along with the command: pinned memory would make them no faster.
    """
    size_of = copies.columns["bytes"]
    found = copies.chosen(copies.pageable & ~((size_of > 0) & (size_of <= SMALL)))
    count = len(found["start"])
    if not count:
        return
    cost = _exposed(facts, found)
    size = float(found["bytes"].sum())
    spent = float((found["end"] - found["start"]).sum())
    if spent < 0.01 * facts.length:
        return
    speed = size / max(spent, 1)
    pinned = copies.chosen(copies.pinned)
    compared, moved = "", float(pinned["bytes"].sum())
    if moved > 1 << 20:
        other = moved / max(float((pinned["end"] - pinned["start"]).sum()), 1)
        compared = f"; pinned copies of this recording reach {other:.1f} GB/s"
    share = spent / facts.length
    moving = (
        f"{count:,} copies from or to pageable memory move"
        if count > 1
        else "one copy from or to pageable memory moves"
    )
    text = (
        f"pageable copies: {moving} {words.size(size)} at {speed:.1f} GB/s{compared}, {share:.0%} of the time"
    )
    stack = facts.common_stack(found["stack"])
    evidence = (f"called by {facts.stack_text(stack)}",) if stack else ()
    advice = (
        "Use pinned memory (tensor.pin_memory(), DataLoader(pin_memory=True), cudaMallocHost) and non_blocking=True: such "
        "copies run at the link's speed, beside kernels, without holding the host."
    )
    yield Finding(
        "warning",
        text,
        {"copies": count, "bytes": size, "time": spent},
        "copies/pageable",
        cost,
        evidence,
        advice,
        at=longest(found["start"], found["end"]),
    )


def _synchronous(facts: Facts, moves: _Moves, what: str, advice: str) -> Iterator[Finding]:
    """Nsight Systems' rules for synchronous copies and sets, except pageable ones, which the rule above reports."""
    found = moves.chosen(moves.synchronous & ~moves.pageable)
    count = len(found["start"])
    if not count:
        return
    cost = min(_exposed(facts, found), _beside(facts, moves))
    if cost < 0.005 * facts.length and (count < _MANY or cost < _WORTH_A_WORD * facts.length):
        return
    stack = facts.common_stack(found["stack"])
    one = {"copies": "copy", "fills": "fill"}[what]
    text = words.counted(
        count,
        f"synchronous {one} holds the host until it is done",
        f"synchronous {what} hold the host until they are done",
    )
    evidence = (f"called by {facts.stack_text(stack)}",) if stack else ()
    yield Finding("warning", text, {what: count}, f"{what}/synchronous", cost, evidence, advice,
                  at=longest(found["start"], found["end"]))  # fmt: skip


def _small(facts: Facts, copies: _Moves) -> Iterator[Finding]:
    """Many small copies each pay a fixed overhead."""
    found = copies.chosen((copies.columns["bytes"] < SMALL) & ~copies.migrations)
    count = len(found["start"])
    if count < _MANY:
        return
    length = found["end"] - found["start"]
    # One that took far longer than the others was held up by something else.
    usual = length <= _USUAL * np.median(length)
    cost = _exposed(facts, {name: column[usual] for name, column in found.items()})
    if cost < 0.01 * facts.length:
        return
    text = f"{count:,} copies of less than 64 KiB, {words.size(float(found['bytes'].mean()))} on average"
    stack = facts.common_stack(found["stack"])
    evidence = (f"most from {facts.stack_text(stack)}",) if stack else ()
    advice = "Collect them into one copy: pack small tensors into one buffer, or keep the values on the GPU."
    yield Finding("warning", text, {"copies": count}, "copies/small", cost, evidence, advice,
                  at=longest(found["start"], found["end"]))  # fmt: skip


def _redundant(facts: Facts, copies: _Moves) -> Iterator[Finding]:
    """Copies that repeat an earlier one with no recorded write in between."""
    moved = copies.columns
    if len(moved["start"]) < _MANY or (moved["end"] - moved["start"]).sum() < _REPEATED * facts.length:
        return
    found, _ = redundant(
        facts.trace, replace(facts.rows, begin=facts.window[0], end=facts.window[1], name=None)
    )
    count, time = (int(sum(found[name].to_pylist())) for name in ("count", "time"))
    if count < _MANY or time < _REPEATED * facts.length:
        return
    size = int(sum(found["bytes"].to_pylist()))
    text = f"{count:,} copies move the same {words.size(size)} again although the trace shows no write in between"
    yield Finding("note", text, {"copies": count, "bytes": size, "time": time}, "copies/redundant", None, (),
                  "Keep unchanged data on the device. Writes by kernels and by the host are not recorded, so check that the "
                  "data really is the same.")  # fmt: skip

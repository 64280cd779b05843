"""Copies and fills: pageable memory, synchronous calls, many small ones, fills that block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.facts import Facts
from warpsight.analysis.stats.redundant_copies import redundant
from warpsight.model import intervals
from warpsight.model.work import COPY

Column = npt.NDArray[Any]
#: Copies smaller than this are mostly overhead (B).
SMALL = 64 * 1024
_MANY = 50


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about copies and fills."""
    yield from _pageable(facts)
    yield from _synchronous(
        facts, "memcpy", "copies", "Use cudaMemcpyAsync with pinned memory on a stream of its own."
    )
    yield from _synchronous(
        facts, "memset", "fills", "Use cudaMemsetAsync, or let the kernel that follows write the zeros."
    )
    yield from _small(facts)
    yield from _redundant(facts)


def _rows(facts: Facts, table: str, condition: str) -> dict[str, Any]:
    begin, end = facts.window
    found = facts.trace.sql(
        f"""SELECT start, start + duration AS "end", bytes::DOUBLE AS bytes, coalesce(stack, 0) AS stack,
            coalesce(device, -1) AS device FROM {table} WHERE start >= {begin} AND start < {end} AND ({condition})
            AND {facts.rows.where()}""").fetchnumpy()  # fmt: skip
    return {name: np.ma.getdata(values) for name, values in found.items()}


def _exposed(facts: Facts, found: dict[str, Any]) -> int:
    """Time in which only these copies ran."""
    own = intervals.clipped(intervals.union(found["start"], found["end"]), *facts.window)
    kernels = facts.work.of_kind(among=facts.work.kind < COPY)
    return intervals.difference(own, kernels).total


def _pageable(facts: Facts) -> Iterator[Finding]:
    """Rule of nsys: asynchronous copies from or to pageable memory are staged by the driver and block the caller."""
    found = _rows(facts, "memcpy", "source_kind = 'pageable' OR destination_kind = 'pageable'")
    count = len(found["start"])
    if not count:
        return
    cost = _exposed(facts, found)
    size = float(found["bytes"].sum())
    spent = float((found["end"] - found["start"]).sum())
    if spent < 0.01 * facts.length:
        return
    speed = size / max(spent, 1)
    pinned = _rows(facts, "memcpy", "source_kind = 'pinned' OR destination_kind = 'pinned'")
    compared = ""
    if len(pinned["start"]) and float(pinned["bytes"].sum()) > 1 << 20:
        other = float(pinned["bytes"].sum()) / max(float((pinned["end"] - pinned["start"]).sum()), 1)
        compared = f"; pinned copies of this recording reach {other:.1f} GB/s"
    share = spent / facts.length
    text = (
        f"pageable copies: {count:,} copies from or to pageable memory move {words.size(size)} at {speed:.1f} GB/s{compared}, "
        f"{share:.0%} of the time"
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
    )


def _synchronous(facts: Facts, table: str, what: str, advice: str) -> Iterator[Finding]:
    """Nsight Systems' rules for synchronous copies and sets, except pageable ones, which the rule above reports."""
    pinned = " AND source_kind <> 'pageable' AND destination_kind <> 'pageable'" if table == "memcpy" else ""
    found = _rows(facts, table, f"NOT asynchronous{pinned}")
    count = len(found["start"])
    if not count:
        return
    cost = _exposed(facts, found)
    if cost < 0.005 * facts.length and count < _MANY:
        return
    stack = facts.common_stack(found["stack"])
    text = f"{count:,} synchronous {what} hold the host until they are done"
    evidence = (f"called by {facts.stack_text(stack)}",) if stack else ()
    yield Finding("warning", text, {what: count}, f"{what}/synchronous", cost, evidence, advice)


def _small(facts: Facts) -> Iterator[Finding]:
    """Many copies of a few bytes cost their overhead each."""
    found = _rows(facts, "memcpy", f"bytes < {SMALL}")
    count = len(found["start"])
    if count < _MANY:
        return
    cost = _exposed(facts, found)
    if cost < 0.01 * facts.length:
        return
    text = f"{count:,} copies of less than 64 KiB, {words.size(float(found['bytes'].mean()))} on average"
    stack = facts.common_stack(found["stack"])
    evidence = (f"most from {facts.stack_text(stack)}",) if stack else ()
    advice = "Collect them into one copy: pack small tensors into one buffer, or keep the values on the GPU."
    yield Finding("warning", text, {"copies": count}, "copies/small", cost, evidence, advice)


def _redundant(facts: Facts) -> Iterator[Finding]:
    """Copies that repeat an earlier one with no recorded write in between."""
    begin, end = facts.window
    where = f"start >= {begin} AND start < {end} AND {facts.rows.where()}"
    found, _ = redundant(facts.trace, where, {})
    count, time = (int(sum(found[name].to_pylist())) for name in ("count", "time"))
    if count < _MANY or time < 0.02 * facts.length:
        return
    size = int(sum(found["bytes"].to_pylist()))
    text = f"{count:,} copies move the same {words.size(size)} again although the trace shows no write in between"
    yield Finding("note", text, {"copies": count, "bytes": size, "time": time}, "copies/redundant", None, (),
                  "Keep on the device what does not change. Writes by kernels and by the host are not recorded: look whether "
                  "the data is really the same.")  # fmt: skip

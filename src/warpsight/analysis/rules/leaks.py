"""Memory rules: growth that never stops, churn of expensive allocations, wrong frees, a device nearly full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.memory import use as memory
from warpsight.analysis.memory.use import NEVER, Allocations
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.model.work import numbered, values_in

Column = npt.NDArray[Any]
#: A leak has at least this many unfreed allocations, in every quarter of the window, and this share of the memory.
LEAST, QUARTERS, LEAST_GROWTH = 8, 4, 0.05
#: Smaller amounts (bytes) are not reported as leaks: numbers on the host, for example.
_LEAST_BYTES = 1 << 16
#: Minimum device allocations per iteration to count as churn, since they stop the device.
_CHURN = 0.5
_FULL = 0.92


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about memory."""
    if not facts.trace.count("memory"):
        return
    found = memory.load(facts.trace, facts.rows)
    if not len(found):
        return
    yield from _growth(facts, found)
    yield from _churn(facts, found)
    yield from _wrong(found)
    yield from _full(facts, found)


def _growth(facts: Facts, found: Allocations) -> Iterator[Finding]:
    """Memory allocated all through the window by one stack, and not freed in it: a leak, whatever the exit frees.

    A single turn, or allocations of unknown origin in a program without a loop, may as well be results that are still needed.
    """
    begin, end = facts.host_window
    turns = sum(len(one.steady) for one in facts.iterations)
    inside = (found.time >= begin) & (found.time < end)
    kept = np.flatnonzero(inside & (found.freed >= end))
    made = np.flatnonzero(inside)
    places, stacks = numbered([found.place[kept], found.stack[kept]])[1] if len(kept) else (kept, kept)
    for place, stack in zip(places.tolist(), stacks.tolist(), strict=True):
        mine = kept[(found.place[kept] == place) & (found.stack[kept] == stack)]
        all_made = int(((found.place[made] == place) & (found.stack[made] == stack)).sum())
        quarter = (found.time[mine] - begin) * QUARTERS // max(end - begin, 1)
        grown = int(found.bytes[mine].sum())
        held = max(
            int(found.bytes[found.alive(end - 1)][found.place[found.alive(end - 1)] == place].sum()), 1
        )
        if (
            len(mine) < LEAST
            or len(values_in(quarter)) < QUARTERS
            or grown < max(LEAST_GROWTH * held, _LEAST_BYTES)
            or len(mine) * 2 < all_made
            or turns == 1
            or (turns == 0 and not stack)
        ):
            continue
        yield _leak(facts, found, place, stack, mine, grown)


def _leak(facts: Facts, found: Allocations, place: int, stack: int, mine: Column, grown: int) -> Finding:
    process, device, layer = found.places[place]
    begin, end = facts.host_window
    turns = sum(int(one.steady.sum()) for one in facts.iterations if one.process == process)
    rate = f", {words.size(grown / turns)} per iteration" if facts.steady and turns else ""
    where = facts.stack_text(stack)
    text = (
        f"leak: memory grows by {words.size(grown)} in {words.duration(end - begin)}{rate}: "
        f"{len(mine):,} allocations of {layer} are kept" + (f", made by {where}" if where else "")
    )
    at_exit = int((found.freed[mine] == NEVER).sum())
    kept = words.counted(at_exit, "of them was", "of them were")
    evidence = [f"{kept} not freed when the recording ended"]
    size = dict(facts.trace.rows("device", "device", "memory_bytes")).get(device)
    if size:
        _, level = memory.usage(found, place)
        left = (size - int(level[-1])) / (grown / max(end - begin, 1))
        evidence.append(f"at this rate the device ({words.size(size)}) is full in {words.duration(left)}")
    if stack:
        frames = facts.trace.stacks([stack]).get(stack, ())
        evidence.append(" ← ".join(frames[::-1][:4]))
    return Finding(
        "error", text, {"bytes": grown, "allocations": len(mine), "process": process, "device": device, "stack": stack},
        "memory/leak", None, tuple(evidence),
        "Keep numbers instead of tensors (.item(), or .detach() where a graph hangs on them), bound caches, and free "
        "finished data.",
        at=(int(found.time[mine].min()), int(found.time[mine].max()) + 1),
    )  # fmt: skip


def _churn(facts: Facts, found: Allocations) -> Iterator[Finding]:
    """Allocating and freeing device memory in every iteration; its cost is already counted in the idle gaps."""
    begin, end = facts.host_window
    for place, (_, _, layer) in enumerate(found.places):
        if layer != "CUDA":
            continue
        mine = (found.place == place) & (found.time >= begin) & (found.freed < end)
        count = int(mine.sum())
        turns = sum(int(one.steady.sum()) for one in facts.iterations)
        if not facts.steady or count < LEAST or count < _CHURN * turns:
            continue
        stack = facts.common_stack(found.stack[mine])
        text = f"{count / turns:.1f} device allocations per iteration are made and freed again"
        evidence = (f"made by {facts.stack_text(stack)}",) if stack else ()
        yield Finding("note", text, {"allocations": count}, "memory/churn", None, evidence,
                      "Allocate once, or from a pool: cudaMalloc and cudaFree wait for the device.",
                      at=longest(found.time[mine], found.freed[mine]))  # fmt: skip


def _wrong(found: Allocations) -> Iterator[Finding]:
    if found.double:
        first = found.double[0]
        some = words.counted(len(found.double), "free", "frees")
        text = f"{some} of memory that was already freed, the first at address {first[2]:#x}"
        yield Finding("error", text, {"frees": len(found.double)}, "memory/double-free", None, (),
                      "Find the second owner of this memory: its free may release memory that was reallocated in between.",
                      at=(int(first[1]), int(first[1]) + 1))  # fmt: skip


def _full(facts: Facts, found: Allocations) -> Iterator[Finding]:
    sizes = {
        device: size
        for device, size in facts.trace.rows("device", "device", "memory_bytes")
        if size and size > 0
    }
    for place, (_, device, layer) in enumerate(found.places):
        if layer != "CUDA" or device not in sizes:
            continue
        time, level = memory.usage(found, place)
        if int(level.max()) >= _FULL * sizes[device]:
            fullest = int(time[np.argmax(level)])
            text = f"memory of GPU {device} was {level.max() / sizes[device]:.0%} full"
            yield Finding(
                "note", text, {"peak": int(level.max())}, "memory/nearly-full", at=(fullest, fullest + 1)
            )

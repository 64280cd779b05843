"""Probes whose results do not depend on addresses or times, with all of the language."""

from __future__ import annotations

import warpsight as ws
from warpsight.sass.probes import (
    Event,
    as_bfloat16,
    as_float16,
    as_float32,
    as_float64,
    isinf,
    isnan,
    popcount,
)

STEPS = 3

accesses = ws.probes.counter()
of_block = ws.probes.counter(per="cta")
of_warp = ws.probes.array(4, per="warp")
whole = ws.probes.array(24, per="thread")
least = ws.probes.array(2, per="cta", reduce="min", type=float)
greatest = ws.probes.array(2, reduce="max", type=float)
bits = ws.probes.array(1, reduce="or")
sizes = ws.probes.histogram()
lanes = ws.probes.histogram(8, low=2, width=3)
by_pc = ws.probes.top(100, keys=128)
state = ws.probes.array(3, per="thread", reduce="last")
latest = ws.probes.ring(2, per="thread", pc=int, number=int, value=float)


@ws.probe(at="memory")
def arithmetic(event: Event) -> None:
    """Every operation once, into sums of each thread."""
    x = event.thread * 7 - 300 + event.pc
    y = event.lane - 15
    whole.add(0, x + y)
    whole.add(1, x - y)
    whole.add(2, x * y)
    whole.add(3, x // y)
    whole.add(4, x % y)
    whole.add(5, x & y)
    whole.add(6, (x | y) ^ ~x)
    whole.add(7, x << (y & 63))
    whole.add(8, x >> (y + 15))
    whole.add(9, abs(y) * -x)
    whole.add(10, min(x, y, 3) + max(x, y))
    whole.add(11, popcount(event.value) + (x // 8) + (x % 8))
    z = as_float32(event.word(0))
    whole.add(12, int(z / 3 * 1e3) if -1e9 < z < 1e9 else 7)
    whole.add(13, int(as_float16(x) * 1000) + int(as_bfloat16(x)))
    whole.add(14, isnan(as_float64(event.value)) + 2 * isinf(z))
    if (event.is_load and event.space != "shared") or event.is_atomic:
        whole.add(15, 1)
    elif event.is_store:
        whole.add(16, event.size)
        if event.lane > 20:
            return
    total = 0
    for i in range(STEPS):
        for j in range(5, -1, -2):
            total += i * j if j != 3 else event.warp
    whole.add(17, total)
    whole.add(24, 1)  # there is no such key
    whole.add(18, event.value_high + event.word(3) + event.block_threads * event.grid_blocks + event.block)
    whole.add(19, event.active >> event.lane)
    whole.add(20, event.kind)


@ws.probe(at=("memory.load", "global.store"))
def aggregates(event: Event) -> None:
    """Maps of every kind."""
    accesses.add()
    of_block.add(event.size)
    of_warp.add(event.lane % 4, event.lane)
    key = 1 if event.is_store else 0
    value = as_float32(event.word(0))
    least.add(key, value)
    greatest.add(key, value)
    bits.add(0, event.value)
    sizes.add(event.size)
    lanes.add(event.lane)
    by_pc.add(event.pc, event.size)


@ws.probe(at="global.load")
def remembers(event: Event) -> None:
    """What a thread loaded before."""
    state[0] += 1
    if state[0] > 1 and state[1] != event.pc:
        state[2] = state[2] * 3 + state[1]
    state[1] = event.pc
    latest.push(pc=event.pc, number=state[0], value=as_float32(event.word(0)))

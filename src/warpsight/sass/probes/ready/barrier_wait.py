"""Barrier wait: how long warps wait at __syncthreads and named barriers, and at which instruction."""

from __future__ import annotations

import warpsight as ws

_arrived = ws.probes.array(1, per="warp", reduce="last")
#: Nanoseconds, by powers of two.
waits = ws.probes.histogram()
#: Nanoseconds of all warps by the barrier's offset in the kernel.
by_pc = ws.probes.top(20, key="pc")


@ws.probe(at=("barrier", "barrier_release"), level="warp")
def barrier_wait(event: ws.probes.Event) -> None:
    """Measure the time from a warp's arrival until its release."""
    if event.kind == "barrier":
        _arrived[0] = event.time
    elif _arrived[0] != 0:
        waits.add(event.time - _arrived[0])
        by_pc.add(event.pc, event.time - _arrived[0])
        _arrived[0] = 0

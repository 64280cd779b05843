"""Coalescing: sectors of 32 bytes that each request to global memory takes, and which instructions take too many."""

from __future__ import annotations

import warpsight as ws

#: By sectors of a request.
requests = ws.probes.array(33)
#: Sectors in excess of what the lanes' bytes would fill, by instruction.
excess = ws.probes.top(20, key="pc")


@ws.probe(at=("global.load", "global.store"), level="warp")
def coalescing(event: ws.probes.Event) -> None:
    """Count sectors; each warp-instruction is one request."""
    requests.add(event.sectors, 1)
    ideal = (ws.probes.popcount(event.active) * event.size + 31) // 32
    if event.sectors > ideal:
        excess.add(event.pc, event.sectors - ideal)

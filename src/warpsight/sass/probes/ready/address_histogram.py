"""Address histogram: bytes that lanes load and store, by page of global memory."""

from __future__ import annotations

import warpsight as ws

#: Bytes of a page.
PAGE = 4096
#: The pages with most bytes; a key is an address divided by PAGE.
loaded = ws.probes.top(20, keys=1 << 16)
stored = ws.probes.top(20, keys=1 << 16)


@ws.probe(at="global")
def address_histogram(event: ws.probes.Event) -> None:
    """Count bytes by page; atomics count as stores."""
    if event.is_load:
        loaded.add(event.address // PAGE, event.size)
    else:
        stored.add(event.address // PAGE, event.size)

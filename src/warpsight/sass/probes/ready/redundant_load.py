"""Redundant loads: a thread loads an address again and gets the same value."""

from __future__ import annotations

import warpsight as ws

#: Addresses that each thread remembers: a load whose address was displaced meanwhile is not found.
REMEMBERED = 8

_address = ws.probes.array(REMEMBERED, per="thread", reduce="last")
_value = ws.probes.array(REMEMBERED, per="thread", reduce="last")
loads = ws.probes.counter()
redundant = ws.probes.counter()
#: By the load's offset in the kernel.
by_pc = ws.probes.top(20, key="pc")


@ws.probe(at="global.load")
def redundant_load(event: ws.probes.Event) -> None:
    """Addresses are mapped to slots by their 4-byte word; for 16-byte loads, the first 8 bytes are compared."""
    loads.add()
    place = event.address // 4 % REMEMBERED
    if _address[place] == event.address and _value[place] == event.value:
        redundant.add()
        by_pc.add(event.pc)
    _address[place] = event.address
    _value[place] = event.value

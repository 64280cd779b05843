"""NaN and infinity: which threads store them, where, from which instruction."""

from __future__ import annotations

import warpsight as ws

#: Type of the stored bytes: float64, float32, float16 or bfloat16.
TYPE = "float32"

nan = ws.probes.counter()
infinite = ws.probes.counter()
found = ws.probes.ring(1000, block=int, thread=int, pc=int, address=int, value=float)


@ws.probe(at=("global.store", "shared.store"))
def nan_inf(event: ws.probes.Event) -> None:
    """Check each stored element; stores narrower than an element are ignored."""
    for part in range(8):
        width = 8 if TYPE == "float64" else 4 if TYPE == "float32" else 2
        if (part + 1) * width <= event.size:
            bits = event.word(part * width // 4) >> part * width % 4 * 8 & 0xFFFF
            value = ws.probes.as_float16(bits)
            if TYPE == "bfloat16":
                value = ws.probes.as_bfloat16(bits)
            elif TYPE == "float32":
                value = ws.probes.as_float32(event.word(part))
            elif TYPE == "float64":
                value = ws.probes.as_float64(event.value_high if part == 1 else event.value)
            if ws.probes.isnan(value):
                nan.add()
            elif ws.probes.isinf(value):
                infinite.add()
            if ws.probes.isnan(value) or ws.probes.isinf(value):
                found.push(event.block, event.thread, event.pc, event.address + part * width, value)

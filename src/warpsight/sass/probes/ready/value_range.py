"""Value range: smallest and largest number that each launch loads and stores, and how many are zero."""

from __future__ import annotations

import warpsight as ws

#: Type of the bytes: float64, float32, float16 or bfloat16.
TYPE = "float32"

#: Key 0: loads; key 1: stores.
least = ws.probes.array(2, reduce="min", type=float)
greatest = ws.probes.array(2, reduce="max", type=float)
numbers = ws.probes.array(2)
zeros = ws.probes.array(2)


@ws.probe(at=("global.load", "global.store"))
def value_range(event: ws.probes.Event) -> None:
    """Range of values, excluding NaN."""
    key = 1 if event.is_store else 0
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
            least.add(key, value)
            greatest.add(key, value)
            numbers.add(key, 1)
            if value == 0:
                zeros.add(key, 1)

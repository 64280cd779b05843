"""Device counters that do not move: the sign of a spinning kernel if no host thread is seen waiting."""

from __future__ import annotations

import time

_SAMPLES, _EVERY_S = 6, 0.3
_BUSY, _MOST_CHANGE = 90, 1


def unchanged_and_busy() -> str:
    """A sentence if some device is busy with something that moves no memory and does not change; otherwise empty."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        seen: list[list[tuple[int, int]]] = [[] for _ in handles]
        for _ in range(_SAMPLES):
            for values, handle in zip(seen, handles, strict=True):
                rates = nvml.nvmlDeviceGetUtilizationRates(handle)
                values.append((int(rates.gpu), int(rates.memory)))
            time.sleep(_EVERY_S)
        nvml.nvmlShutdown()
    except Exception:  # no module, driver or permission: skip this check
        return ""
    for index, values in enumerate(seen):
        compute, memory = zip(*values, strict=True)
        steady = max(compute) - min(compute) <= _MOST_CHANGE and max(memory) - min(memory) <= _MOST_CHANGE
        if min(compute) >= _BUSY and max(memory) <= _MOST_CHANGE and steady:
            return (f"GPU {index} was busy ({compute[-1]}%) without moving memory, unchanged for "
                    f"{_SAMPLES * _EVERY_S:.1f} s")  # fmt: skip
    return ""

"""What `tests/gpu/event_truth.cu` must have accessed, by where it says that its buffers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from warpsight.formats.events.kinds import KINDS
from warpsight.sass.events.trace import EventTrace

LOAD, STORE, ATOMIC = 1, 2, 3
#: Space, block, thread, operation, address, bytes and value of one lane's access.
Access = tuple[str, int, int, int, int, int, int | None]
Base = dict[str, int]


def recorded(trace: EventTrace, kernel: str) -> Counter[Access]:
    """Space, block, thread, operation, address, bytes and value of each lane's accesses."""
    launch = next(one for one in trace.launches.values() if one.name.startswith(kernel + "("))
    events = trace.of_launch(launch.number)
    events = events.take(events.is_access)
    addresses, values, known = events.operand(0), events.values(), events.has_values
    found: Counter[Access] = Counter()
    for row, lane in zip(*(part.tolist() for part in np.nonzero(events.active)), strict=True):
        low, high = (int(half) for half in values[row, lane])
        found[
            KINDS[int(events.kind[row])].space, int(events.block[row]), int(events.warp[row]) * 32 + lane,
            int(events.flags[row]) & 3, int(addresses[row, lane]), int(events.size[row]),
            low | high << 64 if known[row] else None,
        ] += 1  # fmt: skip
    return found


def without_values(accesses: Counter[Access]) -> Counter[Access]:
    """The same where no values are recorded."""
    found: Counter[Access] = Counter()
    for access, count in accesses.items():
        found[(*access[:-1], None)] += count
    return found


def _f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _f64(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


def _index(i: int) -> int:
    return (i * 7919 + 13) % 1024


def _add(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    for i in range(500):
        block, thread = divmod(i, 128)
        for name in "ab":
            expected["global", block, thread, LOAD, base[name] + 4 * i, 4, _f32(0.25 * i)] += 1
        expected["global", block, thread, STORE, base["c"] + 4 * i, 4, _f32(0.5 * i)] += 1
    return expected


def _strided(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    for i in range(256):
        block, thread = divmod(i, 128)
        expected["global", block, thread, LOAD, base["a"] + 132 * i, 4, _f32(8.25 * i)] += 1
        expected["global", block, thread, STORE, base["c"] + 4 * i, 4, _f32(8.25 * i)] += 1
    return expected


def _transpose(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    expected["global", 0, 0, STORE, base["bases"], 8, base["tile"]] += 1
    for y in range(32):
        for x in range(32):
            i = 32 * y + x
            expected["global", 0, i, LOAD, base["a"] + 4 * i, 4, _f32(0.25 * i)] += 1
            expected["shared", 0, i, STORE, base["tile"] + 4 * (33 * y + x), 4, _f32(0.25 * i)] += 1
            turned = _f32(0.25 * (32 * x + y))
            expected["shared", 0, i, LOAD, base["tile"] + 4 * (33 * x + y), 4, turned] += 1
            expected["global", 0, i, STORE, base["c"] + 4 * i, 4, turned] += 1
    return expected


def _gather(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    for i in range(512):
        block, thread = divmod(i, 128)
        value = _f64(3.0 * _index(i))
        expected["global", block, thread, LOAD, base["index"] + 4 * i, 4, _index(i)] += 1
        expected["global", block, thread, LOAD, base["d"] + 8 * _index(i), 8, value] += 1
        expected["global", block, thread, STORE, base["e"] + 8 * i, 8, value] += 1
    return expected


def _vectors(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    for i in range(64):
        wide = sum(_f32(0.25 * (4 * i + word)) << 32 * word for word in range(4))
        expected["global", 0, i, LOAD, base["a"] + 16 * i, 16, wide] += 1
        expected["global", 0, i, STORE, base["c"] + 16 * i, 16, wide] += 1
        expected["global", 0, i, LOAD, base["bytes"] + i, 1, 3 * i % 256] += 1
        expected["global", 0, i, STORE, base["out"] + i, 1, 3 * i % 256] += 1
    return expected


def _histogram(base: Base) -> Counter[Access]:
    expected: Counter[Access] = Counter()
    expected["global", 0, 0, STORE, base["bases"] + 8, 8, base["local"]] += 1
    for block in range(4):
        inside = Counter(_index(128 * block + thread) % 64 for thread in range(128))
        for thread in range(128):
            i = 128 * block + thread
            expected["global", block, thread, LOAD, base["index"] + 4 * i, 4, _index(i)] += 1
            expected["shared", block, thread, ATOMIC, base["local"] + 4 * (_index(i) % 64), 4, None] += 1
        for bin_ in range(64):
            expected["shared", block, bin_, STORE, base["local"] + 4 * bin_, 4, 0] += 1
            expected["shared", block, bin_, LOAD, base["local"] + 4 * bin_, 4, inside[bin_]] += 1
            expected["global", block, bin_, ATOMIC, base["bins"] + 4 * bin_, 4, None] += 1
    return expected


#: Kernel → its accesses.
EXPECTED: dict[str, Callable[[Base], Counter[Access]]] = {
    "add": _add,
    "strided": _strided,
    "transpose": _transpose,
    "gather": _gather,
    "vectors": _vectors,
    "histogram": _histogram,
}

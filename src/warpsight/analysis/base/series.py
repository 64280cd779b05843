"""Sampled numbers over time: each sample holds until the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Names that other recorders give to the same counters, lower case; and the factor from each unit to the one used here.
NAMES = {
    "sm_clock": ("sm_clock", "sm clock", "gpu_clock", "graphics_clock", "gr_clock", "clocks.sm"),
    "power": ("power", "power_draw", "power usage", "power.draw"),
}
#: The device of a counter that belongs to no device.
_NO_DEVICE = -(1 << 15)
_FACTORS = {"MHz": 1.0, "kHz": 1e-3, "Hz": 1e-6, "GHz": 1e3, "W": 1.0, "mW": 1e-3, "kW": 1e3}


@dataclass(frozen=True)
class Series:
    """A step function: `value[i]` holds from `time[i]` (ns) until `time[i + 1]`, the last one until `until`."""

    time: Column
    value: Column
    until: int

    def __len__(self) -> int:
        return len(self.time)

    def integral(self, at: Column) -> Column:
        """For each moment, the integral of the value over the time before it (ns); 0 before the first sample."""
        return self._sum(at, self.value)

    def covered(self, at: Column) -> Column:
        """For each moment, the total earlier time (ns) that has a value."""
        return self._sum(at, np.ones(len(self.value)))

    def over(self, start: Column, end: Column) -> tuple[Column, Column]:
        """For each interval, by start, the integral over it and the time (ns) that has a value.

        Samples are rarer than kernels: most intervals are within one sample, and only the others are looked up in sums.
        """
        if not len(self.time):
            return np.zeros(len(start)), np.zeros(len(start), np.int64)
        edges = np.append(self.time, self.until)
        start, end = np.clip(start, edges[0], edges[-1]), np.clip(end, edges[0], edges[-1])
        begun = np.append(np.searchsorted(start, self.time, "left"), len(start))
        place = np.repeat(np.arange(len(self.time)), np.diff(begun))
        out = self.value[place] * (end - start)
        longer = np.flatnonzero(end > edges[place + 1])
        out[longer] = self.integral(end[longer]) - self.integral(start[longer])
        return out, end - start

    def mean(self, begin: Column, end: Column) -> Column:
        """The mean over the part of each window that has values; nan without any."""
        held = self.covered(end) - self.covered(begin)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Column = np.where(held > 0, (self.integral(end) - self.integral(begin)) / held, np.nan)
        return mean

    def _sum(self, at: Column, value: Column) -> Column:
        if not len(self.time):
            return np.zeros(len(at))
        edges = np.append(self.time, self.until)
        sums = np.concatenate([[0.0], np.cumsum(np.diff(edges) * value)])
        inside = np.clip(at, edges[0], edges[-1])
        place = np.searchsorted(self.time, inside, "right") - 1
        out: Column = sums[place] + (inside - self.time[place]) * value[place]
        return out


NOTHING = Series(np.empty(0, np.int64), np.empty(0), 0)


def load(trace: StoredTrace, names: tuple[str, ...]) -> dict[int | None, Series]:
    """The counter with one of these names (any case) for every device, converted to MHz or W if its unit says so.

    The last sample holds as long as the median of the earlier ones. Of several readings at one moment, the last counts.
    """
    sql = f"""SELECT coalesce(device, {_NO_DEVICE})::SMALLINT AS d, time, value, coalesce(unit, '') FROM counter
        WHERE lower(name) IN (SELECT unnest($names)) AND time IS NOT NULL AND isfinite(value) ORDER BY d, time"""
    rows = trace.sql(sql, names=[name.lower() for name in names]).to_arrow_table()
    if not len(rows):
        return {}
    devices = rows.column(0).to_numpy()
    time, value = rows.column(1).to_numpy(), rows.column(2).to_numpy()
    units = rows.column(3).combine_chunks().dictionary_encode()
    factors = np.array([_FACTORS.get(unit, 1.0) for unit in units.dictionary.to_pylist()])
    value = value * factors[units.indices.to_numpy()]
    first = np.flatnonzero(np.append(True, devices[1:] != devices[:-1]))  # rows are in order of device
    out: dict[int | None, Series] = {}
    for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(devices)], strict=True):
        device = int(devices[begin])
        out[None if device == _NO_DEVICE else device] = _series(time[begin:end], value[begin:end])
    return out


def _series(time: Column, value: Column) -> Series:
    last = np.append(time[1:] != time[:-1], True)
    time, value = time[last], value[last]
    step = int(np.median(np.diff(time))) if len(time) > 1 else 0
    return Series(time, value, int(time[-1]) + step)

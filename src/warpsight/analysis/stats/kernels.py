"""Kernel times: the table that other tools' readers expect, and how durations are distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.sums import stats
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
_TIMING = {"name": "name", "count": "count", "total": "total", "avg": "mean", "min": "min", "max": "max", "p50": "median",
           "p95": "p95", "p99": "p99", "std": "std"}  # fmt: skip


def kernel_times(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Exact times of every kernel name in ns, the longest total first.

    Returns:
        Table `kernel-times` with columns name, count, total, avg, min, max, p50, p95, p99, std (of the population).
    """
    summary = stats(trace, "kernels", rows)
    source = summary.tables["kernels"]
    data = {column: source[of] for column, of in _TIMING.items()}
    spec = """name:string count:int64 total:int64:ns avg:float64:ns min:int64:ns max:int64:ns p50:float64:ns
        p95:float64:ns p99:float64:ns std:float64:ns"""
    return Result({"kernel-times": table(spec, data)}, summary.findings)


def kernel_durations(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """How kernel durations are distributed over the devices: kernels and their summed time per power of two.

    Returns:
        Table `durations`: device, from, below (ns; the first row is what took no time), kernels, total (ns), and the shares of
        kernels and of time up to and including this row.
    """
    work = device_work.load(trace, rows, cut=False)
    found = []
    for device, index in work.per_device():
        index = index[work.kind[index] <= device_work.COMMUNICATION]
        duration = work.end[index] - work.start[index]
        order = _bits(duration)
        count = np.bincount(order, minlength=64)
        total = np.zeros(len(count), np.int64)
        np.add.at(total, order, duration)
        counted, summed = np.cumsum(count), np.cumsum(total)
        found += [
            {"device": device, "from": (1 << bits) >> 1, "below": 1 << bits, "kernels": int(count[bits]),
             "total": int(total[bits]), "kernels_up_to": int(counted[bits]) / len(index),
             "time_up_to": int(summed[bits]) / max(int(summed[-1]), 1)}
            for bits in np.flatnonzero(count).tolist()
        ]  # fmt: skip
    spec = "device:int16 from:int64:ns below:int64:ns kernels:int64 total:int64:ns kernels_up_to:float64 time_up_to:float64"
    empty = () if found else (Finding("note", "the selection has no kernel with times"),)
    return Result({"durations": table(spec, found)}, doubts(work) + empty)


def _bits(value: device_work.Column) -> device_work.Column:
    """Bits of each number: 0 for 0, n + 1 for 2**n up to 2**(n + 1) - 1, exactly."""
    powers = np.array([1 << i for i in range(63)], np.int64)
    return np.searchsorted(powers, value, "right")

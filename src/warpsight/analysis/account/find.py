"""The gaps themselves: every stretch of the window in which a device did nothing, and the work on both sides of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals
from warpsight.model.work import Work

Column = NDArray[Any]
#: Where in the window a gap lies: before the device's first work, between two pieces of work, after its last.
PLACES = ("before", "between", "after")


@dataclass(frozen=True)
class Gaps:
    """Gaps as columns, by device and begin (ns).

    Attributes:
        device: Place of the device in `devices`.
        place: Index into :data:`PLACES`.
        earlier: Row of the work that ended last before the gap, -1 none.
        later: Row of the work that ended the gap, -1 none.
    """

    devices: list[int | None]
    device: Column
    begin: Column
    end: Column
    place: Column
    earlier: Column
    later: Column

    def __len__(self) -> int:
        return len(self.begin)


def find(work: Work) -> Gaps:
    """All gaps of all devices that have work in the window; their lengths add up to the devices' idle time."""
    devices: list[int | None] = []
    parts: list[tuple[Column, ...]] = []
    for number, (device, index) in enumerate(work.per_device()):
        devices.append(device)
        start, end = work.start[index], work.end[index]
        gaps = intervals.complement(intervals.union(start, end), work.begin, work.finish)
        after = np.searchsorted(start, gaps.end, "left")
        order = np.argsort(end, kind="stable")
        before = np.searchsorted(end[order], gaps.start, "right") - 1
        rows = np.append(index, -1)  # what is beyond the device's work, on either side, is no row
        later = rows[np.minimum(after, len(index))]
        earlier = np.append(index[order], -1)[before]
        place = np.where(earlier < 0, 0, np.where(later < 0, 2, 1))
        parts.append(
            (
                np.full(len(gaps), number, np.int16),
                gaps.start,
                gaps.end,
                place.astype(np.int8),
                earlier,
                later,
            )
        )
    empty = np.empty(0, np.int64)
    columns = [np.concatenate(c) for c in zip(*parts, strict=True)] if parts else [empty] * 6
    return Gaps(devices, *columns)

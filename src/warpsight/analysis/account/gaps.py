"""The idle stretches of each device, cut along time by the call that issued the work that ends them.

    a          e1            e2                 b
    |-- host --|-- the call --|---- latency ----|
    the device falls idle     the call returns  the next work begins

Where the call began before the device fell idle there is no host part, and where it had returned by then no call part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.busy import Busy, busy
from warpsight.model.calls import Calls
from warpsight.model.work import Work

Column = NDArray[Any]
#: What a launch into an empty queue may take beyond the usual and still be latency, and the bounds of that (ns).
_TIMES, _LEAST, _MOST = 4, 10_000, 100_000
#: Launches that a function needs for a usual latency of its own.
_ENOUGH = 20


@dataclass(frozen=True)
class Gaps:
    """Idle stretches as columns, by device and begin (ns); see the picture above.

    Attributes:
        devices: The devices.
        device: Place of each stretch's device in `devices`.
        row: Row of the work that ends it.
        call: The call that issued that work, -1 unknown.
        limit: The longest that latency usually is after this call (ns).
    """

    devices: list[int | None]
    busy: list[tuple[Column, Busy]]
    device: Column
    begin: Column
    issued: Column
    returned: Column
    end: Column
    row: Column
    call: Column
    limit: Column

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def known(self) -> Column:
        """Whether the call that ends each stretch is in the trace."""
        found: Column = self.call >= 0
        return found


def find(work: Work, calls: Calls, call: Column) -> Gaps:
    """The idle stretches of all devices; `call` is the call of each row of work, -1 unknown."""
    devices: list[int | None] = []
    worked: list[tuple[Column, Busy]] = []
    parts: list[tuple[Column, ...]] = []
    for number, (device, index) in enumerate(work.per_device()):
        one = busy(work.start[index], work.end[index], work.kind[index])
        devices.append(device)
        worked.append((index, one))
        parts.append(
            (np.full(len(one.next), number, np.int16), one.idle_begin, one.idle_end, index[one.next])
        )
    if not parts:
        parts = [(np.zeros(0, np.int16), *(np.zeros(0, np.int64),) * 3)]
    device_of, begin, end, row = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    ended_by = call[row]
    safe = np.maximum(ended_by, 0)
    if len(calls):
        issued = np.where(ended_by >= 0, np.clip(calls.start[safe], begin, end), begin)
        returned = np.where(ended_by >= 0, np.clip(calls.end[safe], issued, end), begin)
    else:
        issued = returned = begin
    limit = _usual_latency(calls, ended_by, begin, end)
    return Gaps(devices, worked, device_of, begin, issued, returned, end, row, ended_by, limit)


def _usual_latency(calls: Calls, call: Column, begin: Column, end: Column) -> Column:
    """For each stretch the longest time from the call's return to the work that still counts as latency.

    It is a multiple of the median over launches into an empty queue, by function where there are enough of them.
    """
    limit = np.full(len(call), _LEAST, np.int64)
    if not len(calls) or not len(call):
        return limit
    safe = np.maximum(call, 0)
    empty = (call >= 0) & (calls.start[safe] >= begin)
    took = np.maximum(end - calls.end[safe], 0)
    if empty.any():
        limit[:] = _longest(took[empty])
        function = calls.function[safe]
        for number in np.unique(function[empty]).tolist():
            mine = function == number
            if int((mine & empty).sum()) >= _ENOUGH:
                limit[mine] = _longest(took[mine & empty])
    return limit


def _longest(took: Column) -> int:
    return int(np.clip(_TIMES * np.median(took), _LEAST, _MOST))

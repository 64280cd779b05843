"""The idle stretches of each device, cut along time by the call that issued the work that ends them.

    a          e1            e2                 b
    |-- host --|-- the call --|---- latency ----|
    the device becomes idle   the call returns  the next work begins

If the call began before the device became idle, there is no host part; if it had also returned by then, there is no call part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.busy import Busy, busy
from warpsight.model.calls import Calls
from warpsight.model.work import Work
from warpsight.model.workers import workers

Column = NDArray[Any]
#: Latency of a launch into an empty queue counts as usual up to this multiple of the median, within these bounds (ns).
_TIMES, _LEAST, _MOST = 4, 10_000, 100_000
#: Minimum number of launches for a function to have its own usual latency.
_ENOUGH = 20


@dataclass(frozen=True)
class Gaps:
    """Idle stretches as columns, by device and begin (ns); see the picture above.

    Attributes:
        devices: The devices.
        device: Place of each stretch's device in `devices`.
        row: Row of the work that ends it.
        returned: When the call that issued that work returned, within the stretch.
        call: That call, -1 unknown.
        limit: The longest that latency usually is after a call, by function (ns).
    """

    devices: list[int | None]
    busy: list[tuple[Column, Busy]]
    device: Column
    begin: Column
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

    def issued(self, calls: Calls, rows: Column) -> Column:
        """Start of the calls that issued the work after each stretch, within the stretch; the stretch's start if unknown."""
        begin = self.begin[rows]
        return np.clip(calls.start[self.call[rows]], begin, self.returned[rows]) if len(calls) else begin


def find(work: Work, calls: Calls, call: Column) -> Gaps:
    """The idle stretches of all devices; `call` is the call of each row of work, -1 if unknown."""
    devices: list[int | None] = []
    worked: list[tuple[Column, Busy]] = []
    parts: list[tuple[Column, ...]] = []
    small = np.int32 if len(work) < 1 << 31 else np.int64
    several = list(work.per_device())

    def one_busy(index: Column) -> Busy:
        columns = (work.start, work.end, work.kind)
        return busy(*(columns if len(index) == len(work) else (column[index] for column in columns)))

    with workers(2, "devices") as pool:
        each = list(pool.map(one_busy, [index for _, index in several]))
    for number, ((device, index), one) in enumerate(zip(several, each, strict=True)):
        devices.append(device)
        worked.append((index, one))
        parts.append(
            (
                np.full(len(one.next), number, np.int16),
                one.idle_begin,
                one.idle_end,
                index[one.next].astype(small),
            )
        )
    if not parts:
        parts = [(np.zeros(0, np.int16), *(np.zeros(0, np.int64),) * 3)]
    device_of, begin, end, row = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    del parts
    edges = np.cumsum([0, *(len(one.next) for _, one in worked)]).tolist()
    for place, (index, one) in enumerate(
        worked
    ):  # each device's stretches are a part of all: one copy serves both
        mine = slice(edges[place], edges[place + 1])
        worked[place] = index, replace(one, idle_begin=begin[mine], idle_end=end[mine], next=row[mine])
    ended_by = call[row]
    if len(calls) and len(row):
        # A call of -1 reads the last one here, and is put right below.
        issued, returned = calls.start[ended_by], calls.end[ended_by]
        limit = _usual_latency(calls, ended_by, issued >= begin, end - returned)
        np.maximum(returned, begin, out=returned)
        np.minimum(returned, end, out=returned)
        lost = np.flatnonzero(ended_by < 0)
        returned[lost] = begin[lost]
    else:
        returned = begin
        limit = np.full(1, _LEAST, np.int32)
    return Gaps(devices, worked, device_of, begin, returned, end, row, ended_by, limit)


def _usual_latency(calls: Calls, call: Column, empty: Column, took: Column) -> Column:
    """For each function, and for none, the longest time from the call's return to the work that still counts as latency.

    It is a multiple of the median over launches into an empty queue, by function where there are enough of them.

    Args:
        calls: The calls.
        call: The call of each stretch, -1 unknown.
        empty: Whether the device was idle when that call began.
        took: Time from its return to the work, ns; below 0 where the work began earlier.
    """
    launched = np.flatnonzero(empty & (call >= 0))
    if not len(launched):
        return np.full(len(calls.functions) + 1, _LEAST, np.int32)
    function, took = calls.function[call[launched]], np.maximum(took[launched], 0)
    by_function = np.full(len(calls.functions) + 1, _longest(took), np.int32)
    for number, count in enumerate(np.bincount(function + 1).tolist(), -1):
        if count >= _ENOUGH:
            by_function[number] = _longest(took[function == number])
    return by_function


def _longest(took: Column) -> int:
    return int(np.clip(_TIMES * np.median(took), _LEAST, _MOST))

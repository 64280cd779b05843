"""The input of rules, computed once: device work and its calls, the account, iterations, counters."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.account import Account, copies
from warpsight.analysis.account import account as account_of
from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.steps import iterations
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model import calls as host_calls
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.intervals import Intervals
from warpsight.model.naming import api_names
from warpsight.model.selection import Rows, begin_of
from warpsight.model.work import COPY, KERNEL, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
#: Minimum iterations of a loop for a separate look at its steady state.
_TURNS = 3


class Facts:
    """The facts of one trace; each is computed on first use."""

    def __init__(self, trace: StoredTrace, rows: Rows = _ALL) -> None:
        """Keep the trace and the rows; nothing is read yet."""
        self.trace = trace
        self.rows = rows

    @cached_property
    def work(self) -> Work:
        """All device work that the rows select."""
        return device_work.load(self.trace, self.rows)

    @cached_property
    def account(self) -> Account:
        """The account of the devices' time."""
        return account_of(self.trace, self.rows)

    @cached_property
    def migrated(self) -> Intervals:
        """When the driver moved pages of managed memory."""
        work = self.account.work
        copied = np.flatnonzero(work.kind == COPY)
        moved = copied[copies.migrations(self.trace, work, copied)]
        return intervals.union(work.start[moved], work.end[moved])

    @cached_property
    def kernels_of_queues(self) -> tuple[Column, Column]:
        """Number and total time (ns) of the kernels on each queue."""
        work = self.work
        count, time = np.zeros((2, len(work.queues)), np.int64)
        for block in device_work.blocks(len(work)):
            kernel = work.kind[block] == KERNEL
            queue = work.queue[block][kernel]
            count += np.bincount(queue, minlength=len(count))
            time += device_work.summed(queue, (work.end[block] - work.start[block])[kernel], len(time))
        return count, time

    @cached_property
    def exposed(self) -> tuple[Column, Column]:
        """The rows of collectives, copies and fills, and the time of each (ns) in which no kernel of its device ran."""
        work = self.account.work
        rows = np.flatnonzero(work.kind != KERNEL)
        time = np.zeros(len(rows), np.int64)
        for index, one in self.account.gaps.busy:
            time[np.searchsorted(rows, index[work.kind[index] != KERNEL])] = one.exposed
        return rows, time

    @cached_property
    def kernels(self) -> Intervals:
        """The moments at which a kernel or collective runs on any device."""
        return self.work.of_kind(among=self.work.kind < COPY)

    @cached_property
    def counters_by_device(self) -> dict[int, tuple[Column, Column, dict[str, Column]]]:
        """For each device, time and value of its counters, by time, and the rows of each name."""
        columns, texts = self.trace.columns("counter", {"time": 0, "value": 0, "device": -1}, ["name"])
        order = np.argsort(columns["time"], kind="stable")
        time, value, device, name = (columns[c][order] for c in ("time", "value", "device", "name"))
        found = {}
        for one in device_work.values_in(device).tolist():
            mine = np.flatnonzero(device == one)
            rows = device_work.split(name[mine], len(texts["name"]))
            found[one] = time[mine], value[mine], dict(zip(texts["name"], rows, strict=True))
        return found

    def counters(self, device: int) -> tuple[Column, Column, dict[str, Column]]:
        """Time and value of a device's counters, by time, and the rows of each name."""
        none = np.zeros(0, np.int64)
        return self.counters_by_device.get(device, (none, none.astype(float), {}))

    @cached_property
    def origin(self) -> int:
        """The zero point of the times that users see."""
        return begin_of(self.trace)

    @cached_property
    def calls(self) -> Calls:
        """All host calls."""
        return host_calls.load(self.trace, api=True)

    @cached_property
    def call(self) -> Column:
        """The call of each row of :attr:`work`, -1 if the trace has none."""
        return host_calls.of_work(self.trace, self.work, api=True)[1]

    def call_of(self, work: Work) -> Column:
        """The call of each row of some work, -1 if the trace has none."""
        return host_calls.of_work(self.trace, work, api=True)[1]

    @cached_property
    def iterations(self) -> list[Iterations]:
        """Iterations of each process."""
        whole = self.rows.begin is None and self.rows.end is None
        work = self.work if whole else device_work.load(self.trace, self.rows, cut=False)
        return iterations.find(self.trace, self.rows, work)

    @property
    def window(self) -> tuple[int, int]:
        """The judged time: the requested window, otherwise from the first to the last device work."""
        return self.work.begin, self.work.finish

    @cached_property
    def loop_window(self) -> tuple[int, int]:
        """The steady state of the main loop on the device, or the whole window without a loop."""
        steady = [
            w for w in (one.window() for one in self.iterations if int(one.steady.sum()) >= _TURNS) if w
        ]
        if not steady:
            return self.window
        return min(w[0] for w in steady), max(w[1] for w in steady)

    @cached_property
    def host_window(self) -> tuple[int, int]:
        """The time in which the host issued the work of the steady state, earlier than it ran on the device."""
        begin, end = self.loop_window
        first, stop = np.searchsorted(self.work.start, [begin, end])
        call = self.call[first:stop]
        call = call[call >= 0]
        if not len(call):
            return begin, end
        return int(self.calls.start[call].min()), max(int(self.calls.end[call].max()), 1)

    @property
    def steady(self) -> bool:
        """Whether the main loop has a steady state."""
        return self.loop_window != self.window or any(
            int(one.steady.sum()) >= _TURNS for one in self.iterations
        )

    @property
    def length(self) -> int:
        """Length of the window, at least 1 ns."""
        return max(self.window[1] - self.window[0], 1)

    @property
    def busy(self) -> dict[int | None, Intervals]:
        """Busy time of each device."""
        found = self.account.gaps
        return {device: one.covered for device, (_, one) in zip(found.devices, found.busy, strict=True)}

    def share_busy(self, begin: int, end: int) -> float:
        """Mean utilization of the devices in some time, 0 to 1."""
        busy = self.busy.values()
        if not busy or end <= begin:
            return 0.0
        return sum(intervals.clipped(one, begin, end).total for one in busy) / ((end - begin) * len(busy))

    def copies_unseen(self, function: str) -> bool:
        """Whether a call of this function copied but the trace has no copies, so the device may have copied during the call."""
        return not self.trace.count("memcpy") and api_names.copies(function)

    def stack_text(self, stack: int) -> str:
        """The two innermost user frames of a stack, innermost first, or ""."""
        return user_frames(self.trace.stacks([stack]).get(stack, ()), 2) if stack else ""

    def common_stack(self, stacks: Column) -> int:
        """The most frequent stack; 0 if there is none."""
        known = stacks[stacks > 0]
        if not len(known):
            return 0
        values, counts = np.unique(known, return_counts=True)
        return int(values[np.argmax(counts)])


def longest(begin: Column, end: Column) -> tuple[int, int] | None:
    """The longest of some stretches of time (ns), the first one on ties, or None."""
    if not len(begin):
        return None
    row = int(np.argmax(end - begin))
    return int(begin[row]), int(end[row])

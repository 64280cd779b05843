"""What rules look at, computed once: device work and its launch calls, waits of the host, the steady state, idle gaps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.frames import user_frames
from warpsight.analysis.path import rows as host_rows
from warpsight.analysis.path.rows import CallIndex, Calls
from warpsight.analysis.steps import announcements, iterations
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.intervals import Intervals
from warpsight.model.selection import Rows, begin_of
from warpsight.model.work import COPY, Work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
_ALL = Rows()
_WAITS = ("stream", "context", "event", "finish", "wait for events")


@dataclass(frozen=True)
class Waits:
    """Calls in which the host waited for the device, by end. Times in ns.

    `thread` is -1 where the call is not in the trace; `copy` says that a blocking copy waited, not a synchronisation.
    """

    start: Column
    end: Column
    process: Column
    thread: Column
    function: list[str]
    code: Column
    stack: Column
    copy: Column

    def __len__(self) -> int:
        return len(self.start)


class Facts:
    """The facts of one trace; all are computed when first asked for."""

    def __init__(self, trace: Trace, rows: Rows = _ALL) -> None:
        """Note what to look at; nothing is read yet."""
        self.trace = trace
        self.rows = rows

    @cached_property
    def work(self) -> Work:
        """All device work that the rows select."""
        return device_work.load(self.trace, self.rows)

    @cached_property
    def _counters(self) -> dict[int, tuple[Column, Column, dict[str, Column]]]:
        columns, texts = self.trace.columns("counter", {"time": 0, "value": 0, "device": -1}, ["name"])
        order = np.argsort(columns["time"], kind="stable")
        time, value, device, name = (columns[c][order] for c in ("time", "value", "device", "name"))
        found = {}
        for one in device_work.distinct(device)[0].tolist():
            mine = np.flatnonzero(device == one)
            rows = device_work.split(name[mine], len(texts["name"]))
            found[one] = time[mine], value[mine], dict(zip(texts["name"], rows, strict=True))
        return found

    def counters(self, device: int) -> tuple[Column, Column, dict[str, Column]]:
        """Time and value of a device's counters, by time, and the rows of each name."""
        none = np.zeros(0, np.int64)
        return self._counters.get(device, (none, none.astype(float), {}))

    @cached_property
    def origin(self) -> int:
        """Time 0 of what users see."""
        return begin_of(self.trace)

    @cached_property
    def opencl(self) -> bool:
        """Whether the work is OpenCL's: some advice is about what only CUDA has."""
        found = self.trace.sql("SELECT DISTINCT platform FROM device").fetchall()
        return bool(found) and all(platform == "opencl" for (platform,) in found)

    @cached_property
    def calls(self) -> Calls:
        """All host calls."""
        return host_rows.calls(self.trace, Rows(processes=self.rows.processes))

    @cached_property
    def index(self) -> CallIndex:
        """Calls by correlation."""
        return CallIndex(self.calls)

    @cached_property
    def call(self) -> Column:
        """The call of each row of :attr:`work`, -1 where the trace has none."""
        return self.index.find(self.work.process, np.maximum(self.work.correlation, 0))

    @cached_property
    def iterations(self) -> list[Iterations]:
        """Iterations of each process."""
        whole = self.rows.begin is None and self.rows.end is None
        work = self.work if whole else device_work.load(self.trace, self.rows, cut=False)
        return iterations.find(self.trace, self.rows, work)

    @cached_property
    def window(self) -> tuple[int, int]:
        """The time that rules judge: the steady state where there is one, else from the first to the last device work.

        What comes before (imports, loading of code, warm-up) happens once, and would drown what happens in every turn.
        """
        if self.rows.begin is not None or self.rows.end is not None:
            return self.work.begin, self.work.finish
        whole = max(self.work.finish - self.work.begin, 1)
        steady = [w for w in (one.window() for one in self.iterations) if w is not None]
        if steady:
            begin, end = min(w[0] for w in steady), max(w[1] for w in steady)
            turns = sum(int(one.steady.sum()) for one in self.iterations)
            inside = int(((self.work.start >= begin) & (self.work.start < end)).sum())
            # A loop that is a small part of the work does not speak for the program.
            if turns >= announcements.LEAST and (inside * 2 >= len(self.work) or (end - begin) * 2 >= whole):
                return begin, end
        return self.work.begin, self.work.finish

    @cached_property
    def host_window(self) -> tuple[int, int]:
        """The time in which the host issued the work of the window: it runs ahead of the device."""
        call = self.call[self.inside]
        call = call[call >= 0]
        if not len(call):
            return self.window
        return int(self.calls.start[call].min()), max(int(self.calls.end[call].max()), 1)

    @cached_property
    def steady(self) -> bool:
        """Whether the window is that of iterations."""
        return self.window != (self.work.begin, self.work.finish) and bool(self.iterations)

    @property
    def length(self) -> int:
        """Length of the window, at least 1 ns."""
        return max(self.window[1] - self.window[0], 1)

    @cached_property
    def inside(self) -> Column:
        """Which rows of :attr:`work` begin in the window."""
        mask: Column = (self.work.start >= self.window[0]) & (self.work.start < self.window[1])
        return mask

    @cached_property
    def busy(self) -> dict[int | None, Intervals]:
        """Busy time of each device in the window."""
        return {device: intervals.clipped(whole, *self.window) for device, whole in self.worked.items()}

    @cached_property
    def worked(self) -> dict[int | None, Intervals]:
        """Busy time of each device, in the window and outside of it."""
        return {device: self.work.of_kind(among=index) for device, index in self.work.per_device()}

    def share_busy(self) -> float:
        """Mean utilisation of the devices in the window, 0 to 1."""
        if not self.busy:
            return 0.0
        return sum(b.total for b in self.busy.values()) / (self.length * len(self.busy))

    @cached_property
    def waits(self) -> Waits:
        """Waits of the host: synchronisation, and copies that block the caller."""
        parts = [*self._synchronisations(), *self._blocking_copies()]
        columns = [np.concatenate(c) if parts else np.zeros(0, np.int64) for c in zip(*parts, strict=True)]
        if not parts:
            columns = [np.zeros(0, np.int64)] * 7
        start, end, process, thread, code, stack, copy = columns
        order = np.argsort(end, kind="stable")
        names = [*self.calls.functions, *_WAITS]
        return Waits(start[order], end[order], process[order], thread[order], names, code[order], stack[order],
                     copy[order].astype(bool))  # fmt: skip

    def _synchronisations(self) -> list[tuple[Column, ...]]:
        if not self.trace.count("sync"):
            return []
        where = Rows(processes=self.rows.processes).where(device=False, stream=False)
        cases = " ".join(f"WHEN '{kind}' THEN {i}" for i, kind in enumerate(_WAITS))
        listed = ", ".join(f"'{kind}'" for kind in _WAITS)
        rows = host_rows.columns(
            self.trace,
            f"""SELECT start, start + duration AS "end", process, coalesce(correlation, 0) AS correlation,
                CASE kind {cases} END AS kind FROM sync WHERE kind IN ({listed}) AND {where}""",
        )
        call = self.index.find(rows["process"], rows["correlation"])
        stack = self._stacks("api", rows["process"], rows["correlation"])
        if not len(self.calls):
            none = np.full(len(call), -1, np.int64)
            return [(rows["start"], rows["end"], rows["process"], none, rows["kind"], stack, none * 0)]
        safe = np.maximum(call, 0)
        known = call >= 0
        code = np.where(known, self.calls.function[safe], len(self.calls.functions) + rows["kind"])
        thread = np.where(known, self.calls.thread[safe] & 0xFFFFFFFF, -1)
        return [
            (rows["start"], rows["end"], rows["process"], thread, code, stack, np.zeros(len(call), np.int64))
        ]

    def _blocking_copies(self) -> list[tuple[Column, ...]]:
        if not self.trace.count("memcpy") or not len(self.calls):
            return []
        blocking = """NOT asynchronous OR (kind <> 'HtoD' AND (source_kind = 'pageable' OR destination_kind = 'pageable'))"""
        rows = host_rows.columns(
            self.trace,
            f"""SELECT process, coalesce(correlation, 0) AS correlation, coalesce(stack, 0) AS stack FROM memcpy
                WHERE ({blocking}) AND {Rows(processes=self.rows.processes).where()}""",
        )
        call = self.index.find(rows["process"], rows["correlation"])
        good = call >= 0
        call, stack = call[good], rows["stack"][good]
        found = self.calls
        return [(found.start[call], found.end[call], found.process[call], found.thread[call] & 0xFFFFFFFF,
                 found.function[call], stack, np.ones(len(call), np.int64))]  # fmt: skip

    def _stacks(self, table: str, process: Column, correlation: Column) -> Column:
        """Stacks of calls by correlation; 0 where unknown."""
        rows = host_rows.columns(
            self.trace,
            f"SELECT process, correlation, stack FROM {table} WHERE stack IS NOT NULL AND correlation IS NOT NULL",
        )
        keys = (rows["process"].astype(np.int64) << 40) ^ rows["correlation"]
        wanted = (process.astype(np.int64) << 40) ^ correlation
        if not len(keys):
            return np.zeros(len(wanted), np.int64)
        order = np.argsort(keys, kind="stable")
        at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
        return np.where(keys[order][at] == wanted, rows["stack"][order][at], 0).astype(np.int64)

    def stack_text(self, stack: int, frames: int = 2) -> str:
        """The innermost frames of a stack that are the user's own, innermost first; "" for none."""
        return user_frames(self.trace.stacks([stack]).get(stack, ()), frames) if stack else ""

    def common_stack(self, stacks: Column) -> int:
        """The stack that occurs most often; 0 without any."""
        known = stacks[stacks > 0]
        if not len(known):
            return 0
        values, counts = np.unique(known, return_counts=True)
        return int(values[np.argmax(counts)])

    def copies_exposed(self, rows: Column) -> int:
        """Time in the window in which chosen work ran and no kernel did, ns."""
        own = intervals.clipped(self.work.of_kind(among=rows), *self.window)
        kernels = self.work.of_kind(among=self.work.kind < COPY)
        return intervals.difference(own, kernels).total

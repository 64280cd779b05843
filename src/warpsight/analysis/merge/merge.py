"""Stacks joined with GPU work: which stack launched it, with what certainty, and a check that no time is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.merge import clocks, inputs, matching
from warpsight.analysis.merge.inputs import LaunchedWork, LaunchingCalls
from warpsight.analysis.merge.matching import ALONE, AMBIGUOUS, FOREIGN, MATCHED
from warpsight.errors import UsageError
from warpsight.formats.reading.samples import Samples, is_launch

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]

#: What the lines of a folded file can count.
WEIGHTS = ("count", "time", "bytes")
NO_STACK = "[no host stack]"
_UNSURE = "[host stack ambiguous]"
NO_CALL = "[launch not recorded]"
_PENDING = "[GPU_Launch_Pending]"
#: Uninformative frames.
DROPPED = frozenset(("", "_start", "__libc_start_main", "__libc_start_call_main", "<no-symbol>"))


@dataclass(frozen=True)
class Merged:
    """A merge: `call` is the call of each stack or -1, `state` the outcome for each stack (see `matching`)."""

    samples: Samples
    calls: LaunchingCalls
    work: LaunchedWork
    call: Column
    state: Column
    clock: clocks.ClockOffset | None
    #: Stacks were compared thread by thread
    by_thread: bool
    by_id: int = 0

    def folded(self, weight: str = "time") -> dict[str, int]:
        """Folded stacks (outermost first) with their weight: kernels, ns or bytes.

        Every piece of device work is in exactly one line; stacks whose launch left no work are lines of weight `count`
        only.

        Raises:
            UsageError: for an unknown weight.
        """
        if weight not in WEIGHTS:
            raise UsageError(f"there is no weight {weight!r}: {', '.join(WEIGHTS)}")
        stack = self._stack_of_work()
        amount = {
            "count": np.ones(len(self.work), np.int64),
            "time": self.work.duration,
            "bytes": self.work.bytes,
        }[weight]
        lines: dict[str, int] = {}
        width = len(self.work.labels) + 1
        keys, where = np.unique((stack + 3) * width + self.work.label, return_inverse=True)
        sums = np.zeros(len(keys), np.int64)
        np.add.at(sums, where, amount)
        for key, total in zip(keys.tolist(), sums.tolist(), strict=True):
            if total:
                number, label = divmod(key, width)
                line = f"{self._root(number - 3)};{self.work.labels[label]}"
                lines[line] = lines.get(line, 0) + total
        if weight == "count":
            waiting = self.samples.stack[self._pending()]
            for number, count in zip(
                *(c.tolist() for c in np.unique(waiting, return_counts=True)), strict=True
            ):
                line = f"{self._root(number)};{_PENDING}"
                lines[line] = lines.get(line, 0) + count
        return lines

    def _pending(self) -> Column:
        """Stacks whose launch is not in the GPU trace, or left no work there."""
        worked = np.zeros(len(self.calls) + 1, bool)
        worked[self.work.call] = True
        idle = (self.state == MATCHED) & ~worked[self.call]
        waiting: Column = (self.state == ALONE) | idle
        return waiting

    def _stack_of_work(self) -> Column:
        """The stack of each piece of work; -1: none was taken, -2: ambiguous, -3: its launch is not in the trace."""
        of_call = np.full(len(self.calls) + 1, -1, np.int64)
        of_call[self._unsure_calls()] = -2
        matched = self.state == MATCHED
        of_call[self.call[matched]] = self.samples.stack[matched]
        of_call[-1] = -3
        found: Column = of_call[self.work.call]
        return found

    def _unsure_calls(self) -> Column:
        """Calls without a stack to which an ambiguous stack may belong."""
        if self.clock is None or not (self.state == AMBIGUOUS).any():
            return np.empty(0, np.int64)
        free = np.ones(len(self.calls), bool)
        free[self.call[self.state == MATCHED]] = False
        if not self.clock.known:
            return np.flatnonzero(free)
        moments = np.sort(self.clock.corrected(self.samples.time[self.state == AMBIGUOUS]))
        near = np.minimum(np.searchsorted(moments, self.calls.start), len(moments) - 1)
        before = np.maximum(near - 1, 0)
        distance = np.minimum(
            np.abs(moments[near] - self.calls.start), np.abs(moments[before] - self.calls.start)
        )
        return np.flatnonzero(free & (distance <= 1_000_000))

    def _root(self, number: int) -> str:
        if number < 0:
            return (NO_STACK, _UNSURE, NO_CALL)[-1 - number]
        frames = [frame[0].replace(";", ":") for frame in self.samples.stacks[number]]
        return ";".join(f for f in frames if f not in DROPPED) or NO_STACK

    def summary(self) -> Result:
        """Conservation, clocks, counts by name; findings name the doubts."""
        return Result(
            {"conservation": self._conservation(), "clock": self._clock_table(), "kernels": self._by_name()},
            tuple(self._findings()),
        )

    def _conservation(self) -> pa.Table:
        stack = self._stack_of_work()
        rows = []
        for what, chosen in (("with their stack", stack >= 0), ("ambiguous", stack == -2), ("without a stack", stack == -1),
                             ("launch not recorded", stack == -3), ("all", stack >= -3)):  # fmt: skip
            time = int(self.work.duration[chosen].sum())
            rows.append(
                {
                    "work": what,
                    "count": int(chosen.sum()),
                    "time": time,
                    "bytes": int(self.work.bytes[chosen].sum()),
                }
            )
        return with_units(pa.Table.from_pylist(rows), time="ns", bytes="B")

    def failure(self) -> str | None:
        """Why no stack found its launch, as the end of a sentence, or None."""
        counts = self.counts()
        if counts["matched"]:
            return None
        if not counts["launches"]:
            return "the GPU side has no launches"
        if counts["foreign"] == counts["stacks"]:
            return "they belong to processes that the GPU side does not have"
        if self.clock is not None and not self.clock.known:
            return "the clocks of the two files cannot be related"
        return (
            f"the GPU side's {counts['launches']:,} launches are of other functions, or too far away in time"
        )

    @property
    def span_ns(self) -> int:
        """From the first stack to the last."""
        return int(self.samples.time.max() - self.samples.time.min()) if len(self.samples) else 0

    def counts(self) -> dict[str, int]:
        """Outcome for stacks and launches, as counts."""
        state = {name: int((self.state == value).sum()) for name, value in
                 (("matched", MATCHED), ("ambiguous", AMBIGUOUS), ("alone", ALONE), ("foreign", FOREIGN))}  # fmt: skip
        return {"stacks": len(self.samples), **state, "launches": len(self.calls), "work": len(self.work)}

    def _clock_table(self) -> pa.Table:
        clock = self.clock
        row = {
            "offset": None if clock is None else int(clock.offset[0]),
            "drift": None if clock is None else clock.drift * 1e6,
            "explained": None if clock is None else clock.explained * 100,
            "rival": None if clock is None else clock.rival * 100,
            "by": f"id for {self.by_id:,}" if self.by_id else "thread" if self.by_thread else "process",
        }
        types = {
            "offset": pa.int64(),
            "drift": pa.float64(),
            "explained": pa.float64(),
            "rival": pa.float64(),
        }
        columns = {name: pa.array([value], types.get(name, pa.string())) for name, value in row.items()}
        return with_units(pa.table(columns), offset="ns", drift="ppm", explained="%", rival="%")

    def _by_name(self) -> pa.Table:
        width = len(self.work.labels)
        count = np.bincount(self.work.label, minlength=width)
        time = np.zeros(width, np.int64)
        np.add.at(time, self.work.label, self.work.duration)
        order = np.argsort(-time, kind="stable")
        table = pa.table(
            {"name": [self.work.labels[i] for i in order], "count": count[order], "time": time[order]}
        )
        return with_units(table, time="ns")

    def _findings(self) -> list[Finding]:
        found = []
        counts = self.counts()
        if self.clock is not None and not self.clock.known:
            text = "several clock offsets fit the two files equally well: no stack is matched by time"
            found.append(
                Finding("warning", text, {"explained": self.clock.explained, "rival": self.clock.rival})
            )
        for key, one, several in (
            (
                "ambiguous",
                "stack could belong to more than one launch; it is on none",
                "stacks could belong to more than one launch; they are on none",
            ),
            ("alone", "stack has no launch in the GPU trace", "stacks have no launch in the GPU trace"),
            (
                "foreign",
                "stack belongs to a process that the GPU trace does not have",
                "stacks belong to processes that the GPU trace does not have",
            ),
        ):
            if counts[key]:
                found.append(
                    Finding(
                        "warning" if key != "foreign" else "note",
                        words.counted(counts[key], one, several),
                        {key: counts[key]},
                    )
                )
        if self.samples.skipped:
            skipped = words.counted(self.samples.skipped, "line", "lines")
            text = f"{skipped} of the stack file could not be read"
            found.append(Finding("loss", text, {"skipped": self.samples.skipped}))
        return found


def merge(samples: Samples, trace: StoredTrace, tolerance_ns: int = 10_000_000) -> Merged:
    """Find the launch that each stack belongs to.

    Args:
        samples: Stacks from another tool; those of processes missing from the trace are dropped.
        trace: The GPU side.
        tolerance_ns: How far a stack may be from its launch once the clocks are aligned.
    """
    calls = inputs.calls_of(trace)
    work = inputs.work_of(trace, calls)
    process = _processes(samples, trace, calls)
    call = np.full(len(samples), -1, np.int64)
    state = np.where(process < 0, FOREIGN, ALONE).astype(np.uint8)
    at, names = inputs.probed(samples)
    group, call_group = _groups(at, names, calls)
    known = inputs.by_id(samples, calls, process, at, names)
    call[known >= 0], state[known >= 0] = known[known >= 0], MATCHED
    identified = int((known >= 0).sum())
    own = np.flatnonzero((process >= 0) & (known < 0))
    taken = np.zeros(len(calls), bool)
    taken[known[known >= 0]] = True
    call_group = np.where(taken, -1, call_group)
    ours = np.sort(samples.time[own])
    theirs = np.sort(calls.start[np.isin(call_group, np.unique(group[own]))])
    clock = clocks.find(ours, theirs)
    threaded = _threads_tell(samples, calls, own)
    if clock is None:
        return Merged(samples, calls, work, call, state, None, threaded, identified)
    if not clock.known:
        state[own] = AMBIGUOUS
        return Merged(samples, calls, work, call, state, clock, threaded, identified)
    moments = clock.corrected(samples.time)
    left = np.where(known < 0, process, -1)
    pairs = _sequences(samples, calls, left, group, call_group, moments, threaded)
    allowed = matching.window(
        [moments[a] for a, _ in pairs], [calls.start[b] for _, b in pairs], tolerance_ns
    )
    for ours, theirs in pairs:
        found, became = matching.match(moments[ours], calls.start[theirs], allowed, ordered=threaded)
        state[ours] = became
        matched = became == MATCHED
        call[ours[matched]] = theirs[found[matched]]
    return Merged(samples, calls, work, call, state, clock, threaded, identified)


def _processes(samples: Samples, trace: StoredTrace, calls: LaunchingCalls) -> Column:
    """The trace process of each sample, -1 for none; if no pid matches and each side has one process, that one."""
    known = inputs.pids_of(trace)
    pids, place = np.unique(samples.pid, return_inverse=True)
    found = np.array([known.get(pid, -1) for pid in pids.tolist()] or [-1], np.int64)
    active = np.unique(calls.process)
    if (found < 0).all() and len(pids) == 1 and len(active) == 1:
        found[:] = active[0]
    processes: Column = found[place.ravel()] if len(samples) else np.empty(0, np.int64)
    if bool(
        (samples.pid == samples.tid).all()
    ):  # perf without pids: a thread's id may still identify its process
        pairs = {
            thread: process
            for process, thread in zip(calls.process.tolist(), calls.thread.tolist(), strict=True)
        }
        lost = np.flatnonzero(processes < 0)
        processes[lost] = [pairs.get(tid, -1) for tid in samples.tid[lost].tolist()]
    return processes


def _threads_tell(samples: Samples, calls: LaunchingCalls, own: Column) -> bool:
    """Whether thread ids identify which stack can belong to which call: some profilers write the pid instead."""
    ours, theirs = np.unique(samples.tid[own]), np.unique(calls.thread)
    return bool(np.isin(ours, theirs).all()) and (len(ours) >= len(theirs) or len(theirs) == 1)


def _groups(at: Column, names: list[str], calls: LaunchingCalls) -> tuple[Column, Column]:
    """Which stacks and calls can be pairs: those of one function, else any launch with any launch.

    Returns int64[samples] and int64[calls] of equal numbers where a pair is possible.
    """
    own = {name: i + 1 for i, name in enumerate(calls.functions)}
    others = [name for name in calls.functions if name not in names]
    # A stack without a known function, or with one that the trace calls otherwise, may be any launch left over.
    left = [name for name in others if is_launch(name)] or [
        name for name in calls.functions if is_launch(name)
    ]
    of_sample = np.array([own.get(name, 0) for name in names], np.int64)
    of_call = np.array(
        [0 if name in left and name not in names else own[name] for name in calls.functions] or [0], np.int64
    )
    return of_sample[at], of_call[calls.function] if len(calls) else np.empty(0, np.int64)


def _sequences(
    samples: Samples,
    calls: LaunchingCalls,
    process: Column,
    group: Column,
    call_group: Column,
    moments: Column,
    threaded: bool,
) -> list[tuple[Column, Column]]:
    """Stacks and calls that can be pairs, sorted by time: of one process and function, and of one thread."""
    ours = [process, group] + ([samples.tid] if threaded else [])
    theirs = [calls.process, call_group] + ([calls.thread] if threaded else [])
    number = np.zeros(len(samples) + len(calls), np.int64)
    for mine, other in zip(ours, theirs, strict=True):
        values, place = np.unique(np.concatenate([mine, other]), return_inverse=True)
        number = number * len(values) + place
    mine, other = number[: len(samples)], number[len(samples) :]
    own = np.flatnonzero(process >= 0)
    order = own[np.lexsort((moments[own], mine[own]))]
    call_order = np.lexsort((calls.start, other))
    pairs = []
    for sequence in np.unique(mine[own]).tolist():
        a = order[slice(*np.searchsorted(mine[order], [sequence, sequence + 1]))]
        b = call_order[slice(*np.searchsorted(other[call_order], [sequence, sequence + 1]))]
        if len(b):
            pairs.append((a, b))
    return pairs

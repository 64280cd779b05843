"""What host threads did, as far as the trace tells: calls they were in, what samples saw, what the profiler itself took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.calls import Calls
from warpsight.model.intervals import EMPTY, Intervals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warpsight.model import Trace

Column = NDArray[Any]
Thread = tuple[int, int]
#: Stands for all threads of a process: rows that do not tell their thread.
ANY = -1
#: SQL that sorts functions of table api by what a host in them does.
_DOES = """CASE WHEN regexp_matches(function, 'Synchronize|clFinish|clWaitForEvents') THEN 0
    WHEN regexp_matches(function, 'Memcpy|memcpy|clEnqueue(Read|Write|Copy|Map)') THEN 1 ELSE 2 END"""
#: Sync rows of this kind make a stream wait, not the host.
STREAM_WAIT = "stream wait event"


@dataclass(frozen=True)
class Samples:
    """Samples of one thread by time: stack (0 none), and whether the thread ran (or held the GIL)."""

    time: Column
    stack: Column
    ran: Column


_NO_SAMPLES = Samples(*(np.empty(0, np.int64),) * 3)


@dataclass
class Host:
    """Evidence by (process, thread); sets of moments. Sets under thread :data:`ANY` hold for every thread of the process."""

    overhead: dict[Thread, Intervals] = field(default_factory=dict)
    waiting: dict[Thread, Intervals] = field(default_factory=dict)
    copying: dict[Thread, Intervals] = field(default_factory=dict)
    calling: dict[Thread, Intervals] = field(default_factory=dict)
    samples: dict[Thread, Samples] = field(default_factory=dict)

    def sets(self, thread: Thread) -> tuple[Intervals, Intervals, Intervals, Intervals]:
        """Overhead, waits, copies and other calls of a thread."""
        kinds = (self.overhead, self.waiting, self.copying, self.calling)
        return tuple(_own(kind, thread) for kind in kinds)  # type: ignore[return-value]

    def sampled(self, thread: Thread) -> Samples:
        """The samples of a thread."""
        return self.samples.get(thread, _NO_SAMPLES)


def load(trace: Trace, issued: Calls, processes: Iterable[int]) -> Host:
    """Everything the trace tells about the host threads of some processes; `issued` must hold table api too."""
    where = f"process IN ({', '.join(str(p) for p in processes) or 'NULL'})"
    host = Host()
    spent = f"SELECT process, coalesce(thread, {ANY}), start, duration FROM overhead WHERE {where}"
    host.overhead = _by_thread(*_columns(trace, spent))
    sync = _columns(trace, f"""SELECT process, start, duration, coalesce(correlation, -1) FROM sync
        WHERE kind <> '{STREAM_WAIT}' AND {where}""")  # fmt: skip
    call = issued.of(sync[0], sync[3])
    thread = np.where(call >= 0, issued.thread[call] if len(issued) else ANY, ANY)
    does = _columns(
        trace, f"""SELECT process, thread, start, coalesce(duration, 0), {_DOES} FROM api WHERE {where}"""
    )
    called = [column[does[4] == 0] for column in does[:4]]
    rows = zip((sync[0], thread, sync[1], sync[2]), called, strict=True)
    waits = [np.concatenate(pair) for pair in rows]
    host.waiting = _by_thread(*waits)
    host.copying = _by_thread(*(c[does[4] == 1] for c in does[:4]))
    host.calling = _by_thread(*(c[does[4] == 2] for c in does[:4]))
    host.samples = _samples(trace, where)
    return host


def _columns(trace: Trace, sql: str) -> list[Column]:
    return [column.to_numpy() for column in trace.sql(sql).to_arrow_table().columns]


def _by_thread(process: Column, thread: Column, start: Column, duration: Column) -> dict[Thread, Intervals]:
    if not len(process):
        return {}
    code, (processes, threads) = device_work.numbered([process, thread])
    keys = zip(processes.tolist(), threads.tolist(), strict=True)
    end = start + np.maximum(duration, 0)
    return {
        key: intervals.union(start[rows], end[rows])
        for key, rows in zip(keys, device_work.split(code, len(processes)), strict=True)
    }


def _own(kind: dict[Thread, Intervals], thread: Thread) -> Intervals:
    found = [kind[key] for key in {thread, (thread[0], ANY)} if key in kind]
    return intervals.merged(*found) if len(found) > 1 else found[0] if found else EMPTY


def _samples(trace: Trace, where: str) -> dict[Thread, Samples]:
    sql = f"""SELECT process, thread, time, coalesce(stack, 0), (state = 'R' OR gil)::TINYINT FROM sample WHERE {where}
        ORDER BY process, thread, time"""
    process, thread, time, stack, ran = _columns(trace, sql)
    if not len(process):
        return {}
    code, (processes, threads) = device_work.numbered([process, thread])
    keys = zip(processes.tolist(), threads.tolist(), strict=True)
    return {
        key: Samples(time[rows], stack[rows], ran[rows])
        for key, rows in zip(keys, device_work.split(code, len(processes)), strict=True)
    }

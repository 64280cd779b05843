"""Reading Kineto's JSON, piece by piece.

Each piece of some ten thousand events is sorted by category and becomes columns; what needs the whole file (stacks,
which Python functions give; the process, which device work does not name) is held until its end.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.chrome.times import MISSING, nanoseconds
from warpsight.formats.kineto import device_rows, header, host_rows
from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.columns import table as as_table
from warpsight.formats.kineto.events import NO_ARGS, Decoder, Event, MoreArgs
from warpsight.formats.kineto.finishing import finish
from warpsight.formats.kineto.held import Held
from warpsight.formats.kineto.placing import Placing
from warpsight.formats.kineto.stacks import PythonStacks
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "operators (shapes, sequence numbers, all other arguments as JSON); Python functions, as ranges and as stacks of "
        "operators, calls and device work; `Call stack` where there are no Python functions",
        "runtime and driver calls of CUDA, HIP, XPU and MTIA; kernels, copies, fills, waits, recorded events; graph ids",
        "collectives with payload, group and rank; forward-backward links; memory events; counters; annotations on host "
        "and device; profiler steps; device properties; rank and world size; times to the nanosecond",
        "fields that no column holds, also those that this version does not know: as attributes",
    ),
    lost=(
        "what Kineto derives and anybody can derive again: ac2g arrows (they repeat the correlation), External id of device "
        "work, cbid, blocks and warps per SM, occupancy, memory bandwidth, record function id, Ev Idx",
        "channels and priorities of device work, HSA queues",
        "environment variables in a user's metadata (they hold passwords)",
    ),
    tested=(
        "torch 2.6, CUDA 12.4, one H100: 18,221 events of a Qwen 0.5B inference (AMD-AGI/TraceLens, MIT)",
        "torch 2.6, ROCm 6, one MI300X: 18,090 events of the same model (AMD-AGI/TraceLens, MIT)",
        "XPU, MTIA, collectives, waits: events as libkineto's sources write them (`output_json.cpp`, `CuptiActivity.h`, "
        "`XpuptiActivityHandlers.cpp`)",
    ),
)

Columns = dict[str, Any]
Times = NDArray[np.int64]
_RUNTIME = frozenset((
    "cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime", "privateuse1_runtime",
    "privateuse1_driver", "runtime", "driver",
))  # fmt: skip
_KERNEL = frozenset(("kernel", "Kernel", "mtia_ccp_events", "mtia_kernel"))
_DEVICE: dict[str, tuple[str, Callable[[Sequence[Event], Placing], Columns]]] = {
    **dict.fromkeys(_KERNEL, ("kernel", device_rows.kernels)),
    "gpu_memcpy": ("memcpy", device_rows.memcpys),
    "gpu_memset": ("memset", device_rows.memsets),
    "cuda_sync": ("sync", device_rows.syncs),
    "xpu_sync": ("sync", device_rows.syncs),
}
_MARKS = (b'"baseTimeNanoseconds"', b'"deviceProperties"', b'"distributedInfo"', b'"cat": "cpu_op"', b'"cat":"cpu_op"',
          b'"Record function id"', b'"cat": "python_function"', b'"cat": "cuda_runtime"', b'"External id"',
          b'"cat": "user_annotation"', b'"ProfilerStep#')  # fmt: skip


def sniff(source: Source) -> bool:
    """Trace event JSON with one of Kineto's own words in its head."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] not in (b"{", b"[") or b'"otherData":{"recorder":"warpsight"' in head[:200]:
        return False  # our own Chrome export may name what Kineto named
    whole = head[:1] == b"[" or b'"traceEvents"' in head
    return (whole and any(mark in head for mark in _MARKS)) or (
        _MARKS[1] in head and b'"schemaVersion"' in head
    )


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file, which tells of one process."""
    reading = _Reading(target)
    collecting = gc.isenabled()
    gc.disable()  # events are no cycles: looking for some takes a fifth of the time
    try:
        stream = EventStream(source, Decoder())
        for events in stream:
            reading.piece(events)
        if not reading.events:
            raise source.error("holds no trace events")
        header.apply(stream.header, reading.placing)
        finish(reading.held, reading.stacks, reading.placing, reading.flows)
        reading.finish_names()
        for place in stream.damaged:
            target.lost(1, f"{source.name} is damaged at byte {place:,}: events there were skipped", "event")
        if reading.timeless:
            target.lost(reading.timeless, "events without a time that can be read", "event")
    finally:
        reading.held.close()
        if collecting:
            gc.enable()


class _Reading:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.placing = Placing(target)
        self.stacks = PythonStacks(target.definitions)
        self.held = Held()
        #: fwdbwd arrows: id, thread key, moment, begins here
        self.flows: list[tuple[Any, int, int, bool]] = []
        self.events = 0
        self.timeless = 0
        self._texts = host_rows.Texts()
        self._metadata: list[Event] = []
        self._ordinals: dict[str, int] = {}

    def piece(self, events: list[Event]) -> None:
        """Rows of some events."""
        self.events += len(events)
        groups: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            key = (event.ph, event.cat)
            if key in groups:
                groups[key].append(event)
            else:
                groups[key] = [event]
        for (phase, category), group in groups.items():
            if phase == "M":
                self._metadata += [detached(event) for event in group]
            elif category != "ac2g":
                self._group(phase, category, group)

    def _group(self, phase: str, category: str, group: list[Event]) -> None:
        start = nanoseconds([e.ts for e in group])
        known = start != MISSING
        if not known.all():
            self.timeless += int((~known).sum())
            group = [e for e, k in zip(group, known.tolist(), strict=True) if k]
            start = start[known]
        if not group:
            return
        if phase == "X":
            duration = nanoseconds([e.dur for e in group])
            self._complete(category, group, start, np.maximum(duration, 0))
        elif phase in ("i", "I", "R"):
            self._instants(category, group, start)
        elif phase == "C":
            self._counters(group, start)
        elif phase in ("s", "t", "f"):
            self._flows(group, start, phase)
        else:
            self._markers(category, group, start, np.zeros(len(group), np.int64))

    def _complete(self, category: str, group: list[Event], start: Times, duration: Times) -> None:
        if category in _DEVICE:
            table, made = _DEVICE[category]
            self._hold(table, group, start, duration, made(group, self.placing))
            if category in _KERNEL:
                self._collectives(group, start, duration)
        elif category in _RUNTIME:
            self._calls(group, start, duration)
        elif category in ("cpu_op", "hpu_op"):
            columns = host_rows.operators(group, self.placing, self._texts)
            self._hold("op", group, start, duration, columns, attributes=False)
        elif category == "python_function":
            self._functions(group, start, duration)
        elif category == "cuda_event":
            columns = {"time": start, **device_rows.recorded(group, self.placing)}
            self.held.add("event", as_table(columns))
        elif category == "overhead":
            self._overhead(group, start, duration)
        else:
            self._markers(category, group, start, duration)

    def _hold(
        self,
        table: str,
        group: list[Event],
        start: Times,
        duration: Times,
        columns: Columns,
        attributes: bool = True,
    ) -> None:
        if "thread" in columns:
            columns["_thread"] = keys(columns["process"], columns["thread"])
        self.held.add(table, as_table({"start": start, "duration": duration, **columns}))
        if attributes:
            self._extras(table, group)

    def _extras(self, table: str, group: list[Event]) -> None:
        """Unknown fields of rows whose table has no column for them."""
        first = self._ordinals.get(table, 0)
        self._ordinals[table] = first + len(group)
        for i, event in enumerate(group):
            for key, text in (event.extra or {}).items():
                self.target.attribute(table, first + i, key, text, self.placing.main)

    def _calls(self, group: list[Event], start: Times, duration: Times) -> None:
        launching = np.fromiter((host_rows.is_launch(e.name) for e in group), bool, len(group))
        for chosen, table, make in (
            (launching, "launch", host_rows.launches),
            (~launching, "api", host_rows.calls),
        ):
            if chosen.any():
                part = [e for e, c in zip(group, chosen.tolist(), strict=True) if c]
                columns = make(part, self.placing)
                columns["_external"] = [(e.args or NO_ARGS).external for e in part]
                columns["_call_stack"] = [
                    e.args.call_stack if isinstance(e.args, MoreArgs) else None for e in part
                ]
                self._hold(table, part, start[chosen], duration[chosen], columns)

    def _functions(self, group: list[Event], start: Times, duration: Times) -> None:
        columns = self.placing.where(group)
        threads = keys(columns["process"], columns["thread"])
        stacks = self.stacks.add(group, threads, start, duration)
        rows = len(group)
        self.target.add("marker", as_table({
            "start": start, "duration": duration, "kind": constant("push/pop", rows), "open": constant(False, rows),
            "name_id": self.placing.names(group), "domain": constant("python", rows), "source": constant("framework", rows),
            "category": constant("python_function", rows), "stack": stacks, **columns,
        }))  # fmt: skip

    def _markers(self, category: str, group: list[Event], start: Times, duration: Times | None) -> None:
        """Annotations, and whatever nobody knows: a range with its category and its arguments."""
        if category.startswith("gpu_"):
            process = [self.placing.main] * len(group)
            tids = [f"gpu {e.pid} stream {e.tid}" for e in group]
            columns: Columns = {
                "process": process,
                "thread": [self.placing.thread(p, t) for p, t in zip(process, tids, strict=True)],
            }
        else:
            columns = self.placing.where(group)
        without = host_rows.OPERATOR_COLUMNS - {"Input Dims", "Sequence number", "Call stack"}
        if duration is not None:
            columns["duration"] = duration
        rows = len(group)
        self.target.add("marker", as_table({
            "start": start, "kind": constant("instant" if duration is None else "push/pop", rows),
            "open": constant(False, rows), "name_id": self.placing.names(group), "category": constant(category or None, rows),
            "source": constant("framework", rows), "attributes": [host_rows.members(e, without) for e in group], **columns,
        }))  # fmt: skip

    def _instants(self, category: str, group: list[Event], start: Times) -> None:
        memory = [e for e in group if host_rows.is_memory(e)]
        if len(memory) == len(group):
            self.target.add("memory", as_table({"time": start, **host_rows.memory(group, self.placing)}))
            return
        chosen = np.fromiter((host_rows.is_memory(e) for e in group), bool, len(group))
        if memory:
            self.target.add(
                "memory", as_table({"time": start[chosen], **host_rows.memory(memory, self.placing)})
            )
        self._markers(category, [e for e in group if not host_rows.is_memory(e)], start[~chosen], None)

    def _counters(self, group: list[Event], start: Times) -> None:
        rows = []
        for event, time in zip(group, start.tolist(), strict=True):
            told = host_rows.members(event) or "{}"
            for key, value in host_rows.numbers(told):
                name = f"{event.name} {key}" if key else event.name
                rows.append({"time": time, "name": name, "value": value, "unit": "1", "source": "kineto",
                             "process": self.placing.main})  # fmt: skip
        self.target.add("counter", rows)

    def _flows(self, group: list[Event], start: Times, phase: str) -> None:
        columns = self.placing.where(group)
        threads = keys(columns["process"], columns["thread"])
        identities = [e.id for e in group]
        self.flows += zip(
            identities, threads.tolist(), start.tolist(), [phase == "s"] * len(group), strict=True
        )

    def _overhead(self, group: list[Event], start: Times, duration: Times) -> None:
        self.target.add("overhead", {
            "start": start, "duration": duration, "kind": [e.name.lower() for e in group],
            "process": [self.placing.main] * len(group),
        })  # fmt: skip
        self._extras("overhead", group)

    def _collectives(self, group: list[Event], start: Times, duration: Times) -> None:
        columns, rows = device_rows.collectives(group)
        if rows:
            columns["process"] = [self.placing.main] * len(rows)
            self.target.add("collective", {"start": start[rows], "duration": duration[rows], **columns})
            first = self._ordinals.get("collective", 0)
            self._ordinals["collective"] = first + len(rows)
            for i, row in enumerate(rows):
                for key, text in device_rows.collective_attributes(group[row]).items():
                    self.target.attribute("collective", first + i, key, text, self.placing.main)

    def finish_names(self) -> None:
        """Names of processes, threads and streams."""
        for event in self._metadata:
            name = (event.args or NO_ARGS).name
            if name is None:
                continue
            if event.name == "process_name" and event.pid == self.placing.pid:
                self.target.process("the process", command=name)
            elif event.name == "thread_name" and event.pid in self.placing.devices:
                self.placing.name_stream(event.pid, event.tid, name)
            elif event.name == "thread_name" and isinstance(event.pid, int):
                self.placing.thread(self.placing.process(event.pid), event.tid, name)


def keys(processes: Sequence[int], threads: Sequence[int]) -> Times:
    """One number per thread of any process."""
    return np.array(processes, np.int64) << 32 | (np.array(threads, np.int64) & 0xFFFFFFFF)


def detached(event: Event) -> Event:
    """The event without views of its piece."""
    return Event(ph=event.ph, name=event.name, pid=event.pid, tid=event.tid, args=event.args)

"""Reading Kineto's JSON, piece by piece.

Each piece of some ten thousand events is sorted by category and becomes columns; what needs the whole file (stacks,
which Python functions give; the process, which device work does not name) is held until its end.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Callable, Container
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.chrome.stream import EventStream
from warpsight.formats.chrome.times import MISSING
from warpsight.formats.kineto import device_rows, header, host_rows
from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.columns import table as as_table
from warpsight.formats.kineto.device_rows import KNOWN, TYPES
from warpsight.formats.kineto.finishing import finish
from warpsight.formats.kineto.group import EventGroup, groups, text, value
from warpsight.formats.kineto.held import HeldTables
from warpsight.formats.kineto.layouts import Layouts, Piece
from warpsight.formats.kineto.placing import Placing
from warpsight.formats.kineto.stacks import PythonCallStacks
from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target
from warpsight.model import arrow

COVERAGE = Coverage(
    kept=(
        "operators with all arguments; Python functions as ranges and stacks; forward-backward links",
        "calls of CUDA, HIP, XPU and MTIA; device work, graph ids, collectives; memory events; counters; "
        "annotations; steps; ranks",
        "other fields as attributes; invalid JSON strings as they stand",
    ),
    lost=(
        "derived values: arrows, External id, cbid, blocks and warps per SM, occupancy, bandwidth, record "
        "function id, Ev Idx",
        "channels, priorities and HSA queues of device work; environment variables (they hold passwords); ids"
        " of Python objects; module hierarchies, backends",
        "events without a time, and durations that are not numbers (0): both counted; damage inside ignored "
        "fields goes unnoticed",
    ),
    tested=(
        "torch 2.6 on an H100 and an MI300X; two MTIA ranks; XPU, collectives and waits written after "
        "libkineto's sources",
    ),
)

#: Bytes read at a time: several hundred thousand events, so that a call per field is negligible.
PIECE_BYTES = 24 << 20
#: glibc's allocator does not return up to twice the largest block below 32 MiB that was ever freed.
_KEPT_BYTES = 31 << 20
Columns = dict[str, Any]
Times = NDArray[np.int64]
_RUNTIME = frozenset((
    "cuda_runtime", "cuda_driver", "xpu_runtime", "xpu_driver", "mtia_runtime", "glow_runtime", "privateuse1_runtime",
    "privateuse1_driver", "runtime", "driver", "Runtime",
))  # fmt: skip
_KERNEL = frozenset(("kernel", "Kernel", "mtia_kernel"))
#: Work of MTIA's control processor: kernels, and by their names copies and events.
_MTIA = "mtia_ccp_events"
_DEVICE: dict[str, tuple[str, Callable[[EventGroup, Placing], Columns]]] = {
    **dict.fromkeys(_KERNEL, ("kernel", device_rows.kernels)),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), ("memcpy", device_rows.memcpys)),
    **dict.fromkeys(("gpu_memset", "Memset"), ("memset", device_rows.memsets)),
    "cuda_sync": ("sync", device_rows.syncs),
    "xpu_sync": ("sync", device_rows.syncs),
}
_OPERATOR = frozenset(("cpu_op", "hpu_op", "Operator"))
#: Arrows from calls to their work, in the words of all versions since 2020: they repeat the correlation.
_ARROWS = frozenset(("ac2g", "async_cpu_to_gpu", "async_gpu", "async"))
#: Arrows from operators to those of backward, in the words of all versions.
_LINKS = frozenset(("fwdbwd", "forward_backward", "fwd_bwd"))
_RANGE_COLUMNS = host_rows.OPERATOR_COLUMNS - {"Input Dims", "Sequence number", "Call stack"}
#: Kineto's own words; a kernel may be anybody's.
_MARK = re.compile(
    rb'"(baseTimeNanoseconds|deviceProperties|distributedInfo|Record function id|External id)"|"ProfilerStep#|"cat": ?"('
    rb"cpu_op|python_function|(gpu_)?user_annotation|cpu_instant_event|(cuda|xpu)_(runtime|driver|sync)|gpu_mem(cpy|set)|"
    rb'ac2g|fwdbwd)"'
)


def sniff(source: Source) -> bool:
    """Recognize trace event JSON with one of Kineto's own words at the start."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] not in (b"{", b"[") or b'"otherData":{"recorder":"warpsight"' in head[:200]:
        return False  # our own Chrome export may name what Kineto named
    whole = head[:1] == b"[" or b'"traceEvents"' in head
    return (whole and _MARK.search(head) is not None) or (
        b'"deviceProperties"' in head and b'"schemaVersion"' in head
    )


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file (one process)."""
    reading = _Reading(target)
    collecting = gc.isenabled()
    gc.disable()  # rows are not cycles: looking for some takes time
    np.empty(_KEPT_BYTES, np.uint8)  # freed at once: columns then use the same pages again and again
    try:
        stream = EventStream(source, begin=Layouts(_derived), piece_bytes=PIECE_BYTES)
        for pieces in stream:
            for piece in pieces:
                reading.piece(piece)
        if not reading.events:
            raise source.error("holds no trace events")
        header.apply(stream.header, reading.placing)
        finish(reading.held, reading.stacks, reading.placing)
        reading.finish_names()
        for place in stream.damaged:
            target.lost(1, f"{source.name} is damaged at byte {place:,}: events there were skipped", "event")
        if reading.timeless:
            target.lost(reading.timeless, "events without a readable time", "event")
        if reading.durationless:
            target.lost(reading.durationless, "unreadable durations, set to 0", "event")
        if reading.negative:
            target.negative_durations(reading.negative, "event")
        for category, count in reading.strange_arrows.items():
            cause = f"arrows of category {category!r}, which torch.profiler does not write, are not kept"
            target.lost(count, cause, "flow", severity="note")  # somebody drew them over a whole trace
    finally:
        reading.held.close()
        reading.stacks.close()
        if collecting:
            gc.enable()


def _derived(phase: str, category: str) -> bool:
    """Whether events repeat others: arrows between calls and their work repeat the correlation."""
    return category in _ARROWS and phase != "M"


class _Reading:
    def __init__(self, target: Target) -> None:
        self.target = target
        self.placing = Placing(target)
        self.stacks = PythonCallStacks(target.definitions)
        self.held = HeldTables()
        #: Ids of arrows that are not numbers, by their JSON.
        self._flow_ids: dict[bytes, int] = {}
        self.events = 0
        self.timeless = 0
        self.durationless = 0
        self.negative = 0
        #: Arrows of categories that Kineto does not write.
        self.strange_arrows: Counter[str] = Counter()
        self._texts = host_rows.ArgumentTexts()
        #: Metadata: what, pid, tid, name
        self._metadata: list[tuple[Any, Any, Any, str]] = []
        self._ordinals: dict[str, int] = {}

    def piece(self, piece: Piece) -> None:
        """Rows of some events."""
        self.events += piece.events
        for phase, category, group in groups(piece):
            if phase == "M":
                self._name(group)
            elif category not in _ARROWS:
                self._group(phase, category, group)

    def _name(self, group: EventGroup) -> None:
        fields = (group.values(field) for field in (".name", ".pid", ".tid", "name"))
        self._metadata += [row for row in zip(*fields, strict=True) if isinstance(row[3], str)]

    def _group(self, phase: str, category: str, group: EventGroup) -> None:
        start = group.times(".ts")
        known = start != MISSING
        if not known.all():
            self.timeless += int((~known).sum())
            group, start = group.chosen(known), start[known]
        if not group.rows:
            return
        if phase == "X":
            duration = group.times(".dur")
            unread = duration == MISSING
            self.durationless += int((unread & group.there(".dur")).sum())
            self.negative += int(((duration < 0) & ~unread).sum())
            self._complete(category, group, start, np.maximum(duration, 0))
        elif phase in ("i", "I", "R"):
            self._instants(category, group, start)
        elif phase == "C":
            self._counters(group, start)
        elif phase in ("s", "t", "f"):
            self._flows(category, group, start, phase)
        else:
            self._markers(category, group, start, np.zeros(group.rows, np.int64))

    def _complete(self, category: str, group: EventGroup, start: Times, duration: Times) -> None:
        if category in _DEVICE:
            table, made = _DEVICE[category]
            self._hold(table, group, start, duration, made(group, self.placing))
            if category in _KERNEL and "Collective name" in group:
                self._collectives(group, start, duration)
        elif category == _MTIA:
            self._mtia(group, start, duration)
        elif category in _RUNTIME:
            self._calls(group, start, duration)
        elif category in _OPERATOR:
            columns = host_rows.operators(group, self.placing, self._texts)
            self._hold("op", group, start, duration, columns, group.fields)
        elif category == "python_function":
            self._functions(group, start, duration)
        elif category == "cuda_event":
            self._recorded(group, start, device_rows.recorded(group, self.placing), KNOWN)
        elif category == "overhead":
            self._overhead(group, start, duration)
        else:
            self._markers(category, group, start, duration)

    def _mtia(self, group: EventGroup, start: Times, duration: Times) -> None:
        kinds = device_rows.mtia_tables(group)
        for table, make in device_rows.MTIA.items():
            rows = np.flatnonzero(kinds == table)
            if not len(rows):
                continue
            part = group.chosen(rows)
            columns = make(part, self.placing)
            if table == "event":
                self._recorded(part, start[rows], columns, device_rows.MTIA_KNOWN)
            else:
                known = KNOWN if table == "kernel" else device_rows.MTIA_KNOWN
                self._hold(table, part, start[rows], duration[rows], columns, known)
            if table == "kernel" and "Collective name" in part:
                self._collectives(part, start[rows], duration[rows])

    def _recorded(self, group: EventGroup, start: Times, columns: Columns, known: Container[str]) -> None:
        self.held.add("event", as_table({"time": start, **columns}))
        self._extras("event", group, known)

    def _hold(
        self,
        table: str,
        group: EventGroup,
        start: Times,
        duration: Times,
        columns: Columns,
        known: Container[str] = KNOWN,
    ) -> None:
        if "thread" in columns:
            columns["_thread"] = keys(columns["process"], columns["thread"])
        self.held.add(table, as_table({"start": start, "duration": duration, **columns}))
        self._extras(table, group, known)

    def _extras(self, table: str, group: EventGroup, known: Container[str] = KNOWN) -> None:
        """Unknown fields of rows whose table has no column for them, and values that fit no column."""
        first = self._ordinals.get(table, 0)
        self._ordinals[table] = first + group.rows
        if known is not group.fields:
            group.check(TYPES)
        for row, key, member_texts in group.extras(known):
            self.target.attribute(table, first + row, key, member_texts, self.placing.main)

    def _calls(self, group: EventGroup, start: Times, duration: Times) -> None:
        launching = host_rows.launching(group)
        for chosen, table, make in (
            (launching, "launch", host_rows.launches),
            (~launching, "api", host_rows.calls),
        ):
            if chosen.any():
                part = group.chosen(chosen)
                columns = make(part, self.placing)
                columns["_external"] = part.integers(
                    "External id" if "External id" in part else "external id"
                )
                columns["_call_stack"] = part.mapped(text, pa.string(), "Call stack")
                self._hold(table, part, start[chosen], duration[chosen], columns)

    def _functions(self, group: EventGroup, start: Times, duration: Times) -> None:
        columns = self.placing.where(group)
        threads = keys(columns["process"], columns["thread"])
        stacks = self.stacks.add(group, threads, start, duration)
        rows = group.rows
        self.target.add("marker", as_table({
            "start": start, "duration": duration, "kind": constant("push/pop", rows), "open": constant(False, rows),
            "name_id": self.placing.names(group), "domain": constant("python", rows), "source": constant("framework", rows),
            "category": constant("python_function", rows), "stack": stacks, **columns,
        }))  # fmt: skip

    def _markers(self, category: str, group: EventGroup, start: Times, duration: Times | None) -> None:
        """Annotations, and every other event, as ranges with their category and arguments."""
        rows = group.rows
        if category.startswith("gpu_"):
            main = self.placing.main

            def thread(pid: bytes | None, tid: bytes | None) -> int:
                return self.placing.thread(main, f"gpu {_shown(pid)} stream {_shown(tid)}")

            columns: Columns = {
                "process": np.full(rows, main, np.int32),
                "thread": group.mapped(thread, pa.int32(), ".pid", ".tid"),
            }
        else:
            columns = dict(self.placing.where(group))
        if duration is not None:
            columns["duration"] = duration
        self.target.add("marker", as_table({
            "start": start, "kind": constant("instant" if duration is None else "push/pop", rows),
            "open": constant(False, rows), "name_id": self.placing.names(group), "category": constant(category or None, rows),
            "source": constant("framework", rows), "attributes": self._texts.members(group, _RANGE_COLUMNS), **columns,
        }))  # fmt: skip

    def _instants(self, category: str, group: EventGroup, start: Times) -> None:
        memory = host_rows.is_memory(group)
        if memory.any():
            part = group if memory.all() else group.chosen(memory)
            self.target.add(
                "memory", as_table({"time": start[memory], **host_rows.memory(part, self.placing)})
            )
            self._extras("memory", part)
        if not memory.all():
            self._markers(category, group.chosen(~memory), start[~memory], None)

    def _counters(self, group: EventGroup, start: Times) -> None:
        rows = []
        names, member_texts = group.values(".name"), self._texts.members(group).to_pylist()
        for counter, members, time in zip(names, member_texts, start.tolist(), strict=True):
            for key, number in host_rows.numbers(members or "{}"):
                name = f"{counter or ''} {key}" if key else str(counter or "")
                rows.append({"time": time, "name": name, "value": number, "unit": "1", "source": "kineto",
                             "process": self.placing.main})  # fmt: skip
        self.target.add("counter", rows)

    def _flows(self, category: str, group: EventGroup, start: Times, phase: str) -> None:
        if category not in _LINKS:
            self.strange_arrows[category] += group.rows
            return
        columns = self.placing.where(group)
        threads = keys(columns["process"], columns["thread"])
        begins = constant(phase == "s", group.rows)
        self.held.add(
            "flow",
            as_table({"id": self._arrows(group), "_thread": threads, "start": start, "begins": begins}),
        )

    def _arrows(self, group: EventGroup) -> Times:
        """Ids of arrows; ids that are not numbers get unused numbers."""
        ids = group.integers(".id")
        if not ids.null_count:
            known: Times = ids.to_numpy()
            return known
        found: Times = arrow.fill_null(ids, 0).to_numpy().copy()
        for row in np.flatnonzero(arrow.is_null(ids).to_numpy(zero_copy_only=False)).tolist():
            found[row] = self._flow_ids.setdefault(group.raw(".id", row), len(self._flow_ids) - (1 << 63))
        return found

    def _overhead(self, group: EventGroup, start: Times, duration: Times) -> None:
        self.target.add("overhead", {
            "start": start, "duration": duration, "kind": [str(name or "").lower() for name in group.values(".name")],
            "process": [self.placing.main] * group.rows,
        })  # fmt: skip
        self._extras("overhead", group)

    def _collectives(self, group: EventGroup, start: Times, duration: Times) -> None:
        rows = np.flatnonzero(device_rows.has_collective(group))
        if not len(rows):
            return
        part = group.chosen(rows)
        columns = device_rows.collectives(part)
        columns["process"] = np.full(len(rows), self.placing.main, np.int32)
        self.target.add("collective", as_table({"start": start[rows], "duration": duration[rows], **columns}))
        first = self._ordinals.get("collective", 0)
        self._ordinals["collective"] = first + len(rows)
        for row in range(part.rows):
            for key, member_texts in device_rows.collective_attributes(part, row).items():
                self.target.attribute("collective", first + row, key, member_texts, self.placing.main)

    def finish_names(self) -> None:
        """Names of processes, threads and streams."""
        for what, pid, tid, name in self._metadata:
            if what == "process_name" and pid == self.placing.pid:
                self.target.process("the process", command=name)
            elif what == "thread_name" and pid in self.placing.devices:
                self.placing.name_stream(pid, tid, name)
            elif what == "thread_name" and isinstance(pid, int):
                self.placing.thread(self.placing.process(pid), tid, name)


def keys(processes: NDArray[np.int32], threads: NDArray[np.int32]) -> Times:
    """One number per (process, thread)."""
    return processes.astype(np.int64) << 32 | (threads.astype(np.int64) & 0xFFFFFFFF)


def _shown(raw: bytes | None) -> str:
    return str(value(raw))

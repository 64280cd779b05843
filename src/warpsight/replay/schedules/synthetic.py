"""A capsule made from a trace: no contents, but kernels of the recorded lengths, and the same copies, fills, events and waits.

A recording knows when each operation ran, in which order and after what, but not what kernels compute. So each kernel is replaced
by one that waits equally long. What remains is the schedule, which can be run again, checked and changed.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path.edges import BLOCKING_STREAM
from warpsight.errors import UsageError
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule, Writer

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Blocks of a kernel that waits: as many as can be on any GPU at once.
_MOST_BLOCKS = 64
#: Operations that one replay takes at most; each has two events.
MOST = 100_000
#: Where the memory that copies and fills use is; programs have nothing there.
_ADDRESS = 0x5_0000_0000_00
_GRANULE = 2 << 20
#: ns that a kernel takes besides its waiting time.
_FIXED = 1_200
_NON_BLOCKING = 1
# One thread of each block waits, sleeping for half of the remaining time (a sleep lasts at most twice as long as requested). Only
# the first block polls the timer: if many blocks poll it, they delay each other by microseconds.
_WAIT = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry NAME(.param .u64 nanoseconds) {
  .reg .u64 %begin, %now, %length, %left;
  .reg .u32 %number, %nap;
  .reg .pred %idle, %first, %late, %near;
  mov.u32 %number, %tid.x;
  setp.ne.u32 %idle, %number, 0;
  @%idle ret;
  mov.u64 %begin, %globaltimer;
  ld.param.u64 %length, [nanoseconds];
  mov.u32 %number, %ctaid.x;
  setp.eq.u32 %first, %number, 0;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.ge.u64 %late, %now, %length;
  @%late ret;
  sub.u64 %left, %length, %now;
  setp.lt.u64 %near, %left, 2000;
  @%near bra close;
  shr.u64 %left, %left, 1;
  min.u64 %left, %left, 1000000;
  cvt.u32.u64 %nap, %left;
  nanosleep.u32 %nap;
  bra again;
close:
  @%first bra again;
  ret;
}
"""
_SQL = """
WITH calls AS (
  SELECT process, correlation, min(start) AS called FROM (
    SELECT process, correlation, start FROM launch UNION ALL SELECT process, correlation, start FROM api
  ) WHERE correlation > 0 GROUP BY ALL
), work AS (
  SELECT 'launch' AS what, process, device, context, stream, correlation, start, duration, n.name AS name, '' AS kind,
         0 AS bytes, grid_x * grid_y * grid_z AS blocks, block_x * block_y * block_z AS threads, NULL AS event, NULL AS record
  FROM kernel LEFT JOIN name n ON n.id = name_id WHERE start IS NOT NULL
  UNION ALL SELECT 'copy', process, device, context, stream, correlation, start, duration, kind, kind, bytes, 0, 0, NULL, NULL
  FROM memcpy
  UNION ALL SELECT 'set', process, device, context, stream, correlation, start, duration, 'memset', '', bytes, 0, 0, NULL, NULL
  FROM memset
  UNION ALL SELECT 'record', process, device, context, stream, correlation, time, 0, 'event', '', 0, 0, 0, event, event_sync
  FROM event
  UNION ALL SELECT 'wait', process, device, context, stream, correlation, start, duration, 'wait', kind, 0, 0, 0, event,
         event_sync
  FROM sync WHERE coalesce(result, 0) = 0
)
SELECT work.*, called FROM work LEFT JOIN calls USING (process, correlation)
WHERE coalesce(called, start) IS NOT NULL
ORDER BY coalesce(called, start), what = 'wait', start
"""


@dataclass(frozen=True)
class _Synthetic:
    """A trace's work as operations.

    Attributes:
        manifest: of one device of one process, without module image and contents.
        begin, end: recorded times of each operation on the device, ns; NaN where it has none.
        notes: what was left out.
    """

    manifest: m.Manifest
    begin: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    notes: tuple[str, ...]

    def capsule(self, path: Path) -> Capsule:
        """The capsule, with its code."""
        import msgspec

        writer = Writer(path)
        images = [_code(i) for i in range(len(self.manifest.functions))]
        modules = [m.LoadedModule("ptx", len(image), writer.put(image)) for image in images]
        return writer.finish(
            msgspec.structs.replace(self.manifest, modules=modules, chunk_bytes=writer.chunk_bytes)
        )


def of(trace: StoredTrace, part: tuple[int, int] | None = None) -> _Synthetic:
    """A trace's work as operations, for the device and process with the most work. `part` gives the first and last operation.

    Raises:
        UsageError: when the trace has no device work, or the part is beyond it or too large.
    """
    rows = trace.sql(_SQL).to_arrow_table().to_pylist()
    places: dict[tuple[int, int], int] = {}
    for row in rows:
        if row["what"] in ("launch", "copy", "set"):
            place = (row["process"], row["device"])
            places[place] = places.get(place, 0) + 1
    if not places:
        raise UsageError("there is nothing to replay: the trace has no GPU work")
    process, device = max(places, key=lambda place: places[place])
    chosen = [
        row
        for row in rows
        if row["process"] == process and (row["device"] == device or row["what"] == "wait")
    ]
    notes = ["kernels wait for as long as the recorded ones ran, and compute nothing"]
    if len(places) > 1:
        notes.append(
            f"of {len(places)} devices and processes, only device {device} of process {process} is replayed"
        )
    if part is not None and (part[0] > part[1] or part[1] >= len(chosen)):
        raise UsageError(f"operations {part[0]}..{part[1]}: the trace has operations 0 to {len(chosen) - 1}")
    if part is not None:
        chosen = chosen[part[0] : part[1] + 1]
    if len(chosen) > MOST:
        raise UsageError(
            f"the trace has {len(chosen):,} operations, but at most {MOST:,} are replayed: --operations A..B"
        )
    return _Reading(trace, chosen).synthetic(notes)


class _Reading:
    """Rows in the order of their calls, being converted to operations."""

    def __init__(self, trace: StoredTrace, rows: list[dict[str, Any]]) -> None:
        self._rows = rows
        self._null = set(trace.rows("context", "process", "context", "null_stream"))
        self._known_streams = {
            row[:3]: row[3:]
            for row in trace.rows("stream", "process", "context", "stream", "priority", "flags")
        }
        self._streams: dict[tuple[int, int, int], int] = {}
        self._events: dict[tuple[str, int], int] = {}
        self._records = 0
        self._names: dict[str, int] = {}
        self._held: list[m.Stream] = []

    def synthetic(self, notes: list[str]) -> _Synthetic:
        """The operations, and their recorded times."""
        made: list[m.Operation] = []
        times: list[tuple[float, float]] = []
        first = min((row["called"] or row["start"] for row in self._rows), default=0)
        size = max((row["bytes"] for row in self._rows), default=0)
        room = max(_GRANULE, -(-size // _GRANULE) * _GRANULE)
        for row in self._rows:
            host = (row["called"] or row["start"]) - first
            one = self._operation(row, int(host), room)
            if one is not None:
                made.append(one)
                works = row["what"] in ("launch", "copy", "set")
                end = row["start"] + row["duration"] if works else float("nan")
                times.append((row["start"] if works else float("nan"), end))
        begin, end = np.array(times, np.float64).reshape(-1, 2).T
        allocations = [m.Allocation(_ADDRESS + i * room, room, "malloc") for i in range(2)]
        manifest = m.Manifest(
            format="warpsight capsule", version=m.VERSION, chunk_bytes=1 << 20, values="none",
            device=m.RecordedDevice("", (7, 0), 1, 0, 0),
            functions=[m.Function(i, _entry(i), [m.Parameter(0, 8)]) for i in range(len(self._names))],
            allocations=allocations if size else [], streams=self._held, events=self._records, operations=made,
            command=list(self._names),
        )  # fmt: skip
        return _Synthetic(manifest, begin, end, tuple(notes))

    def _operation(self, row: Mapping[str, Any], host: int, room: int) -> m.Operation | None:
        if row["what"] == "wait":
            return self._wait(row, host)
        stream = self._stream(row)
        length = max(0, int(row["duration"]))
        if row["what"] == "record":
            return m.EventRecord(stream, self._event(row), host_time=host)
        if row["what"] == "launch":
            function = self._names.setdefault(row["name"] or "kernel", len(self._names))
            blocks, threads = (
                max(1, min(int(row["blocks"] or 1), 2**31 - 1)),
                max(1, min(int(row["threads"] or 1), 1024)),
            )
            return m.Launch(
                stream, function, (min(blocks, _MOST_BLOCKS), 1, 1), (threads, 1, 1),
                struct.pack("<Q", max(0, length - _FIXED)), host_time=host, device_time=length,
            )  # fmt: skip
        size = int(row["bytes"])
        if size < 1:
            return None
        if row["what"] == "set":
            return m.Set(stream, _ADDRESS, 0, 1, size, host_time=host, device_time=length)
        source = None if row["kind"].startswith("H") else _ADDRESS + room
        destination = None if row["kind"].endswith("H") else _ADDRESS
        if source is None and destination is None:
            return None
        return m.Copy(stream, size, destination, source, host_time=host, device_time=length)

    def _wait(self, row: Mapping[str, Any], host: int) -> m.Operation | None:
        kind = row["kind"]
        if kind == "stream wait event":
            known = self._known(row)
            return None if known is None else m.EventWait(self._stream(row), known, host_time=host)
        if kind == "event":
            known = self._known(row)
            return None if known is None else m.Synchronize(event=known, host_time=host)
        if kind == "stream" and row["stream"] >= 0:
            return m.Synchronize(stream=self._stream(row), host_time=host)
        return m.Synchronize(host_time=host) if kind in ("context", "finish") else None

    def _known(self, row: Mapping[str, Any]) -> int | None:
        """The event of a wait, if its record is in the trace."""
        exact = self._events.get(("record", row["record"])) if row["record"] else None
        return exact if exact is not None else self._events.get(("event", row["event"]))

    def _event(self, row: Mapping[str, Any]) -> int:
        """A separate number for each record."""
        number, self._records = self._records, self._records + 1
        self._events["event", row["event"]] = number
        if row["record"]:
            self._events["record", row["record"]] = number
        return number

    def _stream(self, row: Mapping[str, Any]) -> int:
        key = (row["process"], row["context"], row["stream"])
        if key not in self._streams:
            self._streams[key] = len(self._held)
            priority, flags = self._known_streams.get(key, (0, None))
            default = key in self._null
            blocking = default or flags == BLOCKING_STREAM
            self._held.append(m.Stream(default, priority or 0, 0 if blocking else _NON_BLOCKING))
        return self._streams[key]


def _entry(number: int) -> str:
    return f"kernel_{number}"


def _code(number: int) -> bytes:
    return _WAIT.replace(b"NAME", _entry(number).encode()) + b"\0"

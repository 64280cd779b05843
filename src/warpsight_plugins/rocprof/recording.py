"""The parts that all of rocprof's forms share: agents, streams and the rows they end in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading.databases import distinct_rows

if TYPE_CHECKING:
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
LAUNCHES = re.compile(r"^hip(Ext|Module|ExtModule|HccModule|Graph|Drv)?Launch(?!HostFunc)")
_COPIES = {
    "HOST_TO_HOST": "HtoH", "HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD",
    "HOSTTOHOST": "HtoH", "HOSTTODEVICE": "HtoD", "DEVICETOHOST": "DtoH", "DEVICETODEVICE": "DtoD",
}  # fmt: skip
_SIDES = {"H": "host", "D": "device", "u": "unknown"}
#: roctxMarkA is an instant; ranges are of a thread (push, pop) or of the process (start, stop).
_MARKS = ("roctxMark",)
_PROCESS_RANGES = ("roctxRangeStart", "roctxProcessRange", "roctxRangeStop")


def copy_kind(direction: str) -> str:
    """The kind of a copy by any of the spellings of its direction."""
    text = direction.upper().removeprefix("MEMORY_COPY_")
    for spelled, kind in _COPIES.items():
        if spelled in text:
            return kind
    return "unknown"


def kernel_name(name: str) -> str:
    """The function's name: the descriptor's suffix `.kd` is not part of it."""
    return name.removesuffix(" [clone .kd]").removesuffix(".kd")


def blocks(work_items: Array, group: Array) -> Array:
    """Workgroups of a grid that HSA counts in work-items; the last one may be partial."""
    size = np.maximum(group, 1)
    return np.asarray(-(-work_items // size))


def family(text: str) -> str:
    """The family of allocators for a ROCr memory operation or level: each frees its own addresses."""
    words = text.upper()
    return (
        "ROCm scratch"
        if "SCRATCH" in words
        else "ROCm virtual memory"
        if "VMEM" in words or "VIRTUAL" in words
        else "ROCm"
    )


class RocprofRecording:
    """Rows on their way to a target: columns are NumPy arrays or lists of equal length."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._shapes: dict[tuple[int, ...], int] = {}

    def agent(self, key: object, **columns: object) -> int:
        """Device id of a GPU agent."""
        return self.target.device(key, vendor="AMD", platform="rocm", **columns)

    def shapes(self, columns: Mapping[str, Array]) -> pa.Array:
        """Shape ids; columns are those of table shape, grids in blocks."""
        names = list(columns)
        known, places = distinct_rows([columns[name] for name in names])
        ids = [self.target.shape(**dict(zip(names, row, strict=True))) for row in known.tolist()]
        return pa.array(ids, pa.int32()).take(places)

    def names(self, texts: Sequence[str | None] | pa.Array) -> pa.Array:
        """Name ids."""
        coded = (texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())).dictionary_encode()
        ids = pa.array(self.target.names(coded.dictionary.to_pylist()), pa.int32())
        return ids.take(coded.indices)

    def places(
        self, process: Array, device: Sequence[int | None] | pa.Array, stream: Array
    ) -> dict[str, Any]:
        """Columns device, context, stream and process; HIP has no contexts, so each process gets one."""
        devices = (
            pa.array(device, pa.int16()) if not isinstance(device, pa.Array) else device.cast(pa.int16())
        )
        known = np.asarray(devices.fill_null(-1)).astype(np.int64)
        process, stream = np.asarray(process, np.int64), np.asarray(stream, np.int64)
        occurring, _ = distinct_rows([process, stream, known])
        numbers: dict[tuple[int, int], int] = {}
        for owner, one, where in occurring.tolist():
            column = {} if where < 0 else {"device": where}
            self.target.context(owner, 0, api="hip")
            numbers[owner, one] = self.target.stream(owner, 0, one, **column)
        if any(key[1] != value for key, value in numbers.items()):
            stream = np.array([numbers[p, s] for p, s in zip(process.tolist(), stream.tolist(), strict=True)])
        return {
            "device": devices,
            "context": np.zeros(len(process), np.int64),
            "stream": stream,
            "process": process,
        }

    def add_kernels(self, start: Array, end: Array, names: pa.Array, shapes: pa.Array, places: dict[str, Any],
                    correlation: Array | pa.Array, **more: object) -> None:  # fmt: skip
        """Rows of table kernel."""
        if len(start):
            self.target.add_columns(
                "kernel",
                start=start,
                duration=np.asarray(end) - np.asarray(start),
                name_id=names,
                shape_id=shapes,
                **places,
                correlation=correlation,
                graph_level=np.zeros(len(start), bool),
                **more,
            )

    def add_copies(self, start: Array, end: Array, size: Array, directions: Sequence[str], places: dict[str, Any],
                   correlation: Array | pa.Array, **more: object) -> None:  # fmt: skip
        """Rows of table memcpy. rocprof records neither pinned memory nor who waits: sides are host or device."""
        if not len(start):
            return
        kinds = [copy_kind(text) for text in directions]
        self.target.add_columns(
            "memcpy",
            start=start,
            duration=np.asarray(end) - np.asarray(start),
            bytes=size,
            kind=kinds,
            source_kind=[_SIDES[kind[0]] for kind in kinds],
            destination_kind=[_SIDES[kind[-1] if kind != "unknown" else "u"] for kind in kinds],
            asynchronous=np.zeros(len(kinds), bool),
            **places,
            correlation=correlation,
            **more,
        )

    def add_calls(self, start: Array, end: Array, functions: Sequence[str], thread: Array, process: Array,
                  correlation: Array | pa.Array) -> None:  # fmt: skip
        """Rows of tables launch and api, and ROCTx calls of ranges that carry no message."""
        coded = pa.array(functions, pa.string()).dictionary_encode()
        hits = np.array([bool(LAUNCHES.match(name or "")) for name in coded.dictionary.to_pylist()], bool)
        launches = hits[np.asarray(coded.indices)] if len(coded) else np.zeros(0, bool)
        data = pa.table(
            {
                "start": start,
                "duration": np.asarray(end) - np.asarray(start),
                "function": coded.dictionary_decode(),
                "thread": np.asarray(thread, np.int64),
                "correlation": correlation,
                "process": np.asarray(process, np.int64),
            }
        )
        if launches.any():
            chosen = data.filter(pa.array(launches))
            self.target.add("launch", chosen.append_column("captured", pa.array(np.zeros(len(chosen), bool))))
        if not launches.all():
            self.target.add("api", data.filter(pa.array(~launches)))

    def add_ranges(self, start: Array, end: Array, functions: Sequence[str], texts: Sequence[str], thread: Array,
                   process: Array) -> None:  # fmt: skip
        """Rows of table marker; an instant has no duration."""
        if not len(start):
            return
        instant = np.array([name.startswith(_MARKS) for name in functions], bool) | (
            np.asarray(start) == np.asarray(end)
        )
        kinds = [
            "instant" if one else "start/end" if name.startswith(_PROCESS_RANGES) else "push/pop"
            for one, name in zip(instant.tolist(), functions, strict=True)
        ]
        self.target.add_columns(
            "marker",
            start=start,
            duration=pa.array(np.asarray(end) - np.asarray(start), mask=instant),
            kind=kinds,
            open=np.zeros(len(kinds), bool),
            name_id=self.names(texts),
            domain=pa.array(["roctx"]).take(pa.array(np.zeros(len(kinds), np.int64))),
            source=pa.array(["roctx"]).take(pa.array(np.zeros(len(kinds), np.int64))),
            thread=np.asarray(thread, np.int64),
            process=np.asarray(process, np.int64),
        )

    def add_memory(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of table memory."""
        self.target.add("memory", rows)

    def add_counters(
        self, time: Array, names: Sequence[str], values: Sequence[float], device: object, process: Array
    ) -> None:
        """Rows of table counter: hardware counts of a dispatch, at its start."""
        count = pa.array(np.zeros(len(time), np.int64))
        self.target.add_columns(
            "counter",
            time=time,
            name=names,
            value=pa.array(values, pa.float64()),
            unit=pa.array(["1"]).take(count),
            device=pa.array(device, pa.int16()),
            source=pa.array(["rocprof"]).take(count),
            process=np.asarray(process, np.int64),
        )

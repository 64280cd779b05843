"""Events of Chrome's format as rows of tables, dialect by dialect; anything but a kernel or call becomes a range."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec

from warpsight.formats.chrome import nvtx
from warpsight.formats.chrome.events import text
from warpsight.formats.chrome.tracks import DeviceTrack
from warpsight.formats.target import Target
from warpsight.formats.writing.timeline import ADDRESSES
from warpsight.model.definitions import Frame
from warpsight.model.naming.api_names import is_gpu_api

Row = dict[str, Any]
_KERNEL = frozenset(("kernel", "gpu_kernel", "cuda_kernel", "gpu_op", "kernel_dispatch"))
_COPY = frozenset(("memcpy", "gpu_memcpy", "memcopy", "memory_copy"))
_FILL = frozenset(("memset", "gpu_memset"))
_CALL = frozenset(("launch", "api", "cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "driver",
                   "hip_api", "hsa_api", "hip_runtime_api", "hip_compiler_api", "rccl_api"))  # fmt: skip
_OVERHEAD = frozenset(("overhead",))
_PREFIX = re.compile(r"^(?:Runtime|Driver|Kernel): ?")
_VERSION = re.compile(r"_v\d{3,6}$")
_SHAPE = re.compile(
    r"grid (\d+)×(\d+)×(\d+), block (\d+)×(\d+)×(\d+)(?:, cluster (\d+)×(\d+)×(\d+))?(?:, (\d+) registers)?"
    r"(?:, shared (\d+)\+(\d+) B)?(?:, (.+))?$"
)
_FRAME = re.compile(r"^(.*) \((.*?)(?::(\d+))?\)$")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
_COPY_KIND = re.compile(
    r"\b(?:MEMCPY)?([HDPA])(?:to|2)([HDPA])\b|(HOST|DEVICE)_?TO_?(HOST|DEVICE)", re.IGNORECASE
)
_SIZE = re.compile(r"\bsize:(\d+)")
#: Device work on a track without categories, by its name and its description.
_COPIES, _FILLS = (
    re.compile(r"^\[?MEMCPY|^Copy\w*To\w*( |$)", re.IGNORECASE),
    re.compile(r"^\[?MEMSET|^FillBuffer", re.IGNORECASE),
)
_NO_WORK = re.compile(r"^(Barrier|Marker)( |$)| (Barrier|Marker)$")
#: Arguments that became columns.
_USED = frozenset((
    "correlation", "correlationId", "correlation_id", "device", "deviceId", "device_id", "context", "contextId", "context_id",
    "stream", "streamId", "stream_id", "bytes", "size", "shape", "stack", "grid", "block", "gridDim", "blockDim",
))  # fmt: skip


class _Happening(Protocol):
    """A range or an instant on a track: the common part of formats with tracks."""

    name: Any
    cat: Any

    def arguments(self) -> dict[str, Any]:
        """Arguments of the event, without name and category."""


class _Placer(Protocol):
    """Says where work ran."""

    def host(self, event: Any) -> tuple[int, int]:
        """Process and thread of host work."""

    def device(self, event: Any, details: dict[str, Any]) -> DeviceTrack:
        """Device, context and stream of device work."""

    def of_a_device(self, event: Any) -> bool:
        """Whether the track belongs to a device, judging by its name."""


class RowBuilder:
    """Turns complete events into rows of one trace, table by table."""

    def __init__(self, target: Target, tracks: _Placer, *, own: bool = False) -> None:
        """Rows go to `target`; `own`: the file is warpsight's export, which names a counter's unit as its argument."""
        self._own = own
        self._target = target
        self._tracks = tracks
        self._rows: dict[str, list[Row]] = {}
        self._ordinals: dict[str, int] = {}
        self._stacks: dict[str, int | None] = {}

    def complete(
        self,
        event: _Happening,
        start: int,
        duration: int | None,
        *,
        kind: str = "push/pop",
        correlation: int | None = None,
    ) -> None:
        """A range with start and end; `duration` is None if it was never closed.

        `correlation` comes from arrows, for events without one of their own.
        """
        category = text(event.cat).lower()
        details = event.arguments()
        if correlation is not None and _correlation(details) is None:
            details["correlation"] = correlation
        if duration is not None and kind == "push/pop":
            name = text(event.name)
            if not category or (category == "op" and self._tracks.of_a_device(event)):
                category = self._category(event, name, details)
            if category in _KERNEL or name.startswith("Kernel: "):
                return self._kernel(event, details, start, duration)
            if category in _COPY or category in _FILL:
                return self._copy(event, details, start, duration, category in _COPY)
            if category in _CALL:
                return self._call(event, details, start, duration, category)
            if category == "sync" and name.startswith("Wait: "):
                return self._sync(event, details, start, duration)
            if category in _OVERHEAD:
                return self._overhead(event, start, duration)
            if category == "op":
                return self._operator(event, details, start, duration)
            if category == "event" and isinstance(details.get("kind"), str):
                return self._user_event(event, details, start, duration)
        self._marker(event, details, start, duration, kind)

    def _category(self, event: _Happening, name: str, details: Row) -> str:
        """What an event without a category is: on a device's track device work (as RPD's converter writes), else maybe a call."""
        if not self._tracks.of_a_device(event):
            return "runtime" if is_gpu_api(name) else ""
        what = f"{name} {details.get('desc', '')}"
        if _NO_WORK.search(what):
            return ""
        return "memcpy" if _COPIES.search(what) else "memset" if _FILLS.search(what) else "kernel"

    def flush(self) -> None:
        """Hand the rows on."""
        for table, rows in self._rows.items():
            self._target.add(table, rows)
        self._rows = {}

    # Rows of each table

    def _kernel(self, event: _Happening, details: Row, start: int, duration: int) -> None:
        place = self._tracks.device(event, details)
        name = _PREFIX.sub("", text(event.name)).removesuffix(" [clone .kd]")
        self._add("kernel", details, {
            "start": start, "duration": duration, "name_id": self._target.name(name), "shape_id": self._shape(details),
            "device": place.device, "context": place.context, "stream": place.stream, "correlation": _correlation(details),
            "process": place.process, "stack": self._stack(details), "graph_level": False,
        })  # fmt: skip

    def _copy(self, event: _Happening, details: Row, start: int, duration: int, is_copy: bool) -> None:
        place = self._tracks.device(event, details)
        found = _COPY_KIND.search(text(event.name))
        columns: Row = {
            "kind": "to".join(side[0].upper() for side in found.groups() if side) if found else "unknown",
            "source_kind": "unknown",
            "destination_kind": "unknown",
        }
        table = "memcpy" if is_copy else "memset"
        found_at = {name: _address(details.get(name)) for name in ADDRESSES[table]}
        rest = {key: value for key, value in details.items() if found_at.get(key) is None}
        self._add(table, rest, {
            "start": start, "duration": duration, "bytes": _copied(details),
            "asynchronous": True, "device": place.device, "context": place.context, "stream": place.stream,
            "correlation": _correlation(details), "process": place.process, "stack": self._stack(details),
            **(columns if is_copy else {"value": 0, "memory_kind": "unknown"}), **found_at,
        })  # fmt: skip

    def _sync(self, event: _Happening, details: Row, start: int, duration: int) -> None:
        place = self._tracks.device(event, details)
        self._add("sync", details, {
            "start": start, "duration": duration, "kind": text(event.name).removeprefix("Wait: "), "device": place.device,
            "context": place.context, "stream": place.stream, "correlation": _correlation(details), "process": place.process,
        })  # fmt: skip

    def _call(self, event: _Happening, details: Row, start: int, duration: int, category: str) -> None:
        process, thread = self._tracks.host(event)
        function = _VERSION.sub("", _PREFIX.sub("", text(event.name)))
        launches = category == "launch" or (
            category != "api" and "Launch" in function and "HostFunc" not in function
        )
        row: Row = {"start": start, "duration": duration, "function": function, "thread": thread, "process": process,
                    "correlation": _correlation(details), "stack": self._stack(details)}  # fmt: skip
        if launches:
            row |= {"shape_id": self._shape(details), "captured": False}
        else:
            row["bytes"] = _number(details.get("bytes"))
        self._add("launch" if launches else "api", details, row)

    def _overhead(self, event: _Happening, start: int, duration: int) -> None:
        process, thread = self._tracks.host(event)
        row = {"start": start, "duration": duration, "kind": text(event.name).lower(), "thread": thread}
        self._add("overhead", {}, {**row, "process": process})

    def _operator(self, event: _Happening, details: Row, start: int, duration: int) -> None:
        process, thread = self._tracks.host(event)
        self._add("op", {}, {
            "start": start, "duration": duration, "name_id": self._target.name(text(event.name)), "thread": thread,
            "process": process, "stack": self._stack(details), "attributes": _json(details),
        })  # fmt: skip

    def _user_event(self, event: _Happening, details: Row, start: int, duration: int) -> None:
        process, thread = self._tracks.host(event)
        more = {key: value for key, value in details.items() if key != "kind"}
        self._add("user_event", {}, {
            "start": start, "duration": duration, "name": text(event.name), "kind": details["kind"], "thread": thread,
            "process": process, "stack": self._stack(details), "attributes": _json(more),
        })  # fmt: skip

    def _marker(self, event: _Happening, details: Row, start: int, duration: int | None, kind: str) -> None:
        process, thread = self._tracks.host(event)
        category = text(event.cat) or None
        columns: Row = {"category": category, "source": "framework", "kind": kind}
        if category == "nvtx":
            ours, details = nvtx.taken(details)
            columns |= {"source": "nvtx", **ours}
            if columns["kind"] == "instant" or columns.pop("open", False):
                duration = None
        self._add("marker", {}, {
            "start": start, "duration": duration, "open": duration is None and columns["kind"] != "instant",
            "name_id": self._target.name(text(event.name)), "process": process, "thread": thread,
            "stack": self._stack(details), "attributes": _json(details), **columns,
        })  # fmt: skip

    def instant(self, event: _Happening, start: int) -> None:
        """An instant."""
        self._marker(event, event.arguments(), start, None, "instant")

    def counter(self, event: _Happening, time: int) -> None:
        """One row per numeric argument, named after its series, or after a known unit."""
        process, _ = self._tracks.host(event)
        name = text(event.name)
        details = event.arguments()
        for key, value in details.items():
            number = _float(value)
            if number is None:
                continue
            is_unit = key in _UNITS or (self._own and len(details) == 1)
            self._add("counter", {}, {
                "time": time, "name": name if is_unit or not key else f"{name} {key}", "value": number,
                "unit": key if is_unit else "1", "source": "chrome", "process": process,
            })  # fmt: skip

    def _add(self, table: str, details: Row, row: Row) -> None:
        ordinal = self._ordinals.get(table, 0)
        self._ordinals[table] = ordinal + 1
        for key, value in details.items():
            if key not in _USED:
                json = msgspec.json.encode(value).decode()
                self._target.attribute(table, ordinal, key, json, row.get("process"))
        self._rows.setdefault(table, []).append(row)

    # Values

    def _shape(self, details: Row) -> int | None:
        found = _SHAPE.match(details["shape"]) if isinstance(details.get("shape"), str) else None
        if found:
            numbers = [int(n or 0) for n in found.groups()[:12]]
            if max(numbers) >= 1 << 31:
                return None
            columns = dict(zip(_SHAPE_COLUMNS, numbers, strict=True))
            return self._target.shape(**columns, launch_type=found[13] or "regular")
        grid, block = (
            _triple(details.get(a, details.get(b))) for a, b in (("grid", "gridDim"), ("block", "blockDim"))
        )
        if grid is None or block is None:
            return None
        return self._target.shape(**dict(zip(_SHAPE_COLUMNS[:6], (*grid, *block), strict=True)))

    def _stack(self, details: Row) -> int | None:
        shown = details.get("stack")
        if not isinstance(shown, str) or not shown:
            return None
        if shown not in self._stacks:
            self._stacks[shown] = self._target.stack([_frame(part) for part in reversed(shown.split(" ← "))])
        return self._stacks[shown]


_SHAPE_COLUMNS = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "cluster_x", "cluster_y", "cluster_z", "registers",
    "shared_static", "shared_dynamic",
)  # fmt: skip
_UNITS = frozenset(("%", "B", "B/s", "W", "mW", "MHz", "°C", "1", "value", "J", "s", "ns", "Hz", "kB", "MB"))


def _frame(shown: str) -> Frame:
    found = _FRAME.match(shown)
    if found is None:
        return (shown, None, None, None, "python", None)
    line = int(found[3]) if found[3] and len(found[3]) < 10 else None
    return (found[1], found[2], line, None, "python", None)


def _correlation(details: Row) -> int | None:
    return _number(
        next((details[k] for k in ("correlation", "correlationId", "correlation_id") if k in details), None)
    )


def _copied(details: Row) -> int:
    """Bytes of a copy or fill, from an argument or XProf's description; 0 if neither gives them."""
    found = _SIZE.search(text(details.get("memcpy_details", details.get("memset_details"))))
    return _number(found[1] if found else details.get("bytes", details.get("size"))) or 0


def _number(value: object) -> int | None:
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else None


def _address(value: object) -> int | None:
    """An address as our exports write it (a hexadecimal string); None for anything else."""
    if not isinstance(value, str) or not _HEXADECIMAL.fullmatch(value):
        return None
    return int(value, 16) or None


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _triple(value: object) -> tuple[int, int, int] | None:
    if isinstance(value, str):
        value = re.findall(r"\d+", value)
    if not isinstance(value, list) or len(value) != 3:
        return None
    numbers = [_number(v) for v in value]
    if any(n is None or not 0 <= n < 1 << 31 for n in numbers):
        return None
    return numbers[0], numbers[1], numbers[2]  # type: ignore[return-value]


def _json(details: Row) -> str | None:
    left = {key: value for key, value in details.items() if key != "stack"}
    return msgspec.json.encode(left).decode() if left else None

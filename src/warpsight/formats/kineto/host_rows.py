"""Work of the host: calls, operators, ranges, instants, memory events and counters as columns of their tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.events import NO_ARGS, NOTHING, Args, Event, MoreArgs
from warpsight.formats.kineto.placing import Placing

Columns = dict[str, Any]
_LAUNCH = re.compile(r"[Ll]aunch(?!HostFunc)")
_PACKED = re.compile(rb"[\n\r\t]")
#: Fields of `args` that have a column, or that Kineto derives from others; all others are kept as attributes.
OPERATOR_COLUMNS = frozenset(
    ("External id", "Record function id", "Ev Idx", "Input Dims", "Sequence number", "finished", "Call stack")
)
#: c10::DeviceType of the host.
_CPU = 0


def is_launch(name: str) -> bool:
    """Whether a runtime or driver function launches kernels or graphs."""
    return _LAUNCH.search(name) is not None


def launches(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table launch but the times; ROCm's calls tell kernel and shape."""
    args = [e.args or NO_ARGS for e in events]
    name = placing.target.name
    return {
        "function": [e.name for e in events],
        "correlation": [a.correlation for a in args],
        "name_id": [None if a.kernel is None else name(a.kernel) for a in args],
        "shape_id": [
            None if a.grid is None else placing.shape(a.grid, a.block, None, a.shared) for a in args
        ],
        "captured": constant(False, len(events)),
        **placing.where(events),
    }


def calls(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table api but the times."""
    args = [e.args or NO_ARGS for e in events]
    sizes = [a.bytes if isinstance(a.bytes, int) else None for a in args]
    return {
        "function": [e.name for e in events],
        "correlation": [a.correlation for a in args],
        "bytes": sizes,
        **placing.where(events),
    }


class Texts:
    """JSON of arguments, once per distinct text: shapes repeat in every iteration of a program."""

    def __init__(self) -> None:
        self._known: dict[bytes, str | None] = {}

    def compact(self, raw: Any) -> str | None:
        """A JSON value without its indentation; None for nothing."""
        key = bytes(raw)
        text = self._known.get(key, "")
        if text == "":
            if len(self._known) > 1 << 17:
                self._known.clear()
            text = self._known[key] = _compacted(key)
        return text

    def operator(self, event: Event) -> str | None:
        """What an operator's arguments hold beside the columns, as a JSON object."""
        a = event.args or NO_ARGS
        if event.extra is None and a.forward_thread is None and (type(a) is Args or not _is_special(a)):
            key = b"\0".join((a.types, a.strides, a.concrete))
            if len(key) == 2:
                return None
            text = self._known.get(key, "")
            if text == "":
                text = self._known[key] = members(event, OPERATOR_COLUMNS)
            return text
        return members(event, OPERATOR_COLUMNS)


def _is_special(args: Any) -> bool:
    """Whether an operator has arguments that few have."""
    return (
        args.collective is not None
        or args.group_name is not NOTHING
        or args.group_description is not NOTHING
        or args.module_hierarchy is not NOTHING
        or args.backend is not NOTHING
        or args.python_thread is not None
        or args.kind is not None
    )


def _compacted(text: bytes) -> str | None:
    if not text:
        return None
    return msgspec.json.format(text, indent=0).decode()


def members(event: Event, without: Iterable[str] = ()) -> str | None:
    """All arguments of an event that are not named, and its unknown fields, as a JSON object; None without any."""
    parts: dict[str, Any] = {}
    if event.args is not None:
        for name, key in zip(event.args.__struct_fields__, event.args.__struct_encode_fields__, strict=True):
            value = getattr(event.args, name)
            if value is None or value is NOTHING or key in without:
                continue
            if isinstance(value, msgspec.Raw):
                if not bytes(value):
                    continue
                value = msgspec.Raw(msgspec.json.format(bytes(value), indent=0))
            parts[key] = value
    for key, text in (event.extra or {}).items():
        parts.setdefault(key, msgspec.Raw(text.encode()))
    return msgspec.json.encode(parts).decode() if parts else None


def operators(events: Sequence[Event], placing: Placing, texts: Texts) -> Columns:
    """Columns of table op but the times; `_call_stack` is torch's own text, innermost frame first."""
    args = [e.args or NO_ARGS for e in events]
    return {
        "name_id": placing.names(events),
        "sequence": [a.sequence for a in args],
        "correlation": [a.external for a in args],
        "shapes": [texts.compact(a.dims) for a in args],
        "attributes": [texts.operator(e) for e in events],
        "_call_stack": [a.call_stack if isinstance(a, MoreArgs) else None for a in args],
        **placing.where(events),
    }


def memory(events: Sequence[Event], placing: Placing) -> Columns:
    """Columns of table memory but the time."""
    args = [e.args or NO_ARGS for e in events]
    on_host = [a.device_type == _CPU for a in args]
    used = {a.device_id for a, host in zip(args, on_host, strict=True) if not host}
    devices = {number: None if number is None else placing.device(number) for number in used}
    sizes = [a.memory_bytes or 0 for a in args]
    return {
        "operation": ["allocate" if size >= 0 else "free" for size in sizes],
        "address": [(a.address or 0) & (1 << 64) - 1 for a in args],
        "bytes": [abs(size) for size in sizes],
        "kind": constant("reported", len(events)),
        "device": [None if host else devices[a.device_id] for a, host in zip(args, on_host, strict=True)],
        "pool_size": [a.total_reserved for a in args],
        "pool_used": [a.total_allocated for a in args],
        "allocator": ["cpu" if host else "caching allocator" for host in on_host],
        **placing.where(events),
    }


def is_memory(event: Event) -> bool:
    """Whether an instant is an allocation or a free."""
    return event.name == "[memory]" and event.args is not None and event.args.memory_bytes is not None


def numbers(told: str) -> list[tuple[str, float]]:
    """The numeric members of a JSON object."""
    found = msgspec.json.decode(told)
    return [
        (k, float(v)) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)
    ]

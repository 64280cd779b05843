"""Work of the host: calls, operators, ranges, instants, memory events and counters as columns of their tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from warpsight.formats.kineto.columns import constant
from warpsight.formats.kineto.device_rows import KNOWN
from warpsight.formats.kineto.group import Bools, EventGroup, integer, json_text, text
from warpsight.formats.kineto.layouts import OWN
from warpsight.formats.kineto.placing import Placing
from warpsight.model import arrow

Columns = dict[str, Any]
_LAUNCH = re.compile(r"[Ll]aunch(?!HostFunc)")
#: Fields of `args` that have a column, or that Kineto derives from others; all others are kept as attributes.
OPERATOR_COLUMNS = frozenset(
    ("External id", "Record function id", "Ev Idx", "Input Dims", "Sequence number", "finished", "Call stack")
)
#: c10::DeviceType of the host.
_CPU = 0
#: Maximum number of cached strings made from JSON, and their total length.
_TEXTS = 1 << 16
_CHARACTERS = 8 << 20


def is_launch(name: str) -> bool:
    """Whether a runtime or driver function launches kernels or graphs."""
    return _LAUNCH.search(name) is not None


def launching(group: EventGroup) -> Bools:
    """Which calls launch kernels or graphs."""
    codes, names = group.codes(".name")
    found: Bools = np.array([is_launch(text(raw) or "") for raw in names] + [False])[codes]
    return found


def launches(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table launch except the times; ROCm's calls have kernel and shape."""

    def kernel(raw: bytes | None) -> int | None:
        name = text(raw)
        return None if name is None else placing.target.name(name)

    return {
        "function": _strings(group, ".name"),
        "correlation": group.integers("correlation"),
        "name_id": group.mapped(kernel, pa.int32(), "kernel"),
        "shape_id": placing.shapes(group),
        "captured": constant(False, group.rows),
        **placing.where(group),
    }


def calls(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table api except the times."""
    return {
        "function": _strings(group, ".name"),
        "correlation": group.integers("correlation"),
        "bytes": group.mapped(integer, pa.int64(), "bytes"),
        **placing.where(group),
    }


def _strings(group: EventGroup, field: str) -> pa.Array:
    return group.mapped(lambda raw: text(raw) or "", pa.string(), field)


class ArgumentTexts:
    """Arguments as JSON, built once per distinct string: shapes repeat in every iteration of a program."""

    def __init__(self) -> None:
        self._known: dict[Any, str | None] = {}
        self._characters = 0

    def column(self, group: EventGroup, field: str) -> pa.Array:
        """A field's JSON without its indentation; null if missing."""
        return group.mapped(lambda raw: self._once(raw, _compact), pa.string(), field)

    def members(self, group: EventGroup, without: frozenset[str] = frozenset()) -> pa.Array:
        """All other arguments, and unknown fields of the event, as a JSON object; null if there are none."""
        fields = [
            name for name in group.fields if name not in without and (name not in KNOWN or name[0] != OWN)
        ]
        names = tuple(fields)
        return group.mapped(lambda *raws: self._once((names, raws), _object), pa.string(), *fields)

    def _once(self, key: Hashable, make: Callable[[Any], str | None]) -> str | None:
        known = self._known.get(key, "")
        if known == "":
            if len(self._known) >= _TEXTS or self._characters > _CHARACTERS:
                self._known.clear()
                self._characters = 0
            known = self._known[key] = make(key)
            self._characters += len(known or "")
        return known


def _compact(raw: bytes | None) -> str | None:
    return None if raw is None else json_text(raw)


def _object(key: tuple[tuple[str, ...], tuple[bytes | None, ...]]) -> str | None:
    parts = {
        name.removeprefix(OWN): msgspec.Raw(json_text(raw).encode())
        for name, raw in zip(*key, strict=True)
        if raw is not None and (raw != b"null" or name not in KNOWN)
    }
    return msgspec.json.encode(parts).decode() if parts else None


def operators(group: EventGroup, placing: Placing, texts: ArgumentTexts) -> Columns:
    """Columns of table op except the times; `_call_stack` is torch's own string, innermost frame first."""
    return {
        "name_id": placing.names(group),
        "sequence": group.integers("Sequence number"),
        "correlation": group.integers("External id"),
        "shapes": texts.column(group, "Input Dims"),
        "attributes": texts.members(group, OPERATOR_COLUMNS),
        "_forward_thread": group.integers("Fwd thread id"),
        "_call_stack": group.mapped(text, pa.string(), "Call stack"),
        **placing.where(group),
    }


def memory(group: EventGroup, placing: Placing) -> Columns:
    """Columns of table memory except the time."""

    def device(kind: bytes | None, number: bytes | None) -> int | None:
        found = integer(number)
        return None if integer(kind) == _CPU or found is None else placing.device(found)

    def allocator(kind: bytes | None) -> str:
        return "cpu" if integer(kind) == _CPU else "caching allocator"

    sizes = arrow.fill_null(group.integers("Bytes"), 0).to_numpy()
    address = arrow.fill_null(group.integers("Addr"), 0).to_numpy()
    return {
        "operation": arrow.take(pa.array(["free", "allocate"]), pa.array((sizes >= 0).astype(np.int8))),
        "address": address.view(np.uint64),
        "bytes": np.abs(sizes),
        "kind": constant("reported", group.rows),
        "device": group.mapped(device, pa.int16(), "Device Type", "Device Id"),
        "pool_size": group.integers("Total Reserved"),
        "pool_used": group.integers("Total Allocated"),
        "allocator": group.mapped(allocator, pa.string(), "Device Type"),
        **placing.where(group),
    }


def is_memory(group: EventGroup) -> Bools:
    """Which instants are allocations or frees."""
    codes, names = group.codes(".name")
    named: Bools = np.array([raw == b'"[memory]"' for raw in names] + [False])[codes]
    return group.there("Bytes") & named


def numbers(payload: str) -> list[tuple[str, float]]:
    """The numeric members of a JSON object."""
    found = msgspec.json.decode(payload)
    return [
        (k, float(v)) for k, v in found.items() if isinstance(v, (int, float)) and not isinstance(v, bool)
    ]

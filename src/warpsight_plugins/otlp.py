"""OpenTelemetry profiles: a `ProfilesData` message of profiles/v1development (opentelemetry-proto 1.11).

Per process two profiles share one dictionary: time on the GPU and pieces of work, by host stack with the kernel as leaf.
Entry 0 of every table of the dictionary is empty and means none, as the protocol asks.
"""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING, Any

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.writing import device_stacks, protobuf
from warpsight.formats.writing.device_stacks import Place, Total

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=("two profiles per process, ns and count of device work, by host stack with the kernel as leaf",),
    lost=("times of single pieces; own events, counters",),
    tested=("opentelemetry-proto 1.11 (profiles/v1development)",),
)
_TYPES = (("gpu_time", "nanoseconds"), ("gpu_work", "count"))


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the message; returns counts of profiles, samples and kernels without a time."""
    found = device_stacks.totals(trace, selection)
    tables = _Dictionary(device_stacks.StackFrames(trace))
    wall = device_stacks.wall_clock(trace)
    out, profiles = [], 0
    for row in trace.arrow("process").to_pylist():
        own = [total for total in found if total.process == row["process"]]
        if own:
            made = [_profile(tables, own, wall, kind, str(trace.path)) for kind in range(len(_TYPES))]
            profiles += len(made)
            out.append(protobuf.data(1, _resource(row, made)))
    file.write(b"".join(out) + protobuf.data(2, tables.message()))
    return {
        "profiles": profiles,
        "samples": len(_TYPES) * len(found),
        "unplaced": device_stacks.unplaced(trace),
    }


def _resource(process: dict[str, Any], profiles: list[bytes]) -> bytes:
    from warpsight._version import __version__

    attributes = {"service.name": process["executable"] or "unknown_service", "process.pid": process["pid"],
                  "process.command_line": process["command"], "host.name": process["host"]}  # fmt: skip
    resource = b"".join(
        protobuf.data(1, protobuf.text(1, key) + protobuf.data(2, _any(value)))
        for key, value in attributes.items()
        if value
    )
    scope = protobuf.text(1, "warpsight") + protobuf.text(2, __version__)
    return protobuf.data(1, resource) + protobuf.data(
        2, protobuf.data(1, scope) + b"".join(protobuf.data(2, profile) for profile in profiles)
    )


def _any(value: str | int) -> bytes:
    return (
        protobuf.number(3, value)
        if isinstance(value, int)
        else protobuf.data(1, value.encode("utf-8", "replace"))
    )


def _profile(tables: _Dictionary, found: list[Total], wall: int, kind: int, path: str) -> bytes:
    """One profile of a process."""
    name, unit = _TYPES[kind]
    value_type = protobuf.number(1, tables.string(name)) + protobuf.number(2, tables.string(unit))
    begin, end = min(total.first for total in found), max(total.last for total in found)
    samples = b""
    for total in found:
        attributes = [tables.attribute("gpu.work.kind", total.kind)]
        value = total.time if kind == 0 else total.count
        sample = protobuf.number(1, tables.stack(total)) + protobuf.packed(2, attributes)
        # A single 0 is still a value: packed fields of defaults are written.
        samples += protobuf.data(2, sample + protobuf.packed(4, [value]))
    identity = hashlib.sha256(f"{path} {found[0].process} {name}".encode()).digest()[:16]
    return (
        protobuf.data(1, value_type) + samples + protobuf.fixed64(3, begin + wall if wall else 0)
        + protobuf.number(4, end - begin) + protobuf.data(7, identity)
    )  # fmt: skip


class _Dictionary:
    """The tables that profiles refer to."""

    def __init__(self, stacks: device_stacks.StackFrames) -> None:
        self._host = stacks
        self._strings: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[Place, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._attributes: dict[tuple[str, str], int] = {}
        self._known: dict[int, list[int]] = {}

    def string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def attribute(self, key: str, value: str) -> int:
        self.string(key)
        return self._attributes.setdefault((key, value), len(self._attributes) + 1)

    def _location(self, place: Place) -> int:
        function, file, _, _ = place
        self.string(function), self.string(file)
        self._functions.setdefault((function, file), len(self._functions) + 1)
        return self._locations.setdefault(place, len(self._locations) + 1)

    def stack(self, total: Total) -> int:
        """The number of a stack whose leaf is its kernel, which comes first."""
        if total.stack not in self._known:
            self._known[total.stack] = [self._location(p) for p in self._host.innermost_first(total.stack)]
        leaf = self._location((total.name, "", 0, "kernel"))
        key = (leaf, *self._known[total.stack])
        return self._stacks.setdefault(key, len(self._stacks) + 1)

    def message(self) -> bytes:
        """ProfilesDictionary."""
        kinds = sorted({place[3] for place in self._locations})
        kind_of = {
            kind: self.attribute("profile.frame.type", "cpython" if kind == "python" else kind)
            for kind in kinds
        }
        locations, functions = [b""], [b""]
        for function, file, line, kind in self._locations:
            payload = protobuf.number(1, self._functions[function, file]) + protobuf.number(2, line)
            locations.append(protobuf.data(3, payload) + protobuf.packed(4, [kind_of[kind]]))
        for function, file in self._functions:
            name = protobuf.number(1, self.string(function)) + protobuf.number(2, self.string(function))
            functions.append(name + protobuf.number(3, self.string(file)))
        stacks = [b"", *(protobuf.packed(1, stack) for stack in self._stacks)]
        attributes = [b""]
        for key, value in self._attributes:
            attributes.append(protobuf.number(1, self.string(key)) + protobuf.data(2, _any(value)))
        parts = [protobuf.data(1, b""), protobuf.data(4, b"")]
        for field, rows in ((2, locations), (3, functions), (6, attributes), (7, stacks)):
            parts += [protobuf.data(field, row) for row in rows]
        parts += [protobuf.data(5, text.encode("utf-8", "replace")) for text in self._strings]
        return b"".join(parts)

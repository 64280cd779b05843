"""pprof's profiles: gzip-compressed protobuf (github.com/google/pprof, proto/profile.proto).

One sample per host stack and kernel with pieces and ns; the kernel is the leaf. Labels are process and kind of work.
"""

from __future__ import annotations

import gzip
from typing import IO, TYPE_CHECKING

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.writing import device_stacks, protobuf
from warpsight.formats.writing.device_stacks import Place, Total

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


WRITTEN = Coverage(
    kept=(
        "count and ns of device work by host stack, with the kernel as leaf; process, kind and bytes as "
        "labels",
    ),
    lost=("times of single pieces; own events, counters",),
    tested=("google/pprof's profile.proto of July 2026",),
)


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write a profile; returns counts of samples, locations and kernels without a time."""
    found = device_stacks.totals(trace, selection)
    writer = _Writer(device_stacks.StackFrames(trace))
    samples = b"".join(protobuf.data(2, writer.sample(total)) for total in found)
    begin = min((total.first for total in found), default=0)
    end = max((total.last for total in found), default=0)
    wall = device_stacks.wall_clock(trace)
    types = [writer.value_type("gpu_work", "count"), writer.value_type("gpu_time", "nanoseconds")]
    body = b"".join(protobuf.data(1, kind) for kind in types) + samples + writer.tables()
    body += protobuf.number(9, begin + wall if wall else 0) + protobuf.number(10, end - begin)
    body += (
        protobuf.data(11, types[1]) + protobuf.number(12, 1) + protobuf.number(14, writer.string("gpu_time"))
    )
    body += b"".join(protobuf.data(6, text.encode("utf-8", "replace")) for text in writer.strings)
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(body)
    return {
        "samples": len(found),
        "locations": len(writer.locations),
        "unplaced": device_stacks.unplaced(trace),
    }


class _Writer:
    def __init__(self, stacks: device_stacks.StackFrames) -> None:
        self._stacks = stacks
        self.strings: dict[str, int] = {"": 0}
        self.locations: dict[Place, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._ids: dict[int, list[int]] = {}

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def value_type(self, kind: str, unit: str) -> bytes:
        return protobuf.number(1, self.string(kind)) + protobuf.number(2, self.string(unit))

    def _location(self, place: Place) -> int:
        self._functions.setdefault(place[:2], len(self._functions) + 1)
        return self.locations.setdefault(place, len(self.locations) + 1)

    def sample(self, total: Total) -> bytes:
        if total.stack not in self._ids:
            self._ids[total.stack] = [self._location(p) for p in self._stacks.innermost_first(total.stack)]
        leaf = self._location((total.name, f"[{total.kind}]", 0, "kernel"))
        out = protobuf.packed(1, [leaf, *self._ids[total.stack]]) + protobuf.packed(
            2, [total.count, total.time]
        )
        process = protobuf.number(1, self.string("process")) + protobuf.number(3, total.process)
        kind = protobuf.number(1, self.string("kind")) + protobuf.number(2, self.string(total.kind))
        size = b""
        if total.bytes:
            size = protobuf.number(1, self.string("bytes")) + protobuf.number(3, total.bytes)
            size = protobuf.data(3, size + protobuf.number(4, self.string("bytes")))
        return out + protobuf.data(3, process) + protobuf.data(3, kind) + size

    def tables(self) -> bytes:
        """Locations and functions."""
        out = []
        for (function, file, line, _), number in self.locations.items():
            message = protobuf.number(1, self._functions[function, file]) + protobuf.number(2, line)
            out.append(protobuf.data(4, protobuf.number(1, number) + protobuf.data(4, message)))
        for (function, file), number in self._functions.items():
            name = self.string(function)
            message = protobuf.number(1, number) + protobuf.number(2, name) + protobuf.number(3, name)
            out.append(protobuf.data(5, message + protobuf.number(4, self.string(file))))
        return b"".join(out)

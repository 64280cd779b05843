"""SBT files into traces. Data that a row cannot hold is kept in table `attribute`, so that writing SBT restores the file.

Attributes of table `sbt` belong to the whole file (row 0: `header`, `metadata`, `devices`, `strings`, `order`) or to one
event (row: its place in the file): `addresses`, `name`, `thread`, the whole `event` where it differs from its row, or an
`extra` event that has no row of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats import varint
from warpsight.formats.registry import Coverage, Options
from warpsight_plugins.sbt import events, layout, sections
from warpsight_plugins.sbt.layout import Metadata, SbtHeader
from warpsight_plugins.sbt.placing import EventPlacer

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "every event with all fields: kernels (launch and completion paired), copies, fills, waits, `memory`,"
        " ranges, the rest as `user_event`",
        "metadata and devices; unfinished or cut files up to the cut",
        "writing SBT again gives the same bytes",
    ),
    lost=(
        "invalid UTF-8 (replaced); overlong number encodings",
    ),
    tested=(
        "0.1, written after the layout independently of this reader",
    ),
)  # fmt: skip


def sniff(source: Source) -> bool:
    """Whether the file begins with SBT's magic."""
    return source.head[:4] == layout.MAGIC


def read(source: Source, target: Target, options: Options) -> None:
    """Read a file.

    Raises:
        FormatError: for a count that the file cannot hold, an offset outside the file, or an unterminated number.
    """
    path = source.local()
    if path.stat().st_size < layout.HEADER.size:
        raise source.error(
            f"ends inside the header of {layout.HEADER.size} bytes", offset=path.stat().st_size
        )
    data = np.memmap(path, np.uint8, "r")
    try:
        _read(source, target, data.data, data)
    except sections.Damaged as error:
        raise source.error(error.problem, offset=error.offset) from None
    except varint.Overlong as error:
        raise source.error("a number does not end", offset=error.offset) from None


def _read(source: Source, target: Target, view: memoryview, data: varint.Column) -> None:
    if bytes(view[:4]) != layout.MAGIC:
        raise source.error("is not an SBT file: it does not begin with SBT and a zero byte", offset=0)
    header = SbtHeader.unpack(bytes(view[: layout.HEADER.size]))
    for name in ("metadata", "strings", "devices", "events"):
        offset = getattr(header, name)
        if offset and offset < layout.HEADER.size:
            raise source.error(f"the offset of the {name} ({offset:,}) is inside the header", offset=0)
    process = _foreword(source, target, header, view)
    strings, salvaging = _strings(source, header, view)
    begin = header.events or (_unfinished(view) if salvaging and not header.count else 0)
    target.source.update(version=f"{header.major}.{header.minor}", clock="the writer's own, ns")
    placer = EventPlacer(target, process, strings)
    if begin and begin < len(view):
        _events(source, placer, header, view, data, begin, salvaging)
    elif header.count:
        source.ended_early(f"the {header.count:,} events should begin at byte {begin:,}")
    placer.finish()
    _attributes(target, header, placer, process)


def _events(
    source: Source,
    placer: EventPlacer,
    header: SbtHeader,
    view: memoryview,
    data: varint.Column,
    begin: int,
    salvaging: bool,
) -> None:
    """Decode and place all events."""
    cursor = sections.Cursor(view, begin)
    cursor.section(layout.EVENTS, "event")
    end = header.strings if header.strings > begin and not salvaging else len(view)
    count = header.count
    if not salvaging and count * layout.SHORTEST_EVENT > end - cursor.at:
        problem = f"{count:,} events cannot fit in the {end - cursor.at:,} bytes of the event section"
        raise source.error(problem, offset=begin)
    unfinished = salvaging and not count
    base = cursor.number()
    found, reached = 0, cursor.at
    for piece, reached in events.read(data, cursor.at, end, base, end if unfinished else count):  # noqa: B007
        placer.place(piece, found)
        found += len(piece)
    if unfinished:
        source.ended_early(f"it was never finished: {found:,} events were found up to byte {reached:,}")
    elif found < count and not salvaging:
        problem = f"{count:,} events are announced but only {found:,} are present"
        raise source.error(problem, offset=reached)
    elif found < count:
        source.ended_early(f"{count:,} events are announced but only {found:,} are complete")


def _strings(source: Source, header: SbtHeader, view: memoryview) -> tuple[list[bytes] | None, bool]:
    """The string table, and whether the file ends before it (None then)."""
    if header.strings and header.strings < len(view):
        return sections.read_strings(view, header.strings), False
    if not header.strings and not header.events and len(view) == layout.HEADER.size:
        source.ended_early("it was never finished and holds no event")
        return None, True
    where = (
        f"its string table should be at byte {header.strings:,}"
        if header.strings
        else "it has no string table"
    )
    source.ended_early(f"{where}, so names are missing")
    return None, True


def _unfinished(view: memoryview) -> int:
    """The offset of the events in a file whose header was never completed, or 0."""
    cursor = sections.Cursor(view, layout.HEADER.size)
    try:
        if cursor.at < len(view) and view[cursor.at] == layout.METADATA:
            cursor.at += 1
            for read in (cursor.text, cursor.text, cursor.number, cursor.number, cursor.text, cursor.number):
                read()
        if cursor.at < len(view) and view[cursor.at] == layout.DEVICES:
            cursor.at += 1
            for _ in range(cursor.count("devices", 12)):
                cursor.number(), cursor.text(), cursor.text()
                for _ in range(9):
                    cursor.number()
    except sections.Damaged:
        return 0
    return cursor.at if cursor.at < len(view) and view[cursor.at] == layout.EVENTS else 0


def _foreword(source: Source, target: Target, header: SbtHeader, view: memoryview) -> int:
    """Read process and devices; returns the process's id."""
    metadata = None
    if header.metadata and header.metadata < len(view):
        metadata = sections.read_metadata(view, header.metadata)
        target.attribute("sbt", 0, "metadata", json.dumps(vars(metadata), ensure_ascii=False))
    elif header.metadata:
        source.ended_early(f"its metadata should be at byte {header.metadata:,}")
    told = metadata or Metadata()
    columns: dict[str, Any] = {
        "command": told.command or told.application,
        "executable": told.application,
        "host": told.host,
    }
    columns |= {k: v for k, v in (("start", told.start), ("end", told.end)) if 0 < v < 1 << 63}
    process = target.process(told.pid, **columns)
    if header.devices and header.devices < len(view):
        devices = sections.read_devices(view, header.devices)
        target.attribute("sbt", 0, "devices", json.dumps([vars(d) for d in devices], ensure_ascii=False))
        for device in devices:
            _device(target, device)
    elif header.devices:
        source.ended_early(f"its devices should be at byte {header.devices:,}")
    return process


def _device(target: Target, device: layout.SbtDevice) -> None:
    columns = {
        "multiprocessors": device.multiprocessors, "warp_size": device.warp, "clock_khz": device.clock,
        "threads_per_multiprocessor": device.threads, "memory_clock_khz": device.memory_clock,
    }  # fmt: skip
    known: dict[str, Any] = {k: v for k, v in columns.items() if 0 < v < 1 << 31}
    if 0 < device.memory < 1 << 63:
        known["memory_bytes"] = device.memory
    if device.major:
        known["compute_capability"] = f"{device.major}.{device.minor}"
    platform = {"NVIDIA": "cuda", "AMD": "rocm", "Apple": "metal", "MetaX": "maca"}.get(device.vendor, "")
    index = device.device if device.device < 1 << 31 else 0
    target.device((target.scope, device.device), index=index, name=device.name, vendor=device.vendor,
                  platform=platform, **known)  # fmt: skip


def _attributes(target: Target, header: SbtHeader, placer: EventPlacer, process: int) -> None:
    """What belongs to the whole file and cannot be derived from its rows."""
    usual = layout.LITTLE_ENDIAN | (layout.HAS_CALLSTACKS if placer.strings else 0)
    raw = [header.major, header.minor, header.flags, header.size, header.compression, header.reserved.hex()]
    if raw != [0, 1, usual, layout.HEADER.size, 0, bytes(7).hex()]:
        target.attribute("sbt", 0, "header", json.dumps(raw), process)
    for key, value in placer.leftovers().items():
        target.attribute("sbt", 0, key, value, process)

"""Traces as SBT files that TraceSmith reads.

A trace that came from an SBT file is written as that file was; for other traces, device work, allocations, ranges and the
program's own events are written in time order.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.varint import Column, encode_one
from warpsight_plugins.sbt import events, layout, sections
from warpsight_plugins.sbt.collecting import BLOCKS, collect
from warpsight_plugins.sbt.layout import Metadata, SbtDevice, SbtHeader
from warpsight_plugins.sbt.restoring import restored
from warpsight_plugins.sbt.strings import StringTable

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "kernels with shape and stack, copies, fills, waits, allocations, ranges and own events in time "
        "order; metadata, devices",
        "a trace imported from one SBT file: that file, byte for byte",
    ),
    lost=(
        "launches, API calls, threads, counters, samples, graphs, contexts; attributes; kinds of events that "
        "SBT does not name",
    ),
    tested=("TraceSmith's rules, by an independent codec",),
)
_CHUNK_ROWS = 1 << 15


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the selected part of a trace; returns the numbers of events, strings and kernels without a time."""
    whole = selection == Selection()
    kept = _file_attributes(trace) if whole else {}
    found = collect(trace, selection)
    if kept:
        order = np.array(json.loads(kept["order"]), np.int64) if "order" in kept else None
        found = restored(trace, found, order)
    strings = StringTable(json.loads(kept["strings"]) if "strings" in kept else None)
    done = strings.numbered(found)
    pieces = event_pieces(done)
    listed = strings.listed
    usual = layout.LITTLE_ENDIAN | (layout.HAS_CALLSTACKS if listed else 0)
    header = SbtHeader(flags=usual, count=len(done))
    if "header" in kept:
        major, minor, flags, size, compression, reserved = json.loads(kept["header"])
        header = SbtHeader(major, minor, flags, size, count=len(done), compression=compression,
                        reserved=bytes.fromhex(reserved))  # fmt: skip
    metadata, devices = _foreword(trace, kept)
    for piece in sections.assemble(header, metadata, devices, pieces, sections.pack_strings(listed)):
        file.write(piece)
    return {"events": len(done), "strings": len(listed), "unplaced": found.unplaced}


def event_pieces(done: events.SbtEvents) -> list[bytes]:
    """The event section."""
    if not len(done):
        return []
    previous = int(done.time[0])
    pieces = [bytes([layout.EVENTS]) + encode_one(previous)]
    for first in range(0, len(done), _CHUNK_ROWS):
        part = _slice(done, first, min(first + _CHUNK_ROWS, len(done)))
        pieces.append(events.encode(part, previous))
        previous = int(part.time[-1])
    return pieces


def _slice(done: events.SbtEvents, first: int, last: int) -> events.SbtEvents:
    """Events first to last as views, with the rows of their parameters counted from 0."""
    columns: dict[str, Column] = {}
    for rows, values in BLOCKS:
        place = getattr(done, rows)
        begin, end = np.searchsorted(place, [first, last])
        columns[rows] = place[begin:end] - first
        columns |= {name: getattr(done, name)[begin:end] for name in values}
    own = {
        f.name: getattr(done, f.name)[first:last] for f in fields(done) if f.name not in (*columns, "blobs")
    }
    return events.SbtEvents(**own, **columns, blobs=done.blobs)


def _file_attributes(trace: StoredTrace) -> dict[str, str]:
    """The import's data about the file as a whole; empty if the trace was not imported from a single SBT file."""
    source = trace.manifest.get("source")
    if not isinstance(source, dict) or source.get("format") != "sbt":
        return {}
    keys = ("header", "metadata", "devices", "strings", "order")
    listed = ", ".join(f"'{key}'" for key in keys)
    rows = trace.sql(
        f"SELECT key, value FROM attribute WHERE \"table\" = 'sbt' AND row = 0 AND key IN ({listed})"
    )
    return {"sbt": "", **dict(rows.fetchall())}


def _foreword(trace: StoredTrace, kept: dict[str, str]) -> tuple[bytes, bytes]:
    """The sections before the events."""
    if kept:
        metadata = (
            sections.pack_metadata(Metadata(**json.loads(kept["metadata"]))) if "metadata" in kept else b""
        )
        listed = (
            [SbtDevice(**values) for values in json.loads(kept["devices"])] if "devices" in kept else None
        )
        return metadata, b"" if listed is None else sections.pack_devices(listed)
    recorded = trace.sql(
        'SELECT executable, command, start, coalesce("end", 0), host, pid FROM process ORDER BY process LIMIT 1'
    ).fetchall()
    metadata = sections.pack_metadata(Metadata(*recorded[0])) if recorded else b""
    return metadata, sections.pack_devices([_device(row) for row in trace.arrow("device").to_pylist()])


def _device(row: dict[str, Any]) -> SbtDevice:
    major, _, minor = (row["compute_capability"] or "0.0").partition(".")
    whole, part = (int(digits) if digits.isdigit() else 0 for digits in (major, minor))
    return SbtDevice(
        row["index"], row["name"], row["vendor"], whole, part, row["memory_bytes"] or 0, row["memory_clock_khz"] or 0, 0,
        row["multiprocessors"] or 0, row["threads_per_multiprocessor"] or 0, row["clock_khz"] or 0, row["warp_size"] or 0,
    )  # fmt: skip

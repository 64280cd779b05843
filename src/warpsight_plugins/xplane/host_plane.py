"""Planes of the host: threads with their ranges, and the driver's calls among them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.json_pieces import PIECE
from warpsight_plugins.xplane import threads

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from warpsight.formats.target import Target
    from warpsight_plugins.xplane.space import Plane

#: Calls of CUDA's and HIP's APIs, as their collectors name them.
_CALL = re.compile(r"^(cu|cuda|hip|hsa_)[A-Z_a-z0-9]*$")
_LAUNCH = re.compile(r"^(cu(da)?|hip(Ext|Module|ExtModule)?)(Graph)?Launch(?!HostFunc)")


def read_host(plane: Plane, process: int, target: Target) -> None:
    """Ranges of a host plane's threads to table marker, API calls with a correlation id to launch and api."""
    rows: dict[str, list[dict[str, Any]]] = {"marker": [], "launch": [], "api": []}
    numbers = threads.numbers(plane, lambda name: _CALL.match(name) is not None)
    for line in plane.lines():
        thread = _thread(plane, line, process, target, numbers.get(line.id))
        for event in line.events:
            if event.num_occurrences:
                target.lost(event.num_occurrences, "aggregated events have no time", "marker")
                continue
            name = plane.event_name(event.metadata_id)
            stats = plane.shared_stats(event.metadata_id) | plane.values(event.stats)
            row = {
                "start": line.timestamp_ns + event.offset_ps // 1000,
                "duration": event.duration_ps // 1000,
                "thread": thread,
                "process": process,
            }
            table, more = _placed(plane, name, stats, target)
            if table == "marker" and not event.duration_ps:
                row["duration"], more["kind"] = None, "instant"
            rows[table].append({**row, **more})
            if len(rows[table]) >= PIECE:
                _write(rows, target)
    _write(rows, target)


def _write(rows: dict[str, list[dict[str, Any]]], target: Target) -> None:
    for table, found in rows.items():
        if found:
            target.add(table, found)
            found.clear()


def _placed(plane: Plane, name: str, stats: dict[str, Any], target: Target) -> tuple[str, dict[str, Any]]:
    """The table of an event, and its columns there besides time and thread."""
    correlation = stats.get("correlation_id")
    if _CALL.match(name) and isinstance(correlation, int):
        call = {"function": name, "correlation": correlation}
        return ("launch", {**call, "captured": False}) if _LAUNCH.match(name) else ("api", call)
    python = name.startswith("$") or plane.name == "/host:python-tracer"
    return "marker", {
        "kind": "push/pop",
        "open": False,
        "name_id": target.name(name),
        "domain": "python" if python else None,
        "source": "framework",
        "attributes": json.dumps(stats, ensure_ascii=False) if stats else None,
    }


def _thread(plane: Plane, line: Message, process: int, target: Target, number: int | None) -> int:
    """Thread id of a line: that of its thread's driver calls, or its own if the line is a thread (`python3/12345`)."""
    name = line.display_name or line.name
    if number is not None:
        return target.thread(process, number, name or plane.name)
    found = re.search(r"/(\d+)$", line.name)
    key = int(found[1]) if found else line.id if 0 < line.id < 2**31 else f"{plane.name} {line.id}"
    return target.thread(process, key, name or plane.name)

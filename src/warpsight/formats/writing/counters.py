"""The counters of a timeline: sampled numbers, and the bytes allocated over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from warpsight.formats.writing.queries import Queries
from warpsight.formats.writing.timeline import CounterTrack, Track
from warpsight.model.allocators import changes
from warpsight.model.views import quote

#: Counters come after everything else of their group.
_LAST = 1 << 30


def counters(
    queries: Queries, uuid: Callable[[], int], groups: Mapping[int | None, Track]
) -> Iterator[CounterTrack]:
    """All counters of the selection, in the order they are shown.

    `groups` are the tracks of devices (None: of the host) below which counters belong; others are at the top.
    """
    rank = _LAST
    for found in (_sampled(queries), _allocated(queries)):
        for device, name, unit, sql in found:
            rows = queries.columns(sql)
            if not len(rows["time"]):
                continue
            rank += 1
            group = groups.get(device)
            label = name if group is None or device is None else name.removeprefix(f"GPU {device}: ")
            track = Track(uuid(), label, None if group is None else group.uuid, rank, unit=unit)
            yield CounterTrack(track, rows["time"], rows["value"])


def _sampled(queries: Queries) -> Iterator[tuple[int | None, str, str, str]]:
    selection = queries.selection
    if not selection.wants("counter"):
        return
    chosen = queries.trace.sql(
        "SELECT DISTINCT device, name, unit, process FROM counter ORDER BY ALL"
    ).fetchall()
    several = len({process for *_, process in chosen if process is not None}) > 1
    for device, name, unit, process in chosen:
        if selection.devices and device not in selection.devices:
            continue
        if selection.processes and process is not None and process not in selection.processes:
            continue
        where = "" if device is None else f"GPU {device}: "
        whose = f", process {process}" if several and process is not None else ""
        yield (
            device,
            f"{where}{name}{whose}",
            unit,
            f"""
            SELECT time, value FROM counter WHERE name = {quote(name)} AND unit = {quote(unit)}
              AND device IS NOT DISTINCT FROM {_null(device)} AND process IS NOT DISTINCT FROM {_null(process)}
              AND {selection.instants()} ORDER BY time""",
        )


def _allocated(queries: Queries) -> Iterator[tuple[int | None, str, str, str]]:
    """Bytes allocated over time per process, device and family of allocators."""
    selection = queries.selection
    if not selection.wants("memory"):
        return
    groups = queries.trace.sql(
        f"SELECT DISTINCT process, device, allocator FROM ({changes()}) ORDER BY ALL"
    ).fetchall()
    several = len({process for process, _, _ in groups}) > 1
    for process, device, allocator in groups:
        if selection.processes and process not in selection.processes:
            continue
        where = "" if device is None else f"GPU {device}: "
        label = f"{where}allocated by {allocator}"
        yield (
            device,
            label + (f", process {process}" if several else ""),
            "B",
            f"""
            SELECT time, (sum(change) OVER (ORDER BY time))::DOUBLE AS value FROM ({changes(f"process = {process}")})
            WHERE device IS NOT DISTINCT FROM {_null(device)} AND allocator = {_null(allocator)}
            QUALIFY {selection.instants()} ORDER BY time""",
        )


def _null(value: int | str | None) -> str:
    return "NULL" if value is None else quote(value) if isinstance(value, str) else str(int(value))

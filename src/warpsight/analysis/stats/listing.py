"""Single events of all kinds in time order, for `view --list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from warpsight.analysis.base.result import Result, with_units
from warpsight.errors import UsageError, choices
from warpsight.model.selection import Rows, begin_of

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: OpenCL chooses the block of a kernel that is enqueued without one; the grid counts work items then.
_GRID = """CASE WHEN block_x = 0 THEN 'items ' || grid_x || '×' || grid_y || '×' || grid_z ELSE 'grid ' || grid_x || '×' || grid_y
    || '×' || grid_z || ' block ' || block_x || '×' || block_y || '×' || block_z END"""
_BYTES = "bytes || ' B'"
_WHERE = "device, stream, NULL::INTEGER AS thread"
_THREAD = "NULL::SMALLINT AS device, NULL::INTEGER AS stream, thread"
#: Kind → (table, time, duration, name, where, detail). Kinds are spelt as in `export --kind`.
KINDS = {
    "kernel": ("kernel", "start", "duration", "coalesce(demangled, name)", _WHERE, _GRID),
    "memcpy": ("memcpy", "start", "duration", "kind || ' ' || source_kind || ' → ' || destination_kind", _WHERE, _BYTES),
    "memset": ("memset", "start", "duration", "'memset ' || memory_kind", _WHERE, _BYTES),
    "sync": ("sync", "start", "duration", "kind", _WHERE, "''"),
    "launch": ("launch", "start", "duration", "function", _THREAD, "coalesce(short, '')"),
    "api": ("api", "start", "duration", "function", _THREAD, "coalesce('bytes ' || bytes, '')"),
    "nvtx": ("marker", "start", "duration", "name", _THREAD, "coalesce(domain, '')"),
    "op": ("op", "start", "duration", "name", _THREAD, "coalesce(shapes, '')"),
    "event": ("user_event", "start", "duration", "name", _THREAD, "kind"),
    "overhead": ("overhead", "start", "duration", "kind", _THREAD, "''"),
    "memory": ("memory", "time", "NULL::BIGINT", "operation || ' ' || kind",
               "device, stream, thread", "coalesce(bytes || ' B', '')"),
    "counter": ("counter", "time", "NULL::BIGINT", "name", "device, NULL::INTEGER AS stream, "
                "NULL::INTEGER AS thread", "value || ' ' || unit"),
}  # fmt: skip
#: Whether a row without a duration lasts until the end, for tables in which this differs between rows.
_ENDLESS = {"marker": '"open"', "user_event": "false"}
#: Kinds listed by default: actual events, without the calls and samples around them.
DEFAULT = ("kernel", "memcpy", "memset", "sync", "nvtx", "event")


def events(
    trace: StoredTrace,
    rows: Rows,
    kinds: Sequence[str] = DEFAULT,
    limit: int | None = 50,
    *,
    running: bool = False,
) -> Result:
    """Events in order of their start, times relative to the start of the recording.

    Args:
        trace: The trace.
        rows: Which rows count; `name` is matched against the text of column name. A device or stream leaves out what is on
            the host only.
        kinds: As `export --kind` spells them.
        limit: Rows at most, the first ones; None for all.
        running: Also include those that began before the rows' `begin` and were still running then.

    Returns:
        Table `events`: time and duration (ns), kind, name, device, stream, thread, process, correlation, detail.

    Raises:
        UsageError: for an unknown kind.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"there is no kind {kind!r}{choices(kind, KINDS)}")
    origin = begin_of(trace)
    parts = [
        _part(kind, rows, origin, running) for kind in dict.fromkeys(kinds) if not _host_only(kind, rows)
    ]
    if not parts:
        raise UsageError(f"kinds {', '.join(kinds)} are on no device and no stream")
    condition, parameters = "true", {}
    if rows.name is not None:
        condition, parameters = "regexp_matches(name, $pattern)", {"pattern": rows.name}
    cut = "" if limit is None else f" LIMIT {int(limit)}"
    order = "time NULLS LAST, kind, name, process, device, stream, thread, correlation, duration, detail"
    sql = f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {condition} ORDER BY {order}{cut}"
    found = trace.sql(sql, **parameters).to_arrow_table()
    return Result({"events": with_units(found, time="ns", duration="ns")})


def _host_only(kind: str, rows: Rows) -> bool:
    where = KINDS[kind][4]
    return bool(
        (rows.devices and "NULL::SMALLINT" in where) or (rows.streams and "NULL::INTEGER AS stream" in where)
    )


def _part(kind: str, rows: Rows, origin: int, running: bool) -> str:
    table, time, duration, name, where, detail = KINDS[kind]
    condition = rows.where(time=time)  # kinds without device or stream are left out where those are chosen
    if running and rows.begin is not None and time != "time":
        went_on = (
            f"{time} + {duration} > {rows.begin} OR ({duration} IS NULL AND {_ENDLESS.get(table, 'true')})"
        )
        condition = f"{replace(rows, begin=None).where(time=time)} AND ({time} >= {rows.begin} OR {went_on})"
    correlation = (
        "NULL::BIGINT" if table in ("marker", "op", "user_event", "overhead", "counter") else "correlation"
    )
    return f"""SELECT {time} - {origin} AS time, {duration} AS duration, '{kind}' AS kind, {name} AS name,
        {where}, process, {correlation} AS correlation,
        {detail} AS detail FROM "{table}" WHERE {condition}"""

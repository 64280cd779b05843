"""Copies and sets: sizes, speed against the link's, pageable, synchronous and redundant ones, traffic between devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats import links
from warpsight.analysis.stats.redundant_copies import redundant
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
_COPIES = """device:int16 kind:string source:string destination:string source_device:int16 destination_device:int16 count:int64
    bytes:int64:B time:int64:ns smallest:int64:B median:float64:B largest:int64:B bandwidth:float64:B/s link:float64:B/s
    link_known_by:string link_share:float64"""
_PEERS = "source_device:int16 destination_device:int16 count:int64 bytes:int64:B time:int64:ns bandwidth:float64:B/s"
_HABITS = """habit:string device:int16 kind:string count:int64 bytes:int64:B time:int64:ns calls:int64 call_time:int64:ns
    bandwidth:float64:B/s"""


def copies(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """How much was copied from where to where, how fast, and which known causes slowed it down.

    `bandwidth` is bytes / summed duration on the device, `link` the speed of the path
    (:mod:`~warpsight.analysis.stats.links`; null: unknown) and `link_share` their quotient. Habits are `pageable` (an end
    in pageable memory), `synchronous copy` and `synchronous set` (the call did not return before it was done): `call_time`
    is the summed length of their calls, where
    recorded.

    Returns:
        Tables `copies`, `sizes` (per power of two), `habits`, `peers` (a matrix of traffic between devices, in long form) and
        `redundant` (see :func:`warpsight.analysis.stats.redundant_copies.redundant`).
    """
    where, parameters = _where(rows)
    speeds = links.speeds(trace)
    sums = _sums(trace, where, parameters)
    found, unknown = [], 0
    for row in sums:
        path = links.path(row["kind"], row["device"], row["source_device"], row["destination_device"])
        speed, known_by = speeds.get(path, (None, None)) if path is not None else (None, None)
        bandwidth = _rate(row["bytes"], row["time"])
        unknown += row["count"] if speed is None else 0
        found.append({**row, "bandwidth": bandwidth, "link": speed, "link_known_by": known_by,
                      "link_share": bandwidth / speed if bandwidth is not None and speed else None})  # fmt: skip
    again, notes = redundant(trace, rows)
    tables = {
        "copies": table(_COPIES, found),
        "sizes": table("kind:string from:int64:B below:int64:B count:int64 bytes:int64:B time:int64:ns bandwidth:float64:B/s",
                       _sizes(trace, where, parameters)),
        "habits": table(_HABITS, _habits(trace, rows, where, parameters)),
        "peers": table(_PEERS, _peers(trace, where, parameters)),
        "redundant": again,
    }  # fmt: skip
    return Result(tables, (*_unknown(unknown, sum(row["count"] for row in sums)), *notes))


def _where(rows: Rows) -> tuple[str, dict[str, Any]]:
    if rows.name is None:
        return rows.where(), {}
    return f"{rows.where()} AND regexp_matches('memcpy ' || kind, $pattern)", {"pattern": rows.name}


def _sums(trace: StoredTrace, where: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    sql = f"""SELECT device, kind, source_kind, destination_kind, source_device, destination_device, count(*), sum(bytes)::BIGINT,
        sum(greatest(duration, 0))::BIGINT, min(bytes), median(bytes), max(bytes) FROM memcpy WHERE {where} GROUP BY ALL
        ORDER BY 8 DESC, 2, 3, 4, 1, 5, 6"""
    names = [column.split(":")[0] for column in _COPIES.split()][:12]
    return [dict(zip(names, row, strict=True)) for row in trace.sql(sql, **parameters).fetchall()]


def _sizes(trace: StoredTrace, where: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    # The logarithm of numbers just below a power of two rounds up to it.
    sql = f"""SELECT kind, CASE WHEN bytes <= 0 THEN 0 WHEN (1::HUGEINT << log) > bytes THEN log ELSE log + 1 END AS bits,
        count(*), sum(bytes)::BIGINT, sum(greatest(duration, 0))::BIGINT
        FROM (SELECT *, floor(log2(greatest(bytes, 1)))::INTEGER AS log FROM memcpy WHERE {where}) GROUP BY 1, 2 ORDER BY 1, 2"""
    return [
        {"kind": kind, "from": (1 << bits) >> 1, "below": 1 << bits, "count": count, "bytes": size, "time": time,
         "bandwidth": _rate(size, time)}
        for kind, bits, count, size, time in trace.sql(sql, **parameters).fetchall()
    ]  # fmt: skip


def _habits(trace: StoredTrace, rows: Rows, where: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    pageable = "'pageable' IN (source_kind, destination_kind)"
    of_copies = f"SELECT {{}} AS habit, device, kind, bytes, duration, process, correlation FROM memcpy WHERE {where} AND {{}}"
    parts = [
        of_copies.format("'pageable'", pageable),
        of_copies.format("'synchronous copy'", "NOT asynchronous"),
    ]
    if rows.name is None:
        parts.append(f"""SELECT 'synchronous set', device, 'memset ' || memory_kind, bytes, duration, process, correlation
            FROM memset WHERE {rows.where()} AND NOT asynchronous""")  # fmt: skip
    sql = f"""WITH chosen AS ({" UNION ALL ".join(parts)}),
        called AS (SELECT process, correlation, any_value(duration) AS duration FROM
            (SELECT process, correlation, duration FROM api UNION ALL SELECT process, correlation, duration FROM launch_ids)
            WHERE correlation IN (SELECT correlation FROM chosen) GROUP BY ALL)
        SELECT habit, device, kind, count(*), sum(bytes)::BIGINT, sum(greatest(chosen.duration, 0))::BIGINT,
            count(called.duration), coalesce(sum(greatest(called.duration, 0)), 0)::BIGINT
        FROM chosen LEFT JOIN called USING (process, correlation) GROUP BY ALL ORDER BY 6 DESC, 1, 2, 3"""
    names = ("habit", "device", "kind", "count", "bytes", "time", "calls", "call_time")
    found = [dict(zip(names, row, strict=True)) for row in trace.sql(sql, **parameters).fetchall()]
    return [{**row, "bandwidth": _rate(row["bytes"], row["time"])} for row in found]


def _peers(trace: StoredTrace, where: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    sql = f"""SELECT source_device, destination_device, count(*), sum(bytes)::BIGINT, sum(greatest(duration, 0))::BIGINT
        FROM memcpy WHERE {where} AND source_device <> destination_device GROUP BY ALL ORDER BY ALL"""
    names = ("source_device", "destination_device", "count", "bytes", "time")
    found = [dict(zip(names, row, strict=True)) for row in trace.sql(sql, **parameters).fetchall()]
    return [{**row, "bandwidth": _rate(row["bytes"], row["time"])} for row in found]


def _rate(size: int, time: int) -> float | None:
    """Bytes per second; None for zero time."""
    return size / time * 1e9 if time > 0 else None


def _unknown(unknown: int, of: int) -> tuple[Finding, ...]:
    if not of:
        return (Finding("note", "the selection has no copy"),)
    if not unknown:
        return ()
    text = f"the speed of the link is not known for {unknown:,} of {of:,} copies"
    advice = (
        "Run warpsight bench --links on the machine that recorded, or compare with the link's data sheet."
    )
    return (Finding("note", text, {"copies": unknown, "of": of}, advice=advice),)

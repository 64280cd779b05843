"""The last seconds before a hang or crash as bars: device work by stream, launches by process."""

from __future__ import annotations

from typing import Any

from warpsight.model import StoredTrace

#: The time covered by the bars, and the number of equal parts in which short work is counted.
LONGEST_S, _PARTS = 30.0, 240
#: Maximum bars of work longer than a part, per stream; maximum lanes.
_MOST_BARS, _MOST_LANES = 200, 24
_EDGES = """
SELECT min(t) FROM (SELECT min(start) AS t FROM launch UNION ALL SELECT min(start) FROM kernel
                    UNION ALL SELECT min(start) FROM memcpy)
"""
# Work longer than a part is drawn by itself; shorter work fills parts by the share of them that it takes.
_WORK = """
WITH work AS (
    SELECT process, device, stream, start, duration, name, 'kernel' AS kind FROM kernel WHERE start IS NOT NULL
    UNION ALL SELECT process, device, stream, start, duration, kind, 'copy' FROM memcpy
    UNION ALL SELECT process, device, stream, start, duration, 'memset', 'set' FROM memset),
near AS (SELECT p.pid, w.* FROM work w JOIN process p USING (process)
         WHERE w.start + w.duration >= {first} AND w.start <= {last})
SELECT pid, device, stream, kind, start, duration, name, 1 AS count, 1.0 AS share FROM (
    SELECT *, row_number() OVER (PARTITION BY pid, device, stream ORDER BY duration DESC) AS place FROM near
    WHERE duration >= {part}) WHERE place <= {most}
UNION ALL
SELECT pid, device, stream, kind, {first} + part * {part}, {part}, arg_max(name, duration), count(*),
       least(sum(duration) / {part}, 1.0)
FROM (SELECT *, (start - {first}) // {part} AS part FROM near WHERE duration < {part} AND start >= {first})
GROUP BY pid, device, stream, kind, part
ORDER BY 1, 2, 3, 5
"""
_LAUNCHES = """
SELECT p.pid, {first} + ((l.start - {first}) // {part}) * {part} AS at, count(*)
FROM launch l JOIN process p USING (process) WHERE l.start BETWEEN {first} AND {last} GROUP BY 1, 2 ORDER BY 1, 2
"""


def timeline(trace: StoredTrace, moment: int) -> dict[str, Any]:
    """Lanes of bars up to `moment` (ns). A bar is [start, duration] in seconds around it, the work, and how full it is."""
    earliest = trace.sql(_EDGES).fetchall()[0][0]
    if earliest is None or earliest >= moment:
        return {"seconds": 0.0, "lanes": []}
    first = max(int(earliest), moment - int(LONGEST_S * 1e9))
    part = max((moment - first) // _PARTS, 1)
    values = {"first": first, "last": moment, "part": part, "most": _MOST_BARS}
    lanes: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pid, device, stream, kind, start, duration, name, count, share in trace.sql(
        _WORK.format(**values)
    ).fetchall():
        lane = lanes.setdefault((pid, 1, device, stream), {
            "kind": "device", "pid": pid, "device": device, "stream": stream, "bars": []})  # fmt: skip
        what = f"{name or 'kernel'} and others, {count:,} in all" if count > 1 else str(name or kind)
        begin, end = max(start, first), min(start + duration, moment)
        lane["bars"].append(_bar(begin, end, moment, kind, what, share))
    for pid, at, count in trace.sql(_LAUNCHES.format(**values)).fetchall():
        lane = lanes.setdefault((pid, 0, 0, 0), {"kind": "launches", "pid": pid, "bars": []})
        lane["bars"].append(_bar(at, min(at + part, moment), moment, "launch", f"{count:,} launches", count))
    for lane in lanes.values():
        if lane["kind"] == "launches":
            most = max(bar["share"] for bar in lane["bars"])
            for bar in lane["bars"]:
                bar["share"] = round(bar["share"] / most, 3)
    ordered = [lanes[key] for key in sorted(lanes, key=lambda key: tuple(part or 0 for part in key))]
    return {"seconds": round((moment - first) / 1e9, 6), "lanes": ordered[:_MOST_LANES],
            "lanes_left_out": max(len(ordered) - _MOST_LANES, 0)}  # fmt: skip


def _bar(begin: int, end: int, moment: int, kind: str, what: str, share: float) -> dict[str, Any]:
    return {"start_s": round((begin - moment) / 1e9, 6), "duration_s": round((end - begin) / 1e9, 6), "kind": kind,
            "what": what, "share": round(float(share), 3)}  # fmt: skip

"""Memory in use and counters as lines of at most a given number of points, which keep every peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.allocators import changes
from warpsight.model.selection import Rows
from warpsight.model.work import numbered, split

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()


@dataclass(frozen=True)
class OverviewSeries:
    """One line: at `time` (ns) the `value`, with the minimum and maximum around it.

    `step`: the value holds until the next time (memory); else it is a sample (counters).
    """

    name: str
    unit: str
    device: int | None
    time: Column
    value: Column
    low: Column
    high: Column
    step: bool
    #: Number of readings before merging.
    rows: int


def memory(trace: StoredTrace, rows: Rows = _ALL, points: int = 1_000) -> list[OverviewSeries]:
    """Bytes allocated on each device by each allocator over time; a free returns the bytes of its allocation.

    A free whose allocation was not seen changes nothing: memory allocated before the recording is not counted either.
    """
    where = rows.where(time="time", stream=False)
    table = trace.sql(f"""SELECT time, change, coalesce(device, -1) AS device, allocator FROM ({changes(where)})
        ORDER BY time""").to_arrow_table()
    if not len(table):
        return []
    time, change, device = (c.to_numpy() for c in table.columns[:3])
    coded = table.column("allocator").combine_chunks().dictionary_encode()
    allocator, names = coded.indices.to_numpy(), coded.dictionary.to_pylist()
    out = []
    group, (devices, allocators) = numbered([device, allocator])
    for number, mine in enumerate(split(group, len(devices))):
        where_ = None if devices[number] < 0 else int(devices[number])
        level = np.cumsum(change[mine])
        out.append(_stepped(names[allocators[number]], where_, time[mine], level, points))
    return sorted(out, key=lambda s: -int(s.high.max(initial=0)))


def _stepped(name: str, device: int | None, time: Column, level: Column, points: int) -> OverviewSeries:
    """The level at the end of each of `points` bins, with the minimum and maximum in it."""
    count = len(time)
    if count <= points:
        return OverviewSeries(name, "B", device, time, level, level, level, True, count)
    begin, end = int(time[0]), int(time[-1]) + 1
    place = ((time - begin) * points) // max(end - begin, 1)
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    last = np.append(first[1:], count) - 1
    return OverviewSeries(
        name, "B", device, time[last], level[last], np.minimum.reduceat(level, first), np.maximum.reduceat(level, first),
        True, count,
    )  # fmt: skip


def counters(trace: StoredTrace, rows: Rows = _ALL, points: int = 400) -> list[OverviewSeries]:
    """Every counter of every device; readings in one of `points` bins are averaged, and extremes are kept."""
    where = rows.where(time="time", stream=False)
    found = trace.sql(f"""WITH c AS (SELECT * FROM counter WHERE {where}),
        span AS (SELECT min(time) AS first, greatest(max(time) - min(time) + 1, 1) AS length FROM c)
        SELECT name, unit, device, (time - first) * {int(points)} // length AS bin,
               any_value(first) + avg(time - first)::BIGINT AS time,
               avg(value) AS value, min(value) AS low, max(value) AS high, count(*) AS n
        FROM c, span WHERE isfinite(value) GROUP BY ALL ORDER BY name, device NULLS FIRST, unit, bin""").to_arrow_table()
    names, devices, units = (found.column(c).to_pylist() for c in ("name", "device", "unit"))
    keys = list(zip(names, devices, units, strict=True))
    if not keys:
        return []
    edges = [i for i in range(len(keys)) if not i or keys[i] != keys[i - 1]]
    out: list[OverviewSeries] = []
    columns = [found.column(c).to_numpy() for c in ("time", "value", "low", "high", "n")]
    for begin, end in zip(edges, [*edges[1:], len(keys)], strict=True):
        time, value, low, high, n = (c[begin:end] for c in columns)
        name, device, unit = keys[begin]
        out.append(
            OverviewSeries(
                name, "" if unit == "1" else unit, device, time, value, low, high, False, int(n.sum())
            )
        )
    return out

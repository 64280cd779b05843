"""Single ranges as the GPU saw them, and the kernels of each range: NVTX from the device's point of view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.result import Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ranges.open import Projection, projected
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
_OPEN = np.iinfo(np.int64).max


def range_instances(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Every range with device work, on the host and on the device, and the pace of ranges of one name.

    `lag` is from the start of the range on the host to the start of its first work; `pace` is from the start of the work of the
    previous range with the same name, process and thread to the start of its own; `share` is the time of its work / its span on
    the device, more than 100% where work overlaps.

    Tables:
        pace: name, instances, pace_median, pace_min, pace_max, span_median, span_max, lag_median (ns).
        instances: name, process, thread, start, host (length; null never closed), begin, span, lag, pace, work, total, share.
    """
    seen = projected(trace, rows)
    found = seen.ranges
    used = np.flatnonzero(seen.count)
    used = used[np.lexsort((seen.first[used], found.thread[used], found.process[used], found.name_id[used]))]
    keys = np.stack([found.name_id[used], found.process[used], found.thread[used]])
    first, last = seen.first[used], seen.last[used]
    pace = np.zeros(len(used), np.int64)
    pace[1:] = first[1:] - first[:-1]
    follows = np.zeros(len(used), bool)
    follows[1:] = (keys[:, 1:] == keys[:, :-1]).all(axis=0)
    host = np.where(found.end[used] < _OPEN, found.end[used] - found.start[used], -1)
    names = _names(trace, found.name_id[used])
    span = last - first
    columns = {
        "name": names, "process": found.process[used], "thread": found.thread[used], "start": found.start[used],
        "host": _nulled(host, host < 0), "begin": first, "span": span, "lag": first - found.start[used],
        "pace": _nulled(pace, ~follows), "work": seen.count[used], "total": seen.total[used],
        "share": seen.total[used] / np.maximum(span, 1) * 100,
    }  # fmt: skip
    instances = table(
        "name:string process:int32 thread:int32 start:int64:ns host:int64:ns begin:int64:ns span:int64:ns lag:int64:ns "
        "pace:int64:ns work:int64 total:int64:ns share:float64:%",
        columns,
    ).sort_by([("begin", "ascending")])
    return Result(
        {"pace": _paces(names, pace, follows, span, columns["lag"]), "instances": instances}, seen.findings()
    )


def _paces(names: list[str], pace: Column, follows: Column, span: Column, lag: Column) -> pa.Table:
    distinct, group = np.unique(np.array(names, object).astype(str), return_inverse=True)
    rows = []
    for number, name in enumerate(distinct.tolist()):
        own = np.flatnonzero(group == number)
        steps = pace[own][follows[own]]
        rows.append({
            "name": name, "instances": len(own), "pace_median": float(np.median(steps)) if len(steps) else None,
            "pace_min": int(steps.min()) if len(steps) else None, "pace_max": int(steps.max()) if len(steps) else None,
            "span_median": float(np.median(span[own])), "span_max": int(span[own].max()),
            "lag_median": float(np.median(lag[own])),
        })  # fmt: skip
    columns = (
        "name:string instances:int64 pace_median:float64:ns pace_min:int64:ns pace_max:int64:ns span_median:float64:ns "
        "span_max:int64:ns lag_median:float64:ns"
    )
    return table(columns, rows).sort_by([("instances", "descending"), ("name", "ascending")])


def range_kernels(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """The kernels of each range: by the innermost range at their launch and by name.

    Tables:
        kernels: range (empty: launched in none), kernel, count, total, share (of all kernels), mean, min, max (ns).
    """
    seen = projected(trace, rows)
    work = seen.work
    kernel = np.flatnonzero(work.kind <= 1)  # kernels and communication
    place = seen.place[kernel]
    outer = (
        np.where(place >= 0, seen.ranges.name_id[np.maximum(place, 0)], 0) if len(seen.ranges) else place * 0
    )
    key = outer.astype(np.int64) << 32 | work.name_id[kernel].astype(np.int64)
    keys, group = np.unique(key, return_inverse=True)
    length = (work.end - work.start)[kernel]
    total, most = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    least = np.full(len(keys), _OPEN)
    np.add.at(total, group, length)
    np.maximum.at(most, group, length)
    np.minimum.at(least, group, length)
    count = np.bincount(group, minlength=len(keys))
    columns = {
        "range": _names(trace, keys >> 32), "kernel": _names(trace, keys & 0xFFFFFFFF, "demangled"), "count": count,
        "total": total, "share": total / max(int(total.sum()), 1) * 100, "mean": total / np.maximum(count, 1),
        "min": least, "max": most,
    }  # fmt: skip
    made = table(
        "range:string kernel:string count:int64 total:int64:ns share:float64:% mean:float64:ns min:int64:ns max:int64:ns",
        columns,
    )
    return Result(
        {"kernels": made.sort_by([("total", "descending"), ("kernel", "ascending")])}, seen.findings()
    )


def _names(trace: StoredTrace, ids: Column, form: str = "name") -> list[str]:
    texts = names_of.texts(trace, form)
    return [texts.get(i, "") for i in ids.tolist()]


def _nulled(values: Column, absent: Column) -> pa.Array:
    import pyarrow as pa

    return pa.array(values, mask=absent)


__all__ = ["Projection", "range_instances", "range_kernels"]

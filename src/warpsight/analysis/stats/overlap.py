"""How much computation, communication and copies overlapped on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Result, with_units
from warpsight.analysis.stats.utilization import device_names, nothing
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, COPY, KERNEL, SET

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()


def overlap(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Per device, the time of each activity, how much of it overlapped with another, and how much did not.

    Activities are `compute` (kernels), `communication` (communication kernels) and `copy` (copies and sets); the time of
    one is the union of its intervals. `hidden` is the part during which a kernel ran as well (for compute: during which
    communication or a copy did), `exposed` is the part during which nothing else ran, and `hidden_share` is hidden / time:
    for communication, what others call the communication-computation overlap. With all three at once, hidden and exposed
    of one activity need not add up to its time.

    Returns:
        Table `overlap` (device, activity, time, hidden, exposed in ns, hidden_share 0 to 1) and `pairs` (device, one, other,
        time in ns during which both ran).
    """
    work = device_work.load(trace, rows)
    names = device_names(trace)
    found: list[dict[str, Any]] = []
    pairs: list[dict[str, Any]] = []
    for device, index in work.per_device():
        sets = [work.of_kind(*kinds, among=index) for kinds in _ACTIVITIES.values()]
        label = {"device": device, "name": names.get(device, "")}
        shared = {(i, j): _shared(sets[i], sets[j]) for i, j in ((0, 1), (0, 2), (1, 2))}
        everything = intervals.merged(*sets).total
        for i, activity in enumerate(_ACTIVITIES):
            others = intervals.merged(*(s for s in sets if s is not sets[i])).total
            time = sets[i].total
            hidden = time + others - everything if i == 0 else shared[0, i]
            found.append({**label, "activity": activity, "time": time, "hidden": hidden,
                          "exposed": everything - others, "hidden_share": hidden / time if time else None})  # fmt: skip
        listed = list(_ACTIVITIES)
        pairs += [
            {**label, "one": listed[i], "other": listed[j], "time": time} for (i, j), time in shared.items()
        ]
    tables = {"overlap": _table(found, _OVERLAP), "pairs": _table(pairs, _PAIRS)}
    return Result(tables, doubts(work) + nothing(work))


_ACTIVITIES = {"compute": (KERNEL,), "communication": (COMMUNICATION,), "copy": (COPY, SET)}
_OVERLAP = {"device": pa.int16(), "name": pa.string(), "activity": pa.string(), "time": pa.int64(),
            "hidden": pa.int64(), "exposed": pa.int64(), "hidden_share": pa.float64()}  # fmt: skip
_PAIRS = {
    "device": pa.int16(),
    "name": pa.string(),
    "one": pa.string(),
    "other": pa.string(),
    "time": pa.int64(),
}


def _shared(one: intervals.Intervals, other: intervals.Intervals) -> int:
    """Time that both sets cover, without building their intersection."""
    return one.total + other.total - intervals.merged(one, other).total


def _table(rows: list[dict[str, Any]], columns: dict[str, pa.DataType]) -> pa.Table:
    table = pa.Table.from_pylist(rows, pa.schema(list(columns.items())))
    return with_units(table, time="ns", hidden="ns", exposed="ns")

"""Collectives of NCCL and similar libraries: their duration, exposed time and bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import distribution
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.calls import joined
from warpsight.model.naming import collective_names
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, KERNEL, Work, values_in

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
_SUMMARY = """device:int16 library:string operation:string algorithm:string protocol:string reduction:string dtype:string
    kernels:int64 time:int64:ns mean:float64:ns median:float64:ns p99:float64:ns max:int64:ns exposed:int64:ns"""
_SIZED = """operation:string ranks:int32 dtype:string group:string size:int64:B count:int64 bytes:int64:B time:int64:ns
    algorithm_bandwidth:float64:B/s bus_bandwidth:float64:B/s"""


def communication(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """Communication kernels by collective, and the bandwidth of collectives whose sizes are recorded.

    A kernel's name says which collective it is (see :mod:`warpsight.model.naming.collective_names`). `time` is summed over
    kernels, `exposed` the part of their union on the device during which no other kernel ran. Sizes come from table
    `collective`, whose rows are joined with kernels by correlation. Algorithm bandwidth is bytes / duration; bus bandwidth
    is that times a factor of the operation and the n ranks, so that it compares with a link's speed whatever n is:
    all-reduce 2 (n - 1) / n, all-gather, reduce-scatter and all-to-all (n - 1) / n, else 1 (nccl-tests, PERFORMANCE.md).
    `bytes` is the payload as recorded: for
    all-gather and reduce-scatter the size of the whole, not of one rank's part. The duration is that of the kernel, or of the
    row itself without one; a kernel that waited for a slower rank is as long as it waited.

    Returns:
        Tables `collectives` (per device, by name) and `sized` (by operation, ranks, size).
    """
    work = device_work.load(trace, rows, cut=False)
    parsed, code = _names(trace, work)
    found: list[dict[str, Any]] = []
    for device, index in work.per_device():
        compute = work.of_kind(KERNEL, among=index)
        own = index[work.kind[index] == COMMUNICATION]
        for number in values_in(code[own]).tolist():
            chosen = own[code[own] == number]
            alone = intervals.difference(work.of_kind(among=chosen), compute).total
            name = parsed[number]
            found.append({"device": device, **vars(name), **_summary(work.end[chosen] - work.start[chosen]),
                          "kernels": len(chosen), "exposed": alone})  # fmt: skip
    found.sort(key=lambda row: -row["time"])
    sized, findings = _sized(trace, rows, work)
    if not found and not sized:
        findings = (
            *findings,
            Finding("note", "the selection has no communication kernel and no collective"),
        )
    elif found and not sized:
        text = "the trace has no sizes of collectives, so their bandwidth is not known"
        findings = (*findings, Finding("note", text, {"kernels": sum(row["kernels"] for row in found)}))
    return Result(
        {"collectives": table(_SUMMARY, found), "sized": table(_SIZED, sized)}, doubts(work) + findings
    )


def bus_factor(operation: str, ranks: int) -> float:
    """The factor from algorithm bandwidth to bus bandwidth."""
    if ranks < 1:
        return 1.0
    return {"all-reduce": 2 * (ranks - 1) / ranks, "all-gather": (ranks - 1) / ranks, "reduce-scatter": (ranks - 1) / ranks,
            "all-to-all": (ranks - 1) / ranks}.get(operation, 1.0)  # fmt: skip


def _names(trace: StoredTrace, work: Work) -> tuple[list[collective_names.CollectiveName], Column]:
    """The distinct collectives, and for each row of the work the number of its collective, -1 for other work."""
    known: dict[collective_names.CollectiveName, int] = {}
    onto = np.full(int(work.name_id.max(initial=0)) + 1, -1, np.int32)
    for number, *texts in trace.sql("SELECT id, demangled, name FROM name").fetchall():
        name = next((n for n in map(collective_names.parse, texts) if n is not None), None)
        if name is not None and number < len(onto):
            onto[number] = known.setdefault(name, len(known))
    return list(known), onto[work.name_id]


def _summary(duration: Column) -> dict[str, Any]:
    _, histogram = distribution.count_columns([(np.zeros(len(duration), np.int32), duration)])
    values = {name: column[0].item() for name, column in distribution.summarize(histogram).items()}
    return {"time": values["total"], **{name: values[name] for name in ("mean", "median", "p99", "max")}}


def _sized(trace: StoredTrace, rows: Rows, work: Work) -> tuple[list[dict[str, Any]], tuple[Finding, ...]]:
    sql = f"""SELECT process, coalesce(correlation, -1), coalesce(duration, -1), bytes, operation, coalesce(ranks, -1), dtype,
        "group" FROM collective WHERE bytes IS NOT NULL AND {Rows(None, None, (), (), rows.processes).where()}"""
    data = trace.sql(sql).to_arrow_table()
    if not len(data):
        return [], ()
    process, correlation, duration, size = (data.column(i).to_numpy() for i in range(4))
    kernels = np.flatnonzero(work.kind == COMMUNICATION)
    place = joined(process, correlation, work.process[kernels], work.correlation[kernels])
    ran = np.where(place >= 0, (work.end - work.start)[kernels][place] if len(kernels) else 0, duration)
    restricted = rows != Rows(processes=rows.processes)
    counted = (ran >= 0) & ((place >= 0) | (not restricted))
    sums: dict[tuple[Any, ...], list[int]] = {}
    labels = list(zip(*(data.column(i).to_pylist() for i in (4, 5, 6, 7)), size.tolist(), strict=True))
    for i in np.flatnonzero(counted).tolist():  # collectives are few: thousands, where kernels are millions
        entry = sums.setdefault(labels[i], [0, 0, 0])
        entry[0] += 1
        entry[1] += int(size[i])
        entry[2] += int(ran[i])
    found = []
    for (operation, ranks, dtype, group, one), (count, total, time) in sums.items():
        speed = total / time * 1e9 if time > 0 else None
        known = ranks > 0 or bus_factor(operation, 2) == 1
        bus = speed * bus_factor(operation, ranks) if speed is not None and known else None
        found.append({"operation": operation, "ranks": ranks if ranks > 0 else None, "dtype": dtype, "group": group,
                      "size": one, "count": count, "bytes": total, "time": time, "algorithm_bandwidth": speed,
                      "bus_bandwidth": bus})  # fmt: skip
    found.sort(key=lambda row: -row["time"])
    return found, _left_out(len(data) - int(counted.sum()), len(data), restricted)


def _left_out(missing: int, of: int, restricted: bool) -> tuple[Finding, ...]:
    if not missing or restricted:
        return ()
    text = f"{missing:,} of {of:,} collectives {'has' if missing == 1 else 'have'} neither a kernel nor a duration"
    return (Finding("note", text, {"collectives": missing, "of": of}),)

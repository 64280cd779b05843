"""Clocks, power and throttling during kernels: energy, and the time lost to clocks below the maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import series
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.series import Series
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.utilization import nothing
from warpsight.model import intervals
from warpsight.model import work as device_work
from warpsight.model.intervals import Intervals
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import COMMUNICATION, KERNEL, Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
WINDOWS = 100
#: Reasons that are not loss: a device without work may lower its clocks.
_HARMLESS = ("throttle_gpu_idle", "throttle_reasons")
_DEVICES = """device:int16 window:int64:ns busy:int64:ns measured:int64:ns maximum:float64:MHz maximum_known_by:string
    mean_clock:float64:MHz lowest_clock:float64:MHz highest_clock:float64:MHz lost:float64:ns lost_share:float64
    energy:float64:J mean_power:float64:W busy_energy:float64:J"""
_KERNELS = """device:int16 name:string kernels:int64 time:int64:ns measured:int64:ns mean_clock:float64:MHz lost:float64:ns
    mean_power:float64:W energy:float64:J"""
_REASONS = "device:int16 reason:string time:float64:ns busy_time:float64:ns share:float64 lost:float64:ns"
_OVER_TIME = (
    "device:int16 begin:int64:ns width:int64:ns utilization:float64 clock:float64:MHz power:float64:W"
)


def clocks(trace: StoredTrace, rows: Rows = _ALL, *, windows: int = WINDOWS) -> Result:
    """SM clock, power and throttle reasons of each device while its kernels ran.

    A sample holds until the next one. Time lost to clocks is the integral over busy time of (1 - clock / maximum), never below
    0: the time that kernels whose speed follows the clock would have saved at the maximum clock. It is an upper bound, since
    kernels limited by memory do not slow down as much. Busy is the union of kernels without communication. The maximum is the
    device's (`clock_khz`), else the highest clock seen. Energy is the integral of power; the energy of kernels that run at once
    is shared out among them equally, so that the kernels' energies add up to that of the time in which kernels ran.

    Returns:
        Tables `devices`, `kernels` (by name), `reasons` (throttling: `time` while active, `busy_time` of it in which kernels ran,
        `share` of busy time that was measured, and time `lost` meanwhile), `over_time` (windows). Times in ns; values without a
        sample are null.
    """
    work = device_work.load(trace, rows)
    sampled = {name: series.load(trace, names) for name, names in series.NAMES.items()}
    maxima = dict(trace.sql("SELECT device, clock_khz FROM device").fetchall())
    texts = names_of.texts(trace)
    throttles = _throttles(trace)
    devices, kernels, reasons, over_time = [], [], [], []
    edges = intervals.windows(work.begin, work.finish, windows)
    for device, index in work.per_device():
        clock, power = (sampled[name].get(device, series.NOTHING) for name in ("sm_clock", "power"))
        index = index[work.kind[index] <= COMMUNICATION]
        busy = work.of_kind(KERNEL, among=index)
        maximum, known_by = _maximum(maxima.get(device), clock)
        lost = _lost(clock, maximum)
        devices.append(_device(device, work, busy, clock, power, lost, (maximum, known_by), index))
        kernels += _kernels(device, work, index, texts, clock, power, lost)
        reasons += _reasons(device, work, busy, throttles.get(device, {}), lost)
        over_time += _over_time(device, edges, work.of_kind(among=index), clock, power)
    tables = {
        "devices": table(_DEVICES, devices),
        "kernels": table(_KERNELS, sorted(kernels, key=lambda row: -row["time"])),
        "reasons": table(_REASONS, sorted(reasons, key=lambda row: -row["busy_time"])),
        "over_time": table(_OVER_TIME, over_time),
    }
    return Result(tables, doubts(work) + nothing(work) + _unmeasured(devices))


def _maximum(clock_khz: int | None, clock: Series) -> tuple[float | None, str | None]:
    if clock_khz:
        return clock_khz / 1000, "device"
    return (float(clock.value.max()), "highest seen") if len(clock) else (None, None)


def _lost(clock: Series, maximum: float | None) -> Series:
    """The rate at which time is lost: 0 at the maximum clock, 1 at a standstill."""
    if not maximum:
        return series.NOTHING
    return Series(clock.time, np.maximum(1 - clock.value / maximum, 0), clock.until)


def _over(of: Series, whole: Intervals) -> float:
    """The integral of a series over a set of moments."""
    return float(of.over(whole.start, whole.end)[0].sum())


def _held(of: Series, whole: Intervals) -> int:
    """The time of a set of moments for which a series has values."""
    return int(of.over(whole.start, whole.end)[1].sum())


def _device(
    device: int | None, work: Work, busy: Intervals, clock: Series, power: Series, lost: Series,
    maximum: tuple[float | None, str | None], index: Column,
) -> dict[str, Any]:  # fmt: skip
    window = intervals.union(np.array([work.begin]), np.array([work.finish]))
    (clocked, held), (cost, _) = (of.over(busy.start, busy.end) for of in (clock, lost))
    measured, powered = int(held.sum()), _held(power, window)
    energy = _over(power, window) / 1e9
    inside = (clock.time >= work.begin) & (clock.time < work.finish)
    return {
        "device": device, "window": work.window, "busy": busy.total, "measured": measured, "maximum": maximum[0],
        "maximum_known_by": maximum[1], "mean_clock": float(clocked.sum()) / measured if measured else None,
        "lowest_clock": float(clock.value[inside].min()) if inside.any() else None,
        "highest_clock": float(clock.value[inside].max()) if inside.any() else None,
        "lost": float(cost.sum()) if measured else None,
        "lost_share": float(cost.sum()) / measured if measured else None,
        "energy": energy if powered else None, "mean_power": energy / powered * 1e9 if powered else None,
        "busy_energy": _over(power, work.of_kind(among=index)) / 1e9 if powered else None,
    }  # fmt: skip


def _kernels(
    device: int | None,
    work: Work,
    index: Column,
    texts: Mapping[int, str],
    clock: Series,
    power: Series,
    lost: Series,
) -> list[dict[str, Any]]:
    start, end = work.start[index], work.end[index]
    names, group = np.unique(work.name_id[index], return_inverse=True)
    if not len(names) or not (len(clock) or len(power)):
        return []

    def summed(values: Column) -> Column:
        return np.bincount(group, values, len(names))

    (in_clock, held), (cost, _), (in_power, powered_for) = (
        of.over(start, end) for of in (clock, lost, power)
    )
    measured, clocked, cost, powered, drawn = map(summed, (held, in_clock, cost, powered_for, in_power))
    energy = summed(_shared_out(power, start, end, in_power))
    time = np.zeros(len(names), np.int64)
    np.add.at(time, group, end - start)
    count = np.bincount(group, minlength=len(names))
    return [
        {"device": device, "name": texts.get(name, "?"), "kernels": int(count[i]), "time": int(time[i]),
         "measured": round(float(measured[i])), "mean_clock": clocked[i] / measured[i] if measured[i] else None,
         "lost": float(cost[i]) if measured[i] else None, "mean_power": drawn[i] / powered[i] if powered[i] else None,
         "energy": float(energy[i]) / 1e9 if powered[i] else None}
        for i, name in enumerate(names.tolist())
    ]  # fmt: skip


def _shared_out(power: Series, start: Column, end: Column, alone: Column) -> Column:
    """Each kernel's part of the power's integral: at each moment all running kernels get equal parts.

    `alone` is the integral of the power over each kernel, which is the kernel's part if no other kernel ran meanwhile.
    """
    reach = np.maximum.accumulate(end)
    beside = np.concatenate([[False], start[1:] < reach[:-1]])
    beside[:-1] |= end[:-1] > start[1:]
    rows = np.flatnonzero(beside)
    if not len(rows) or not len(power):
        return alone
    # All begins and ends in order: the work that runs from each to the next shares the power out.
    moments = np.concatenate([start[rows], end[rows]])
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.where(order < len(rows), 1, -1))[:-1]
    drawn, _ = power.over(moments[order[:-1]], moments[order[1:]])
    sums = np.empty(len(moments))
    sums[order] = np.concatenate([[0.0], np.cumsum(np.where(level > 0, drawn / np.maximum(level, 1), 0))])
    out: Column = alone.copy()
    out[rows] = sums[len(rows) :] - sums[: len(rows)]
    return out


def _throttles(trace: StoredTrace) -> dict[int | None, dict[str, Series]]:
    """For each device the throttle reasons, as series of 0 and 1."""
    names = trace.sql(
        "SELECT DISTINCT name FROM counter WHERE name LIKE 'throttle\\_%' ESCAPE '\\'"
    ).fetchall()
    out: dict[int | None, dict[str, Series]] = {}
    for (name,) in sorted(names):
        if name not in _HARMLESS:
            for device, own in series.load(trace, (name,)).items():
                out.setdefault(device, {})[name.removeprefix("throttle_")] = own
    return out


def _reasons(
    device: int | None, work: Work, busy: Intervals, throttles: dict[str, Series], lost: Series
) -> list[dict[str, Any]]:
    rows = []
    for reason, own in throttles.items():
        ends = np.append(own.time[1:], own.until)
        active = intervals.clipped(
            intervals.union(own.time[own.value > 0], ends[own.value > 0]), work.begin, work.finish
        )
        both = intervals.intersection(active, busy)
        held = _held(own, busy)
        if active.total:
            rows.append({"device": device, "reason": reason, "time": float(active.total), "busy_time": float(both.total),
                         "share": both.total / held if held else None,
                         "lost": _over(lost, both) if len(lost) else None})  # fmt: skip
    return rows


def _over_time(
    device: int | None, edges: Column, busy: Intervals, clock: Series, power: Series
) -> list[dict[str, Any]]:
    begin, end = edges[:-1], edges[1:]
    means = [_nulls(of.mean(begin, end)) for of in (clock, power)]
    used = intervals.coverage(busy, begin, end) / np.maximum(end - begin, 1)
    return [
        {"device": device, "begin": b, "width": e - b, "utilization": u, "clock": c, "power": p}
        for b, e, u, c, p in zip(begin.tolist(), end.tolist(), used.tolist(), *means, strict=True)
    ]


def _nulls(values: Column) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]


def _unmeasured(devices: list[dict[str, Any]]) -> tuple[Finding, ...]:
    busy, measured = (sum(row[k] for row in devices) for k in ("busy", "measured"))
    if not busy or measured == busy:
        return ()
    if not measured:
        text = "no clock was sampled while kernels ran: time lost to clocks is not known"
    else:
        text = f"clocks were sampled for {measured / busy:.0%} of the time in which kernels ran; the rest is not judged"
    return (Finding("note", text, {"busy": busy, "measured": measured}),)

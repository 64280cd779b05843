"""What each operator cost and how well it used the device: `stats ops`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ops import backward, figures
from warpsight.analysis.ops.arguments import Argument, Call, Tensor
from warpsight.analysis.ops.figures import Figures
from warpsight.analysis.ops.models import UNKNOWN
from warpsight.errors import UsageError, choices
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: How operators can be grouped.
BY = ("name", "shapes", "family", "forward")
#: In the column `model` of an operator that has none and whose figures are those of operators inside it.
_CHILDREN = "children"
_FIGURES = """calls:int64 host:int64:ns host_self:int64:ns kernels:int64 device_own:int64:ns device_total:int64:ns share:float64:%
    flops:float64:FLOP bytes:float64:B counted:int64 flops_per_s:float64:FLOP/s bytes_per_s:float64:B/s
    intensity:float64:FLOP/B dtype:string compute_share:float64:% memory_share:float64:% bound:string"""
_LABELS = {
    "name": "name:string model:string",
    "shapes": "name:string shapes:string dtypes:string detail:string model:string",
    "family": "family:string",
}


def operators(trace: StoredTrace, rows: Rows = _ALL, by: str = "name") -> Result:
    """Host and device time, arithmetic, bytes and shares of the peaks of every operator, most device time first.

    Args:
        trace: The trace.
        rows: Which operators count: those that begin in the requested time; `name` selects operators.
        by: One of :data:`BY`. `shapes` separates calls with different shapes, types or arguments that matter; `forward` puts
            what backward did beside the forward operator.

    Returns:
        Table `ops`. FLOP, bytes and values derived from them are null if unknown, and `model` says `unknown`;
        docs/explanation/operators.md says what is counted.

    Raises:
        UsageError: for an unknown grouping.
    """
    if by not in BY:
        raise UsageError(f"there is no grouping {by!r} of operators{choices(by, BY)}")
    found = figures.of_trace(trace, rows)
    chosen = np.flatnonzero(found.owned.chosen & _name_matches(trace, found, rows.name))
    if by == "forward":
        from warpsight.analysis.ops.forward_table import by_forward

        made = by_forward(found, backward.of_operators(trace, found.ops), chosen)
    else:
        groups = _groups(found, by)
        columns = {**groups.labels(found, by), **_columns(found, chosen, groups)}
        made = table(_LABELS[by] + " " + _FIGURES, columns)
        made = made.filter(_present(made)).sort_by(_order(made))
    return Result({"ops": made}, _findings(trace, found, chosen))


def _name_matches(trace: StoredTrace, found: Figures, pattern: str | None) -> Column:
    if pattern is None:
        return np.ones(len(found.ops), bool)
    return np.isin(found.ops.ranges.name_id, device_work.matching(trace, pattern))


def _present(made: pa.Table) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.greater(made["calls"], 0)


def _order(made: pa.Table) -> list[tuple[str, str]]:
    return [("device_own", "descending"), ("device_total", "descending"), ("host_self", "descending"),
            (made.column_names[0], "ascending")]  # fmt: skip


@dataclass(frozen=True)
class _Groups:
    """The group of each distinct call, and one example call per group."""

    of_call: Column
    first: list[int]

    def labels(self, found: Figures, by: str) -> dict[str, list[str]]:
        """The columns that identify each group."""
        if by == "family":
            return {"family": _models(found, self)}
        names = [found.ops.calls[i].name for i in self.first]
        models = _models(found, self)
        if by == "name":
            return {"name": names, "model": models}
        calls = [found.ops.calls[i] for i in self.first]
        return {"name": names, "shapes": [shapes(call) for call in calls], "dtypes": [types(call) for call in calls],
                "detail": [found.estimates[i].detail for i in self.first], "model": models}  # fmt: skip


def _groups(found: Figures, by: str) -> _Groups:
    """Distinct calls with equal labels form one group: strides and arguments that no model uses do not matter."""
    numbers: dict[Any, int] = {}
    first: list[int] = []
    of_call = np.zeros(len(found.ops.calls), np.int64)
    below = np.zeros(len(found.ops.calls), bool)
    below[found.ops.call[found.from_children]] = True
    for place, (call, one) in enumerate(zip(found.ops.calls, found.estimates, strict=True)):
        key: Any = (
            call.name if by == "name" else _CHILDREN if below[place] else one.family if one.known else UNKNOWN
        )
        if by == "shapes":
            key = call.name, shapes(call), types(call), one.detail
        if key not in numbers:
            numbers[key] = len(numbers)
            first.append(place)
        of_call[place] = numbers[key]
    return _Groups(of_call, first)


def _models(found: Figures, groups: _Groups) -> list[str]:
    """The model that estimated each group: its family; `children`; or `unknown` if nothing is known about any call."""
    count = len(groups.first)
    known = np.zeros(count, bool)
    known[groups.of_call[[i for i, one in enumerate(found.estimates) if one.known]]] = True
    below = np.zeros(count, bool)
    below[groups.of_call[found.ops.call[found.from_children]]] = True
    return [
        found.estimates[i].family if known[place] else _CHILDREN if below[place] else UNKNOWN
        for place, i in enumerate(groups.first)
    ]


def shapes(call: Call) -> str:
    """The shapes of a call's tensors, as `512×256, 256×384`; lists in brackets, zero-dimensional tensors as `·`."""
    return ", ".join(text for one in call.arguments if (text := _shape(one)))


def _shape(one: Argument) -> str:
    if isinstance(one, Tensor):
        return "×".join(map(str, one.shape)) or "·"
    if not isinstance(one, tuple):
        return ""
    told = [_shape(each) for each in one[:3]]
    return f"[{', '.join(told)}{f', … {len(one)}' if len(one) > 3 else ''}]"


def types(call: Call) -> str:
    """The distinct element types of a call's tensors, in order."""
    return ", ".join(dict.fromkeys(one.dtype or "?" for one in call.tensors))


def _columns(found: Figures, chosen: Column, groups: _Groups) -> dict[str, Any]:
    """The figures of each group, for the selected operators."""
    ops, count = found.ops, len(groups.first)
    group = groups.of_call[ops.call] if len(ops) else np.zeros(0, np.int64)
    mine = np.zeros(len(ops), bool)
    mine[chosen] = True
    # Of operators inside others of their group the outermost holds the time of all.
    outer = mine & ops.outermost_of_group(np.where(mine, group, -1 - np.arange(len(ops))))
    length = ops.ranges.end - ops.ranges.start

    def summed(values: Column, among: Column = mine) -> Column:
        return np.bincount(group[among], values[among].astype(np.float64), count)

    def known(values: Column, also: Column) -> tuple[Column, Column]:
        """Sums of the known estimates of device work, and of the time of that work."""
        there = outer & ~np.isnan(values) & (also > 0)
        return summed(np.nan_to_num(values), there), summed(also, there)

    flops, flops_time = known(found.flops, found.flops_time)
    moved, moved_time = known(found.bytes, found.bytes_time)
    compute, compute_time = known(found.least_compute, found.compute_time)
    memory, memory_time = known(found.least_memory, found.memory_time)
    there = outer & ~np.isnan(found.flops) & ~np.isnan(found.bytes)
    both = summed(np.nan_to_num(found.flops), there), summed(np.nan_to_num(found.bytes), there)
    whole = max(int((found.owned.work.end - found.owned.work.start)[found.owned.counts].sum()), 1)
    shares = _share(compute, compute_time), _share(memory, memory_time)
    own = summed(found.own)
    return {
        "calls": summed(np.ones(len(ops))).astype(np.int64), "host": summed(length, outer).astype(np.int64),
        "host_self": summed(_host_self(found)).astype(np.int64), "kernels": summed(found.launched).astype(np.int64),
        "device_own": own.astype(np.int64), "device_total": summed(found.total, outer).astype(np.int64),
        "share": own / whole * 100, "flops": _sums(found, found.flops, outer, group, count),
        "bytes": _sums(found, found.bytes, outer, group, count), "counted": summed(found.counted).astype(np.int64),
        "flops_per_s": _divided(flops * 1e9, flops_time), "bytes_per_s": _divided(moved * 1e9, moved_time),
        "intensity": _divided(*both), "dtype": _dtypes(found, groups), "compute_share": shares[0], "memory_share": shares[1],
        "bound": _bounds(*shares),
    }  # fmt: skip


def _host_self(found: Figures) -> Column:
    """Duration of each operator without its inner operators."""
    ops = found.ops
    length = ops.ranges.end - ops.ranges.start
    inner = np.flatnonzero(ops.parent >= 0)
    below = (
        device_work.summed(ops.parent[inner], length[inner], len(ops))
        if len(inner)
        else np.zeros(len(ops), np.int64)
    )
    own: Column = np.maximum(length - below, 0)
    return own


def _sums(found: Figures, values: Column, among: Column, group: Column, count: int) -> list[float | None]:
    """Sums over calls with device work, or over all calls if none has any; None if nothing is known."""
    out: list[float | None] = [None] * count
    for there in (among & ~np.isnan(values), among & ~np.isnan(values) & (found.total > 0)):
        number = np.bincount(group[there], minlength=count)
        total = np.bincount(group[there], values[there], count)
        for place in np.flatnonzero(number).tolist():
            out[place] = float(total[place])
    return out


def _divided(above: Column, below: Column) -> list[float | None]:
    return [float(a / b) if b > 0 else None for a, b in zip(above, below, strict=True)]


def _share(least: Column, time: Column) -> list[float | None]:
    return [None if value is None else value * 100 for value in _divided(least, time)]


def _bounds(compute: list[float | None], memory: list[float | None]) -> list[str | None]:
    """The roof each group is closer to, None if one of the two is unknown."""
    return [
        None if a is None or b is None or a == b else "compute" if a > b else "memory"
        for a, b in zip(compute, memory, strict=True)
    ]


def _dtypes(found: Figures, groups: _Groups) -> list[str | None]:
    """The element type of each group's arithmetic; several are separated by commas."""
    told: list[dict[str, None]] = [{} for _ in groups.first]
    for place, one in enumerate(found.estimates):
        if one.dtype:
            told[groups.of_call[place]][one.dtype] = None
    return [", ".join(one) or None for one in told]


def _findings(trace: StoredTrace, found: Figures, chosen: Column) -> tuple[Finding, ...]:
    if not len(found.ops):
        text = "the trace has no operators of a framework: a Kineto file has some, or a recording with --ranges torch"
        return (Finding("note", text),)
    out = [*_totals(found, chosen), *_outside(found), *_unmodelled(found, chosen)]
    if not any(call.arguments for call in found.ops.calls):
        out.append(
            Finding("note", "operators have no shapes: profile with record_shapes=True to see FLOP and bytes")
        )
    out += _without_peaks(trace, found)
    return tuple(out)


def _totals(found: Figures, chosen: Column) -> list[Finding]:
    """The total of everything that counts."""
    counts = chosen[found.counted[chosen]]
    counts = counts[found.total[counts] > 0]
    flops = float(np.nansum(found.own_flops[counts]))
    described = np.isin(found.ops.nearest(found.counted & ~np.isnan(found.own_flops)), counts)
    time = int(found.own[described].sum())
    least = found.least_compute[counts]
    if not time:
        return []
    whole = int((found.owned.work.end - found.owned.work.start)[found.owned.counts].sum())
    values: dict[str, Any] = {"flops": flops, "time": time, "of": whole}
    told = f"{words.operations(flops)} in {words.duration(time)} of device time with a known model"
    text = f"{told} ({time / max(whole, 1):.0%} of all): {words.operations(flops / time * 1e9)}/s"
    if not np.isnan(least).all():
        share = float(np.nansum(least)) / time * 100
        values["share"] = share
        text += f", {share:.1f}% of the peaks of their element types"
    return [Finding("note", text, values)]


def _outside(found: Figures) -> list[Finding]:
    """Device work that no operator launched."""
    held = found.owned
    missing = held.counts & (held.owner < 0)
    if not missing.any():
        return []
    count, time = int(missing.sum()), int((held.work.end - held.work.start)[missing].sum())
    told = (
        f"{words.counted(count, 'kernel, copy or set', 'kernels, copies and sets')} ({words.duration(time)})"
    )
    were = "was" if count == 1 else "were"
    text = f"{told} {were} launched outside any operator, or their call is not recorded"
    return [Finding("note", text, {"rows": count, "time": time})]


def _unmodelled(found: Figures, chosen: Column) -> list[Finding]:
    """The operators that launched work without an estimate, and the reasons; most device time first."""
    unknown = np.array([not one.known for one in found.estimates], bool)[found.ops.call]
    covered = found.ops.nearest(found.counted) >= 0
    rows = chosen[(unknown & ~covered)[chosen] & (found.own[chosen] > 0)]
    time: dict[tuple[str, str], int] = {}
    per_call = np.bincount(found.ops.call[rows], found.own[rows].astype(np.float64), len(found.estimates))
    for place in np.flatnonzero(per_call).tolist():
        key = found.ops.calls[place].name, found.estimates[place].reason
        time[key] = time.get(key, 0) + int(per_call[place])
    if not time:
        return []
    ranked = sorted(time.items(), key=lambda item: (-item[1], item[0]))
    total = sum(time.values())
    told = "; ".join(f"{name} ({words.duration(ns)}: {reason})" for (name, reason), ns in ranked[:3])
    text = f"operators without a model took {words.duration(total)} of device time: {told}"
    evidence = tuple({"operator": name, "time": ns, "reason": reason} for (name, reason), ns in ranked[:20])
    return [Finding("note", text, {"time": total, "operators": len(time)}, evidence=evidence)]


def _without_peaks(trace: StoredTrace, found: Figures) -> list[Finding]:
    """Devices with unknown peaks, for which no shares are given."""
    from warpsight.analysis.ops import peaks

    known = peaks.of_trace(trace)
    used = [device for device in found.owned.work.devices if device is not None]
    names = dict(trace.sql("SELECT device, name FROM device").fetchall())
    missing = [
        names.get(device) or f"device {device}"
        for device in used
        if device not in known or not known[device].vector
    ]
    if not missing:
        return []
    text = f"the peaks of {', '.join(dict.fromkeys(missing))} are not known, so they have no shares"
    return [Finding("note", text, {"devices": len(missing)})]

"""The figures of every operator: device time, arithmetic, bytes, and how long a perfect device would take for them.

Everything is a column with a value per operator (:class:`~warpsight.analysis.ops.rows.Operators`). Each distinct call is judged
once by its model; what counts in sums is decided from the innermost operators outwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.ops import models, peaks
from warpsight.analysis.ops.models.estimate import MATRIX, MOVING, VIEW, Estimate
from warpsight.analysis.ops.rows import Operators
from warpsight.analysis.ops.rows import load as load_operators
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Substrings in names of kernels that multiply floats as TF32, and of those that do not.
_TF32 = re.compile(r"tf32|tensorop_s\d|s1688|s168816", re.IGNORECASE)
_FP32 = re.compile(r"sgemm|scudnn|simt|_f32f32_f32f32|gemv|gemmSN|ffma", re.IGNORECASE)


@dataclass(frozen=True)
class _Owned:
    """Device work and the operators it belongs to.

    Attributes:
        work: The work.
        owner: For each piece the operator that launched it, -1 none.
        counts: Which pieces are requested.
        call: For each piece its call among `issued`, -1 none.
        issued: Host calls.
        chosen: Which operators are requested.
    """

    work: Work
    owner: Column
    counts: Column
    call: Column
    issued: calls.Calls
    chosen: Column


@dataclass(frozen=True)
class Figures:
    """Columns with a value per operator; times in ns, NaN where something is not known.

    Attributes:
        ops: The operators.
        owned: Their device work.
        own: Time of the work each launched itself.
        total: The same, including work of operators inside it.
        launched: Pieces of work it launched itself.
        estimates: The models' estimate of each distinct call.
        counted: Which operators count in sums.
        flops: Operations; for operators in `from_children`, those counted inside it.
        bytes: The same for bytes.
        flops_time: Time of the work that `flops` describes.
        bytes_time: Time of the work that `bytes` describes.
        least_compute: Time a perfect device would need for `flops`.
        least_memory: Time a perfect device would need for `bytes`.
        compute_time: Time of the work that `least_compute` describes.
        memory_time: Time of the work that `least_memory` describes.
        from_children: Operators without a model and work of their own: their figures are those of operators inside.
    """

    ops: Operators
    owned: _Owned
    own: Column
    total: Column
    launched: Column
    estimates: list[Estimate]
    counted: Column
    flops: Column
    bytes: Column
    flops_time: Column
    bytes_time: Column
    least_compute: Column
    least_memory: Column
    compute_time: Column
    memory_time: Column
    from_children: Column
    #: What each operator does itself, whether it counts or not; NaN unknown.
    own_flops: Column
    own_bytes: Column


def of_trace(trace: StoredTrace, rows: Rows) -> Figures:
    """The figures of the selected operators: those that begin within the requested time."""
    key = ("operator figures", Rows(rows.begin, rows.end, rows.devices, rows.streams, rows.processes).key())
    return trace.kept.get(key, lambda: _figures(trace, rows))


def owned(trace: StoredTrace, ops: Operators, rows: Rows) -> _Owned:
    """The device work of the operators; each piece belongs to the innermost operator open when its call began."""
    work = device_work.load(trace, Rows(None, None, rows.devices, rows.streams, rows.processes))
    issued, call = calls.of_work(trace, work, api=True)
    owner = np.full(len(work), -1, np.int64)
    known = np.flatnonzero(call >= 0)
    at = call[known]
    owner[known] = ops.ranges.at(issued.process[at], issued.thread[at], issued.start[at])
    chosen = np.ones(len(ops), bool)
    if rows.processes:
        chosen &= np.isin(ops.ranges.process, list(rows.processes))
    low = rows.begin if rows.begin is not None else np.iinfo(np.int64).min
    high = rows.end if rows.end is not None else np.iinfo(np.int64).max
    chosen &= (ops.ranges.start >= low) & (ops.ranges.start < high)
    # Work without an operator counts by its call's start, or else by its own.
    moment = work.start.copy()
    moment[known] = issued.start[at]
    counts = (moment >= low) & (moment < high)
    inside = owner >= 0
    counts[inside] = chosen[owner[inside]]
    return _Owned(work, owner, counts, call, issued, chosen)


def _figures(trace: StoredTrace, rows: Rows) -> Figures:
    ops = load_operators(trace)
    found = owned(trace, ops, rows)
    chosen = np.flatnonzero((found.owner >= 0) & found.counts)
    owner = found.owner[chosen]
    length = (found.work.end - found.work.start)[chosen]
    own = device_work.summed(owner, length, len(ops))
    launched = np.bincount(owner, minlength=len(ops)).astype(np.int64)
    estimates = [models.evaluate(call) for call in ops.calls]
    own_flops, own_bytes = (
        _each(ops, [getattr(one, name) for one in estimates]) for name in ("flops", "bytes")
    )
    counted = _counted(ops, estimates, launched)
    least = _least(trace, ops, found, chosen, estimates, own_flops, own_bytes)
    total = ops.inside(own)
    has_model = _each(ops, [one.known for one in estimates]) > 0
    from_children = ~has_model & (launched == 0) & (ops.inside(counted.astype(np.int64)) > 0)
    columns = {}
    for name, values in (
        ("flops", own_flops),
        ("bytes", own_bytes),
        ("compute", least[0]),
        ("memory", least[1]),
    ):
        columns[name] = _with_children(ops, values, counted, from_children, own, total)
    return Figures(
        ops, found, own, total, launched, estimates, counted, columns["flops"][0], columns["bytes"][0], columns["flops"][1],
        columns["bytes"][1], columns["compute"][0], columns["memory"][0], columns["compute"][1], columns["memory"][1],
        from_children, own_flops, own_bytes,
    )  # fmt: skip


def _each(ops: Operators, values: list[Any]) -> Column:
    """A value of each distinct call for every operator; None becomes NaN."""
    return np.array([np.nan if v is None else float(v) for v in values], np.float64)[ops.call]


def _with_children(
    ops: Operators, values: Column, counted: Column, from_children: Column, own: Column, total: Column
) -> tuple[Column, Column]:
    """A column, plus the sum over inner operators for `from_children`; and the time of the work that each value describes."""
    known = ~np.isnan(values)
    counts = counted & known
    below = ops.inside(np.where(counts, values, 0.0))
    described = ops.inside(np.where(ops.nearest(counts) >= 0, own, 0))
    summed = from_children & (ops.inside(counts.astype(np.int64)) > 0)
    out = np.where(known, values, np.where(summed, below, np.nan))
    return out, np.where(known, total, np.where(summed, described, 0))


def _counted(ops: Operators, estimates: list[Estimate], launched: Column) -> Column:
    """Which operators to include in sums, so that each piece of work counts once.

    Innermost first. An operator that launched work counts when its model knows it; a product, convolution or attention not when
    one of these counts inside it. One that launched nothing counts when there is work inside that no model knows, and what
    counts inside only moves data. At last nothing counts that is inside of what counts.
    """
    family = (
        np.array([_kind(one) for one in estimates], np.int8)[ops.call] if len(ops) else np.zeros(0, np.int8)
    )
    known, matrix, moving = family > 0, family == 3, family == 2
    counted = np.zeros(len(ops), bool)
    # Counts of inner operators that count: matrix, other except moving data, moving data.
    below = np.zeros((3, len(ops)), np.int64)
    unknown = np.where(known, 0, launched)  # pieces of work inside, or its own, that nothing counts
    outermost = np.flatnonzero(ops.parent < 0)
    for level in [*ops.depth, outermost]:
        own = launched[level] > 0
        fits = known[level] & own & ~(matrix[level] & (below[0, level] > 0))
        around = known[level] & ~own & (unknown[level] > 0) & (below[0, level] + below[1, level] == 0)
        counts = fits | around
        counted[level] = counts
        unknown[level] = np.where(counts, 0, unknown[level])
        if level is outermost:
            break
        up = ops.parent[level]
        kinds = (matrix[level], ~matrix[level] & ~moving[level], moving[level])
        for kind, mine in enumerate(kinds):
            np.add.at(below[kind], up, below[kind, level] + (counts & mine))
        np.add.at(unknown, up, unknown[level])
    inner = np.flatnonzero(ops.parent >= 0)
    counted[inner] &= ops.nearest(counted)[ops.parent[inner]] < 0
    return counted


def _kind(one: Estimate) -> int:
    """0: unknown or a view, 3: matrix, 2: moves data, 1: any other."""
    if not one.known or one.family == VIEW:
        return 0
    return 3 if one.family.removeprefix("grouped ") in MATRIX else 2 if one.family in MOVING else 1


def _least(
    trace: StoredTrace,
    ops: Operators,
    found: _Owned,
    chosen: Column,
    estimates: list[Estimate],
    flops: Column,
    count: Column,
) -> tuple[Column, Column]:
    """The times, in ns, that each operator's operations and bytes would take at its device's peaks."""
    known = peaks.of_trace(trace)
    if not known or not len(ops):
        return np.where(flops == 0, 0.0, np.nan), np.full(len(ops), np.nan)
    device = _devices(ops, found, chosen)
    listed = sorted(known)
    place = np.searchsorted(listed, device)
    place = np.where((place < len(listed)) & (np.array([*listed, -1])[place] == device), place, len(listed))
    bandwidth = np.array([known[one].bandwidth or np.nan for one in listed] + [np.nan])[place]
    kinds = list(dict.fromkeys((one.dtype, one.matrix) for one in estimates))
    kind = np.array([kinds.index((one.dtype, one.matrix)) for one in estimates], np.int64)[ops.call]
    rates = np.full((len(listed) + 1, len(kinds) + 1), np.nan)
    tensor_floats = np.full(len(listed) + 1, np.nan)
    for row, one in enumerate(listed):
        rates[row, :-1] = [known[one].rate(dtype, matrix) or np.nan for dtype, matrix in kinds]
        tensor_floats[row] = (
            known[one].matrix.get("tf32", np.nan) if "fp32" not in known[one].matrix else np.nan
        )
    rate = rates[place, kind]
    if ("fp32", True) in kinds:
        products = (kind == kinds.index(("fp32", True))) & ~np.isnan(tensor_floats[place])
        rate = np.where(products, _float_rates(trace, ops, found, chosen, rate, tensor_floats[place]), rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(flops == 0, 0.0, flops / rate * 1e9), count / bandwidth * 1e9


def _devices(ops: Operators, found: _Owned, chosen: Column) -> Column:
    """The device an operator's work ran on, -1 if none; the one with the greatest id if there are several."""
    ids, place = found.work.device_index()
    number = np.array([-1 if one is None else one for one in ids] or [-1], np.int64)[place[chosen]]
    device = np.full(len(ops), -1, np.int64)
    np.maximum.at(device, found.owner[chosen], number)
    for level in ops.depth:
        np.maximum.at(device, ops.parent[level], device[level])
    return device


def _float_rates(
    trace: StoredTrace, ops: Operators, found: _Owned, chosen: Column, rate: Column, tensor_floats: Column
) -> Column:
    """Rates of float products on devices with TF32, as the kernels' names imply; NaN if they do not."""
    names = names_of.texts(trace, "name")
    used = np.unique(found.work.name_id[chosen])
    said = []
    for pattern in (_TF32, _FP32):
        speaks = np.array([bool(pattern.search(names.get(i, ""))) for i in used.tolist()], bool)
        per_work = speaks[np.searchsorted(used, found.work.name_id[chosen])]
        said.append(ops.inside(np.bincount(found.owner[chosen], per_work, len(ops))) > 0)
    out: Column = np.where(said[0], tensor_floats, np.where(said[1], rate, np.nan))
    return out

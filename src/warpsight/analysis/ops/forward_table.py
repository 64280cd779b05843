"""Forward operators with the cost of their backward pass: `stats ops --by forward`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.base.tables import table
from warpsight.analysis.ops.backward import Backward
from warpsight.analysis.ops.figures import Figures

Column = NDArray[Any]
_SPEC = """name:string calls:int64 nodes:int64 host:int64:ns forward:int64:ns backward:int64:ns ratio:float64
    flops_forward:float64:FLOP flops_backward:float64:FLOP"""


def by_forward(found: Figures, joined: Backward, chosen: Column) -> pa.Table:
    """Device time and operations of the forward operators that made an autograd node, and of these nodes.

    Columns: name, calls, nodes (backward nodes), host (of the forward), forward and backward (device time), ratio of the two,
    operations of both; null where nothing is known.
    """
    ops = found.ops
    mine = np.zeros(len(ops), bool)
    mine[chosen] = True
    name = (
        np.array([call.name for call in ops.calls] or [""], object)[ops.call]
        if len(ops)
        else np.zeros(0, object)
    )
    used = np.zeros(len(ops), bool)
    used[joined.forward[joined.forward >= 0]] = True
    forward = np.flatnonzero(used & mine)
    names, group = np.unique(name[forward].astype(str), return_inverse=True)
    of = np.full(len(ops), -1, np.int64)
    of[forward] = group
    # A node inside a node of the same forward pass (the evaluation and what it calls) counts once, as does recomputation.
    origin = joined.origin
    work = np.flatnonzero((origin >= 0) & (of[np.maximum(origin, 0)] >= 0))
    count = len(names)

    def summed(rows: Column, where: Column, values: Column) -> Column:
        return np.bincount(where, values[rows].astype(np.float64), count)

    back = of[origin[work]]
    outer = np.flatnonzero((joined.forward >= 0) & (of[np.maximum(joined.forward, 0)] >= 0))
    outer = outer[(ops.parent[outer] < 0) | (joined.forward[ops.parent[outer]] != joined.forward[outer])]
    known = np.where(found.counted, np.nan_to_num(found.own_flops), 0.0)
    there = found.counted & ~np.isnan(found.own_flops)
    flops = np.bincount(back, known[work], count)
    any_back = np.bincount(back, there[work], count) > 0
    total, back_time = summed(forward, group, found.total), summed(work, back, found.own)
    forward_flops = found.flops[forward]
    has = ~np.isnan(forward_flops)
    own_flops = (
        np.bincount(group[has], forward_flops[has], count),
        np.bincount(group[has], minlength=count) > 0,
    )
    columns = {
        "name": names.tolist(), "calls": np.bincount(group, minlength=count),
        "nodes": np.bincount(of[joined.forward[outer]], minlength=count),
        "host": summed(forward, group, ops.ranges.end - ops.ranges.start).astype(np.int64),
        "forward": total.astype(np.int64), "backward": back_time.astype(np.int64),
        "ratio": [float(b / a) if a else None for a, b in zip(total, back_time, strict=True)],
        "flops_forward": _nulled(*own_flops), "flops_backward": _nulled(flops, any_back),
    }  # fmt: skip
    return table(_SPEC, columns).sort_by(
        [("backward", "descending"), ("forward", "descending"), ("name", "ascending")]
    )


def _nulled(values: Column, known: Column) -> list[float | None]:
    return [float(value) if there else None for value, there in zip(values, known, strict=True)]

"""Device time, host time and operations of a model's modules: `stats modules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ops import backward, figures, module_ranges, module_stacks
from warpsight.analysis.ops.backward import Backward
from warpsight.analysis.ops.figures import Figures
from warpsight.analysis.ops.module_ranges import RangeModules
from warpsight.analysis.ops.module_stacks import StackModules
from warpsight.analysis.ops.module_tree import ModuleTree
from warpsight.errors import UsageError, choices
from warpsight.model import work as device_work
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: How modules can be grouped: each instance where it is in the tree, or all instances of a class together.
BY = ("name", "class")
_FIGURES = """calls:int64 host:int64:ns kernels:int64 device_own:int64:ns device_total:int64:ns backward:int64:ns share:float64:%
    flops_own:float64:FLOP flops:float64:FLOP"""


@dataclass(frozen=True)
class _Placed:
    """Device work assigned to modules: the tree, the node of each piece of work (-1 if none), and which pieces are backward."""

    tree: ModuleTree
    node: Column
    in_backward: Column


def modules(trace: StoredTrace, rows: Rows = _ALL, by: str = "name") -> Result:
    """Device time (own, including inner modules, and the backward part of it), host time and operations of each module.

    Args:
        trace: The trace.
        rows: Which work counts, as in :func:`~warpsight.analysis.ops.operators.operators`; `name` selects modules.
        by: One of :data:`BY`.

    Returns:
        Table `modules`: those inside a module follow it, the longest first, with their `depth` and `path`; by class one row per
        class. Calls and host time are null where modules are known by stacks alone.

    Raises:
        UsageError: for an unknown grouping or an invalid pattern.
    """
    if by not in BY:
        raise UsageError(f"there is no grouping {by!r} of modules{choices(by, BY)}")
    found = figures.of_trace(trace, rows)
    joined = backward.of_operators(trace, found.ops)
    placed = place(trace, found, joined, rows)
    if placed is None:
        text = "no modules are known: profile with with_stack=True, record Python stacks, or name NVTX ranges like modules"
        return Result(
            {"modules": table(_spec(by), {name: [] for name in _names(by)})}, (Finding("note", text),)
        )
    made = _by_class(found, placed) if by == "class" else _by_instance(found, placed)
    return Result({"modules": _matching(trace, made, rows.name, by)}, _findings(found, placed))


def place(trace: StoredTrace, found: Figures, joined: Backward, rows: Rows) -> _Placed | None:
    """Assign every piece of device work to a module; None when the trace has no modules."""
    held = found.owned
    owned = np.maximum(held.owner, 0)
    node_of = joined.node[owned] if len(found.ops) else np.full(len(owned), -1)
    in_backward = (held.owner >= 0) & (node_of >= 0)
    source: RangeModules | StackModules | None = module_ranges.load(trace) or module_stacks.load(trace)
    if source is None:
        return None
    if isinstance(source, RangeModules):
        module_ranges.count(source, rows)
        node = np.full(len(held.owner), -1, np.int64)
        known = np.flatnonzero(held.call >= 0)
        at = held.call[known]
        node[known] = source.at(held.issued.process[at], held.issued.thread[at], held.issued.start[at])
    else:
        node = source.of(held.work.stack)
    left = np.flatnonzero((node < 0) & in_backward)
    node[left] = _of_forward(found, joined, source, owned[left])
    return _Placed(source.tree, node, in_backward)


def _of_forward(
    found: Figures, joined: Backward, source: RangeModules | StackModules, owner: Column
) -> Column:
    """The modules of the forward operators of backward work; a forward operator run in backward takes that of its own forward."""
    ops = found.ops
    origin = joined.origin[owner]
    out = np.full(len(owner), -1, np.int64)
    left = np.flatnonzero(origin >= 0)
    while len(left):
        at = origin[left]
        if isinstance(source, RangeModules):
            out[left] = source.at(ops.ranges.process[at], ops.ranges.thread[at], ops.ranges.start[at])
        else:
            out[left] = source.of(ops.stack[at])
        left = left[out[left] < 0]
        above = joined.origin[origin[left]]
        # A forward operator is never its own origin's descendant: begins only go back.
        left, above = left[above >= 0], above[above >= 0]
        origin[left] = above
    return out


def _sums(found: Figures, placed: _Placed) -> dict[str, Column]:
    """The totals of each node itself: pieces of work, their time, the backward part of it, and operations (NaN: unknown)."""
    held, count = found.owned, len(placed.tree)
    chosen = np.flatnonzero(held.counts & (placed.node >= 0))
    node = placed.node[chosen]
    length = (held.work.end - held.work.start)[chosen]
    back = placed.in_backward[chosen]
    flops, known = _operations(found, placed, count)
    return {
        "kernels": np.bincount(node, minlength=count).astype(np.int64), "own": device_work.summed(node, length, count),
        "backward": device_work.summed(node[back], length[back], count), "flops": flops, "known": known,
    }  # fmt: skip


def _operations(found: Figures, placed: _Placed, count: int) -> tuple[Column, Column]:
    """Operations by node, and the number of operators they come from: each counts at the node of its first piece of work."""
    held = found.owned
    inside = np.flatnonzero((held.owner >= 0) & held.counts)
    counts = found.ops.nearest(found.counted)[held.owner[inside]]
    inside, counts = inside[counts >= 0], counts[counts >= 0]
    operators, first = np.unique(counts, return_index=True)
    node = placed.node[inside[first]]
    values = found.own_flops[operators]
    there = (node >= 0) & ~np.isnan(values)
    return np.bincount(node[there], values[there], count), np.bincount(node[there], minlength=count)


def _spec(by: str) -> str:
    labels = "module:string class:string number:int64 depth:int64 path:string"
    return f"{'class:string instances:int64' if by == 'class' else labels} {_FIGURES}"


def _names(by: str) -> list[str]:
    return [column.split(":")[0] for column in _spec(by).split()]


def _by_instance(found: Figures, placed: _Placed) -> pa.Table:
    tree, sums = placed.tree, _sums(found, placed)
    totals = {name: tree.summed(column) for name, column in sums.items()}
    order, depth = tree.ordered(totals["own"])
    used = [
        place
        for place, node in enumerate(order)
        if totals["kernels"][node] or (tree.calls and tree.calls[node])
    ]
    order, depth = [order[i] for i in used], [depth[i] for i in used]
    columns: dict[str, Any] = {
        "module": [tree.module[node].name for node in order], "class": [tree.module[node].kind for node in order],
        "number": [tree.module[node].number for node in order], "depth": depth,
        "path": ["/".join(tree.module[one].name for one in reversed(tree.path(node))) for node in order],
        **_values(found, tree, order, sums, totals),
    }  # fmt: skip
    return table(_spec("name"), columns)


def _values(
    found: Figures, tree: ModuleTree, order: list[int], sums: dict[str, Column], totals: dict[str, Column]
) -> dict[str, Any]:
    whole = max(int((found.owned.work.end - found.owned.work.start)[found.owned.counts].sum()), 1)
    return {
        "calls": [None if tree.calls is None else tree.calls[node] for node in order],
        "host": [None if tree.host is None else tree.host[node] for node in order],
        "kernels": totals["kernels"][order], "device_own": sums["own"][order], "device_total": totals["own"][order],
        "backward": totals["backward"][order], "share": totals["own"][order] / whole * 100,
        "flops_own": [float(sums["flops"][node]) if sums["known"][node] else None for node in order],
        "flops": [float(totals["flops"][node]) if totals["known"][node] else None for node in order],
    }  # fmt: skip


def _by_class(found: Figures, placed: _Placed) -> pa.Table:
    """All instances of a class combined; for nested instances, only the outer total counts."""
    tree, sums = placed.tree, _sums(found, placed)
    kinds = list(dict.fromkeys(module.kind for module in tree.module))
    number = {kind: place for place, kind in enumerate(kinds)}
    merged = ModuleTree(
        calls=None if tree.calls is None else [0] * len(kinds),
        host=None if tree.host is None else [0] * len(kinds),
    )
    own = {name: np.zeros(len(kinds), column.dtype) for name, column in sums.items()}
    total = {name: np.zeros(len(kinds), column.dtype) for name, column in sums.items()}
    instances = [0] * len(kinds)
    for node in range(len(tree)):
        around = {tree.module[one].kind for one in tree.path(node)[1:]}
        kind = tree.module[node].kind
        place = number[kind]
        instances[place] += 1
        if merged.calls is not None and tree.calls is not None:
            merged.calls[place] += tree.calls[node]
        if merged.host is not None and tree.host is not None and kind not in around:
            merged.host[place] += tree.host[node]
        for name, column in sums.items():
            own[name][place] += column[node]
            for one in {*around, kind}:
                total[name][number[one]] += column[node]
    order = sorted(range(len(kinds)), key=lambda place: (-total["own"][place], kinds[place]))
    columns = {"class": [kinds[i] for i in order], "instances": [instances[i] for i in order],
               **_values(found, merged, order, own, total)}  # fmt: skip
    return table(_spec("class"), columns)


def _matching(trace: StoredTrace, made: pa.Table, pattern: str | None, by: str) -> pa.Table:
    """The rows whose module or class a regular expression matches, as SQL finds it."""
    if pattern is None:
        return made
    import pyarrow as pa

    names = made["class" if by == "class" else "module"].to_pylist()
    sql = "SELECT regexp_matches(n, $pattern) FROM (SELECT unnest($names) AS n, generate_subscripts($names, 1) AS i) ORDER BY i"
    found = [row[0] for row in trace.sql(sql, pattern=pattern, names=names).fetchall()] if names else []
    return made.filter(pa.array(found, pa.bool_()))


def largest(made: pa.Table, count: int) -> pa.Table:
    """The rows of a tree with the most device time, together with their ancestors."""
    if "depth" not in made.column_names or count >= len(made):
        return made.slice(0, count)
    total = made["device_total"].to_numpy()
    # Those around a module have as much time or more, and come before it.
    chosen = np.sort(np.lexsort((np.arange(len(total)), -total))[:count])
    return made.take(chosen)


def _findings(found: Figures, placed: _Placed) -> tuple[Finding, ...]:
    held = found.owned
    length = held.work.end - held.work.start
    out = []
    outside = held.counts & (placed.node < 0)
    if outside.any():
        time, count = int(length[outside].sum()), int(outside.sum())
        whole = max(int(length[held.counts].sum()), 1)
        some = words.counted(count, "kernel, copy or set", "kernels, copies and sets")
        none = "belongs to no module" if count == 1 else "belong to no module"
        text = f"{some} ({words.duration(time)}, {time / whole:.0%}) {none}"
        out.append(Finding("note", text, {"rows": count, "time": time}))
    back = held.counts & placed.in_backward
    if back.any():
        count = int((back & (placed.node >= 0)).sum())
        text = f"of {int(back.sum()):,} pieces of backward's work {count:,} belong to the module of their forward operator"
        out.append(Finding("note", text, {"rows": count, "of": int(back.sum())}))
    if placed.tree.calls is None:
        text = "modules are known from Python stacks: modules called on the same line share a row, without calls and host time"
        out.append(Finding("note", text))
    return tuple(out)

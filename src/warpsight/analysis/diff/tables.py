"""The tables of a comparison. Times are ns per iteration, the mean over the runs of a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base.tables import table
from warpsight.analysis.diff import sequence as sequences
from warpsight.analysis.diff.alignment import REPETITION, ComparedLoop, Labeled
from warpsight.analysis.diff.calltree import CallTree
from warpsight.analysis.diff.design import Design
from warpsight.analysis.diff.rows import FASTER, NOT_SHOWN, SLOWER, UNTESTED, Judged
from warpsight.analysis.diff.runs import ReducedRun
from warpsight.analysis.diff.statistics import Estimates

if TYPE_CHECKING:
    import pyarrow as pa

Column = npt.NDArray[Any]
#: Nodes of the call tree below this share of the device time on both sides are left out of its table.
LEAST_NODE = 0.001
#: Nodes with this share of the largest change are shown to locate it, whether called or not.
_LARGE = 0.1
_CHANGE = (
    "before:float64:ns after:float64:ns change:float64:ns ratio:float64 low:float64 high:float64 beside:float64 "
    "beside_low:float64 beside_high:float64 count_before:float64 count_after:float64 p:float64 verdict:string"
)
_ROW = f"name:string {_CHANGE}"
_NODE = f"node:int64 parent:int64 depth:int64 kind:string name:string match:string {_CHANGE}"


def mean_of(values: Column) -> Column:
    """The mean of each row over runs: geometric, so that ratios of means are means of ratios, unless some value is 0."""
    zero: Column = np.any(values <= 0, axis=1)
    logs = np.log(np.where(zero[:, None], 1.0, values))
    out: Column = np.where(zero, values.mean(axis=1), np.exp(logs.mean(axis=1)))
    return out


@dataclass(frozen=True)
class Maker:
    """Makes tables of judged rows; `count` is the amount of work in each cell, per run."""

    judged: Judged
    count: Sequence[Column]
    design: Design

    def summary(
        self, names: Sequence[str], headline: tuple[Estimates, float] | None, loop: ComparedLoop
    ) -> pa.Table:
        """The measures; the first one is the headline's and has its test."""
        work = np.array([[one.work for one in loop.values]])
        rows = self._changes("summary", np.repeat(work, len(names), axis=0))
        if headline is not None:
            tested, _ = headline
            way = SLOWER if tested.change[0] > 0 else FASTER
            rows[0] |= {**_tested(tested, 0), "verdict": way if tested.called[0] else NOT_SHOWN}
        else:
            rows[0]["verdict"] = UNTESTED
        return table(_ROW, [{"name": name, **row} for name, row in zip(names, rows, strict=True)])

    def labeled(self, name: str, group: Labeled) -> pa.Table:
        """The rows of a grouping: changed ones first, then by size of change."""
        rows = self._changes(name, group.summed(self.count))
        made = [{"name": text, **row} for text, row in zip(group.texts, rows, strict=True)]
        made = [row for row in made if row["before"] or row["after"]]
        made.sort(key=lambda row: (row["verdict"] in (NOT_SHOWN, UNTESTED), -abs(row["change"])))
        return table(_ROW, made)

    def tree(self, tree: CallTree) -> pa.Table:
        """The call tree, depth first, siblings by time; nodes that hardly take time are left out."""
        rows = self._changes("tree", tree.totals(self.count))
        size = np.array([max(row["before"], row["after"]) for row in rows])
        children: list[list[int]] = [[] for _ in rows]
        for node, parent in enumerate(tree.parent.tolist()[1:], 1):
            if size[node] >= LEAST_NODE * size[0] and size[node] > 0:
                children[parent].append(node)
        made: list[dict[str, Any]] = []
        waiting = [(0, -1, 0)]
        while waiting:
            node, parent, depth = waiting.pop()
            one, two = tree.before[node], tree.after[node]
            name = one if one == two else f"{one} → {two}" if one and two else one or two
            match = "both" if one == two else "replaced" if one and two else "removed" if one else "added"
            place = len(made)
            made.append({"node": place, "parent": parent, "depth": depth, "kind": tree.kind[node], "name": name,
                         "match": match, **rows[node]})  # fmt: skip
            below = sorted(children[node], key=lambda child: size[child])
            waiting += [(child, place, depth + 1) for child in below]
        return table(_NODE, made)

    def _changes(self, name: str, count: Column) -> list[dict[str, Any]]:
        """The columns that all tables of changes share, row by row."""
        values, after = self.judged.values[name], self.design.after
        one, two = mean_of(values[:, ~after]), mean_of(values[:, after])
        counts = count[:, ~after].mean(axis=1), count[:, after].mean(axis=1)
        time = self.judged.time[name] if self.judged.time else None
        beside = self.judged.beside.get(name) if self.judged.beside else None
        return [
            {
                "before": a, "after": b, "change": b - a, "ratio": b / a if a else None, "count_before": float(counts[0][i]),
                "count_after": float(counts[1][i]), "verdict": self.judged.verdict[name][i],
                **(_tested(time, i) if time and a and b else {}), **(_beside(beside, i) if beside and a and b else {}),
                "p": _least(time, beside, i),
            }
            for i, (a, b) in enumerate(zip(one.tolist(), two.tolist(), strict=True))
        ]  # fmt: skip


def _tested(found: Estimates, row: int) -> dict[str, Any]:
    return {"low": _ratio(found.low[row]), "high": _ratio(found.high[row]), "p": float(found.p[row])}


def _beside(found: Estimates, row: int) -> dict[str, Any]:
    return {
        "beside": _ratio(found.change[row]),
        "beside_low": _ratio(found.low[row]),
        "beside_high": _ratio(found.high[row]),
    }


def _ratio(log: float) -> float | None:
    return exp(log) if isfinite(log) and abs(log) < 50 else None


def _least(time: Estimates | None, beside: Estimates | None, row: int) -> float | None:
    """The smaller p of a row's two tests; None if neither was made."""
    known = [float(one.p[row]) for one in (time, beside) if one is not None and isfinite(one.low[row])]
    return min(known, default=None)


def sequence(
    every: Sequence[ReducedRun],
    loop: ComparedLoop,
    design: Design,
    *,
    by_role: bool,
    renamed: Mapping[str, str],
) -> pa.Table:
    """Where the typical iterations of each side's typical run differ in the order of their kernels."""
    columns = (
        "change:string place:int64 kernels_before:int64 kernels_after:int64 before:int64:ns after:int64:ns "
        "what_before:string what_after:string"
    )
    one, two = (_typical(every, loop, np.flatnonzero(mask)) for mask in (~design.after, design.after))
    if all(run.source.startswith(REPETITION) for run in every):
        two = two.turned_to(one)
    found = sequences.stretches(one, two, by_role, renamed)
    found.sort(key=lambda s: -abs(s.time_after - s.time_before))
    return table(columns, [
        {"change": s.change, "place": s.before[0], "kernels_before": s.before[1] - s.before[0],
         "kernels_after": s.after[1] - s.after[0], "before": s.time_before, "after": s.time_after,
         "what_before": _names(one.names[slice(*s.before)]), "what_after": _names(two.names[slice(*s.after)])}
        for s in found
    ])  # fmt: skip


def _typical(every: Sequence[ReducedRun], loop: ComparedLoop, side: Column) -> sequences.Iteration:
    """The typical iteration of the median run of its side."""
    length = [next(iter(loop.values[i].measures.values())) for i in side]
    run = every[int(side[np.argsort(length, kind="stable")[len(side) // 2]])]
    labels, times = run.sequence
    return sequences.Iteration([run.labels[i][1] for i in labels.tolist()], times.tolist())


def _names(names: Sequence[str]) -> str | None:
    return ", ".join(dict.fromkeys(names[:20])) or None


def runs(every: Sequence[ReducedRun], loop: ComparedLoop, design: Design) -> pa.Table:
    """Every run in the order given."""
    columns = "side:string path:string began:int64 order:int64 iterations:int64 kinds:int64 time:float64:ns machine:string"
    return table(columns, [
        {"side": "after" if second else "before", "path": run.path, "began": run.when, "order": order if design.timed else None,
         "iterations": run.turns if loop.found else None, "kinds": run.kinds if loop.found else None,
         "time": next(iter(value.measures.values())), "machine": run.machine}
        for run, value, second, order in zip(every, loop.values, design.after.tolist(), design.order.tolist(), strict=True)
    ])  # fmt: skip


def changed_nodes(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of table `tree` that locate the change: those that are called or hold a large part of it, and their ancestors."""
    largest = max((abs(node["change"]) for node in nodes), default=0.0)
    keep = [
        node["verdict"] not in (NOT_SHOWN, UNTESTED) or abs(node["change"]) >= _LARGE * largest > 0
        for node in nodes
    ]
    for place in range(len(nodes) - 1, 0, -1):
        if keep[place]:
            keep[nodes[place]["parent"]] = True
    return [node for node, kept in zip(nodes, keep, strict=True) if kept]

"""Properties shared by all runs of a comparison: the compared loop, and the labels of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff.calltree import CallTree
from warpsight.analysis.diff.runs import ReducedRun, RunValues

Column = npt.NDArray[Any]
#: Prefix of the source of a loop found by repeating kernels, where nothing marks the start of an iteration.
REPETITION = "repetition"
#: Iterations of one run match several of another if their kernels are the same to within this share.
_SAME_WORK = 0.25


@dataclass(frozen=True)
class ComparedLoop:
    """The loop that is compared.

    Attributes:
        values: What each run took per iteration, or as a whole.
        name: What the program calls an iteration; "iteration" where it says nothing, "recording" without a loop in common.
        note: Why whole recordings are compared although there are iterations; "" when there is nothing to say.
    """

    values: list[RunValues]
    name: str
    note: str

    @property
    def found(self) -> bool:
        """Whether iterations are compared."""
        return self.name != "recording"


def loop(runs: Sequence[ReducedRun]) -> ComparedLoop:
    """The loop that all runs have in common, otherwise their whole recordings."""
    whole = [run.recording for run in runs]
    sources = sorted({run.source or "none" for run in runs})
    own = [run.iteration for run in runs if run.iteration is not None]
    if not own:
        return ComparedLoop(whole, "recording", "")
    if len(own) < len(runs) or len(sources) > 1:
        found = "; ".join(sources)
        return ComparedLoop(
            whole, "recording", f"the runs have no loop in common ({found}), so whole recordings are compared"
        )
    if sources[0].startswith(REPETITION):
        scaled = _per_turn(runs, own)
        if scaled is None:
            text = "the loops that repeat in the runs do different work, so whole recordings are compared"
            return ComparedLoop(whole, "recording", text)
        own = scaled
    names = {run.name for run in runs}
    name = names.pop() if len(names) == 1 else None
    return ComparedLoop(own, name or "iteration", "")


def _per_turn(runs: Sequence[ReducedRun], values: Sequence[RunValues]) -> list[RunValues] | None:
    """Values per iteration of the shortest loop: one iteration in one run may correspond to several in another."""
    kernels: dict[str, int] = {}
    for run in runs:
        for kind, text in run.labels:
            if kind in ("kernel", "copy"):
                kernels.setdefault(text, len(kernels))
    counts = np.zeros((len(runs), len(kernels)))
    for row, (run, value) in enumerate(zip(runs, values, strict=True)):
        texts = [kernels.get(text, 0) for _, text in run.labels]
        np.add.at(counts[row], np.array(texts, np.int64)[run.groups["kernel"]], value.count)
    total = counts.sum(axis=1)
    shortest = int(total.argmin())
    turns = np.maximum(np.round(total / max(float(total[shortest]), 1e-9)), 1)
    apart = np.abs(counts / turns[:, None] - counts[shortest]).sum(axis=1)
    if (apart[turns > 1] > _SAME_WORK * total[shortest]).any():
        return None
    return [_divided(value, float(turn)) for value, turn in zip(values, turns, strict=True)]


def _divided(value: RunValues, turns: float) -> RunValues:
    if turns == 1:
        return value
    measures = {name: time / turns for name, time in value.measures.items()}
    return replace(
        value, measures=measures, work=value.work / turns, time=value.time / turns, count=value.count / turns
    )


@dataclass(frozen=True)
class Labeled:
    """Rows of one grouping: their labels, and the row of each run's cells (-1: none)."""

    texts: list[str]
    of: list[Column]

    def summed(self, values: Sequence[Column]) -> Column:
        """The sum of each row from one value per cell and run: rows × runs."""
        rows = len(self.texts)
        parts = [
            np.bincount(of[of >= 0], value[of >= 0], minlength=rows)
            for of, value in zip(self.of, values, strict=True)
        ]
        out: Column = np.stack(parts, axis=1) if rows else np.zeros((0, len(parts)))
        return out


def labeled(runs: Sequence[ReducedRun], grouping: str, renamed: dict[str, str] | None = None) -> Labeled:
    """The rows of a grouping; `renamed` merges labels that mean the same thing."""
    rows: dict[str, int] = {}
    of = []
    for run in runs:
        own = run.groups[grouping]
        used, back = np.unique(own, return_inverse=True)
        texts = [run.labels[i][1] if i >= 0 else "" for i in used.tolist()]
        joined = [(renamed or {}).get(text, text) for text in texts]
        onto = [rows.setdefault(text, len(rows)) if text else -1 for text in joined]
        of.append(np.array(onto, np.int64)[back] if len(onto) else own)
    return Labeled(list(rows), of)


def renamed(
    tree: CallTree, runs: Sequence[ReducedRun], time: Sequence[Column], after: Column
) -> dict[str, str]:
    """Kernels that replace others on one side: label → "before → after" for both.

    A pair counts when each is what the other was matched with most, and neither is on the other side anywhere.
    """
    sides: tuple[set[str], set[str]] = set(), set()
    for run, value, second in zip(runs, time, after.tolist(), strict=True):
        used = np.unique(run.groups["kernel"][value > 0])
        sides[int(second)].update(run.labels[i][1] for i in used.tolist())
    weight = tree.totals(time).sum(axis=1)
    pairs: dict[tuple[str, str], float] = {}
    for node in range(len(tree)):
        pair = tree.before[node], tree.after[node]
        if tree.kind[node] == "kernel" and all(pair) and pair[0] != pair[1]:
            pairs[pair] = pairs.get(pair, 0.0) + float(weight[node])
    best: tuple[dict[str, str], dict[str, str]] = {}, {}
    for one, two in sorted(pairs, key=lambda pair: pairs[pair]):
        best[0][one], best[1][two] = two, one
    out = {}
    for one, two in best[0].items():
        if best[1][two] == one and one not in sides[1] and two not in sides[0]:
            out[one] = out[two] = f"{one} → {two}"
    return out

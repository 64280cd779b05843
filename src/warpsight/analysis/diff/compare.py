"""`diff`: two sides of several runs each, compared per iteration along their common call tree, run against run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff import alignment, answer, calltree, rows, runs, statistics, tables
from warpsight.analysis.diff.alignment import ComparedLoop, Labeled
from warpsight.analysis.diff.answer import Compared, Difference
from warpsight.analysis.diff.design import Design
from warpsight.analysis.diff.runs import GROUPINGS, ReducedRun
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
_ALL = Rows()
#: Compare kernels by name if names on both sides cover this share of each side's device time, otherwise by role.
SHARED = 0.2


def compare(
    before: StoredTrace | Sequence[StoredTrace], after: StoredTrace | Sequence[StoredTrace], rows: Rows = _ALL
) -> Difference:
    """Compare open traces, one or several runs a side; see :func:`compare_runs`."""
    sides = [list(side) if isinstance(side, Sequence) else [side] for side in (before, after)]
    return compare_runs(*([runs.read(trace, rows) for trace in side] for side in sides))


def compare_runs(before: Sequence[ReducedRun], after: Sequence[ReducedRun]) -> Difference:
    """Compare runs per iteration of their steady state (as wholes where they have no loop in common).

    Tables:
        summary: iteration (or recording), slowest tenth, device busy, device idle, device time.
        kernel, role, stack, range, operator: device time per iteration by label; rows that changed first, then by size.
        tree: the common call tree, depth first: where in the program device time went up or down.
        sequence: stretches of the typical iteration that were added, removed or replaced.
        runs: every run with its time per iteration.
    """
    every = [*before, *after]
    design = Design.of([run.when for run in before], [run.when for run in after])
    loop = alignment.loop(every)
    time, count = [one.time for one in loop.values], [one.count for one in loop.values]
    tree = calltree.build(every, count, design.after)
    names = alignment.renamed(tree, every, time, design.after)
    groups = {name: alignment.labeled(every, name, names if name == "kernel" else None) for name in GROUPINGS}
    measures = _measures(loop)
    judged = rows.judge(rows.ComparedRows(
        {**{name: group.summed for name, group in groups.items()}, "tree": tree.totals},
        {"summary": np.array(list(measures.values()))}, "kernel", groups["kernel"].of, time, design,
    ))  # fmt: skip
    headline = None
    first = next(iter(measures.values()))
    if design.testable and (first > 0).all():
        headline = statistics.headline(np.log(first)[None], design)
    by_role = _shared(groups["kernel"], time, design) < SHARED
    made = tables.Maker(judged, count, design)
    found = {"summary": made.summary(list(measures), headline, loop)}
    found |= {name: made.labeled(name, group) for name, group in groups.items() if group.texts}
    found["tree"] = made.tree(tree)
    found["sequence"] = tables.sequence(every, loop, design, by_role=by_role, renamed=names)
    found["runs"] = tables.runs(every, loop, design)
    return answer.describe(
        Compared(every, design, loop, headline, judged, groups["kernel"].texts, found, by_role)
    )


def _measures(loop: ComparedLoop) -> dict[str, Column]:
    """Measures that all runs have: name → one value per run, ns."""
    names = [name for name in loop.values[0].measures if all(name in one.measures for one in loop.values)]
    return {name: np.array([one.measures[name] for one in loop.values]) for name in names}


def _shared(kernels: Labeled, time: Sequence[Column], design: Design) -> float:
    """The share of device time in kernels that both sides have; the smaller of the two shares, 1 without device work."""
    values = kernels.summed(time)
    sides = [values[:, mask].sum(axis=1) for mask in (~design.after, design.after)]
    if not all(side.sum() for side in sides):
        return 1.0
    both = (
        (sides[0] > 0)
        & (sides[1] > 0)
        & np.array([text not in ("copies", "fills") for text in kernels.texts])
    )
    # Kernels that were matched by their place have two names: names in common they are not.
    both &= np.array([" → " not in text for text in kernels.texts])
    return min(float(side[both].sum() / side.sum()) for side in sides)

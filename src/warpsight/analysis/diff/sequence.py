"""Two iterations aligned by the order of their kernels: what was added, removed and replaced, and which took whose place."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff.sides import Side

Column = npt.NDArray[Any]
#: Places of an iteration that are aligned; the alignment is quadratic in the worst case.
MOST = 6_000


@dataclass(frozen=True)
class Step:
    """One stretch of the alignment: what happened, the places on both sides, and their device time (ns)."""

    change: str
    before: tuple[int, int]
    after: tuple[int, int]
    time_before: int
    time_after: int


def typical(side: Side) -> Column:
    """Rows of work of the counted iteration whose length is the median, in order of issue."""
    if not side.loops:
        return np.arange(len(side.work))
    loop = max(side.loops, key=lambda one: int(one.steady.sum()))
    places = np.flatnonzero(loop.steady)
    middle = places[np.argsort(loop.duration[places], kind="stable")[len(places) // 2]]
    return loop.rows_of(int(middle))


def align(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    """Stretches (equal, replaced, removed, added) that turn one sequence into the other."""
    words = {"equal": "equal", "replace": "replaced", "delete": "removed", "insert": "added"}
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [(words[tag], a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes()]


def steps(before: Side, after: Side, grouping: str) -> tuple[list[Step], list[tuple[str, str, int]]]:
    """The alignment of the typical iterations by kernel or role, and pairs of kernels in the same place.

    Returns:
        Stretches that are not equal, and (kernel before, kernel after, times met) where labels agree and names do not.
    """
    labels, names, time = _labelled(before, typical(before), grouping)
    labels_after, names_after, time_after = _labelled(after, turned(before, after), grouping)
    out, pairs = [], Counter[tuple[str, str]]()
    for change, a, b, c, d in align(labels, labels_after):
        if change == "equal":
            pairs.update((x, y) for x, y in zip(names[a:b], names_after[c:d], strict=True) if x != y)
            continue
        out.append(Step(change, (a, b), (c, d), int(time[a:b].sum()), int(time_after[c:d].sum())))
    return out, [(x, y, n) for (x, y), n in pairs.most_common()]


def turned(before: Side, after: Side) -> Column:
    """The typical iteration of the second side, turned to begin where that of the first does.

    A loop that was found by its repetition has no beginning of its own: the longest stretch of roles that both share tells
    how far the one must be turned.
    """
    rows = typical(after)
    if not all(side.loops and side.loops[0].source.startswith("repetition") for side in (before, after)):
        return rows
    labels, _, _ = _labelled(before, typical(before), "role")
    other, _, _ = _labelled(after, rows, "role")
    if not labels or len(rows) > MOST:
        return rows
    double = other + other
    found = SequenceMatcher(None, labels, double, autojunk=False).find_longest_match(
        0, len(labels), 0, len(double)
    )
    return np.roll(rows, -((found.b - found.a) % len(rows)))


def _labelled(side: Side, rows: Column, grouping: str) -> tuple[list[str], list[str], Column]:
    rows = rows[:MOST]
    place, texts = side.labels(grouping)
    name, names = side.labels("kernel")
    return (
        [texts[i] for i in place[rows].tolist()],
        [names[i] for i in name[rows].tolist()],
        (side.work.end - side.work.start)[rows],
    )

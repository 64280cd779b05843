"""Rows of a comparison: for each kernel, stack, range or node of the call tree its time in every run, and whether it changed.

Each row is compared twice: by its *time*, and by its time *beside the rest* of the same run's device work. Whatever slows down
the whole machine (a clock, a neighbor) cancels out in the second comparison, so it shows changes of one kernel that noise would
otherwise hide. Kernels that were found to have changed are not part of the rest, so that the others are not blamed for their
smaller share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.diff import statistics
from warpsight.analysis.diff.design import LEVEL, Design
from warpsight.analysis.diff.statistics import Estimates

Column = npt.NDArray[Any]
#: Sums up one value per cell (an array per run) into one per row: rows × runs.
Summed = Callable[[Sequence[Column]], Column]
UNTESTED, NOT_SHOWN = "untested", "not shown"
SLOWER, FASTER, GREW, SHRANK, NEW, GONE = "slower", "faster", "grew", "shrank", "new", "gone"
#: Rows below this share of the device time on both sides are tested only if one side lacks them.
LEAST_SHARE = 0.005
#: If a row is 0 in some run, this share of the device time is added before taking logarithms.
_NOTHING = 0.001
#: The rest serves as a yardstick if it contains this share of the device time in every run.
_LEAST_REST = 0.05
#: Changed kernels are removed from the rest as long as this share of the device time remains.
_LEAST_LEFT = 0.1
#: Kernels that moved in opposite directions, each by at least this share of the other's change, may have one cause.
_NEARLY = 0.5
#: Minimum difference of two squared t values to prefer one of two explanations, since few runs make t large by chance.
_TELLING = 12.0
_PASSES = 12


@dataclass(frozen=True)
class Judged:
    """Tests and verdicts of the rows of each group.

    Attributes:
        values: For each group the time of each row in each run, ns.
        verdict: slower, faster (their time), grew, shrank (beside the rest), new, gone, not shown, or untested.
        time: Tests of times; None where the runs are too few to test.
        beside: Tests of times beside the rest; not finite where there is hardly any rest.
        changed: Rows of the group of kernels that are not part of the rest.
        ambiguous: Two rows of that group, either of which alone explains both changes.
    """

    values: Mapping[str, Column]
    verdict: Mapping[str, list[str]]
    time: Mapping[str, Estimates] | None = None
    beside: Mapping[str, Estimates] | None = None
    changed: tuple[int, ...] = ()
    ambiguous: tuple[int, int] | None = None


@dataclass(frozen=True)
class ComparedRows:
    """The rows to compare.

    Attributes:
        groups: Groups of device work: name → how cells are summed up to its rows.
        measures: Groups of other times: name → rows × runs, ns.
        kernels: Name of the group of kernels.
        kernel_of: For each run the row of that group that each cell belongs to.
        time: For each run the device time of each cell, ns.
        design: How the runs were taken.
    """

    groups: Mapping[str, Summed]
    measures: Mapping[str, Column]
    kernels: str
    kernel_of: Sequence[Column]
    time: Sequence[Column]
    design: Design

    def values(self) -> dict[str, Column]:
        """Times of all rows of all groups, ns."""
        return {**self.measures, **{name: summed(self.time) for name, summed in self.groups.items()}}


def judge(rows: ComparedRows) -> Judged:
    """Test all rows together and give each its verdict."""
    values = rows.values()
    if not rows.design.testable:
        return Judged(values, {name: _verdicts(one, rows.design, None, None) for name, one in values.items()})
    tests = _Tests(rows, values)
    changed: list[int] = []
    ambiguous = None
    time, beside = tests.run(changed)
    for _ in range(_PASSES):
        found = _most_changed(beside[rows.kernels], changed)
        if len(found) > 1:
            found = list(tests.cause(found, changed))
        if len(found) > 1:
            ambiguous = found[0], found[1]
        if len(found) != 1 or not tests.leaves_a_rest([*changed, *found]):
            break
        changed += found
        time, beside = tests.run(changed)
    verdicts = {
        name: _verdicts(times, rows.design, time[name], beside.get(name)) for name, times in values.items()
    }
    return Judged(values, verdicts, time, beside, tuple(changed), ambiguous)


def _most_changed(beside: Estimates, known: Sequence[int]) -> list[int]:
    """The kernel that changed most relative to the rest, and one that moved the other way by nearly as much."""
    called = np.flatnonzero(beside.called & ~np.isin(np.arange(len(beside.called)), known))
    if not len(called):
        return []
    size = np.abs(beside.change[called])
    most = int(called[size.argmax()])
    against = called[
        (np.sign(beside.change[called]) != np.sign(beside.change[most])) & (size >= _NEARLY * size.max())
    ]
    return [most, *against[:1].tolist()]


class _Tests:
    """All rows of a comparison as one family of tests."""

    def __init__(self, rows: ComparedRows, values: Mapping[str, Column]) -> None:
        self.rows, self.values = rows, values
        self.total = np.array([one.sum() for one in rows.time])
        self.nothing = _NOTHING * max(float(self.total.mean()), 1.0)
        self.logs = {name: self._logs(times, name in rows.groups) for name, times in values.items()}

    def _logs(self, times: Column, device: bool) -> Column:
        """Logarithms of the tested rows; NaN for the others."""
        zero = (times <= 0).any(axis=1)
        out: Column = np.log(np.maximum(times + np.where(zero, self.nothing, 0.0)[:, None], 1e-9))
        whole = self.total if device else np.maximum(times.max(axis=0), 1.0)
        after = self.rows.design.after
        share = times / np.maximum(whole, 1.0)
        large = np.maximum(share[:, after].mean(axis=1), share[:, ~after].mean(axis=1)) >= LEAST_SHARE
        out[~(large | _one_sided(times, after))] = np.nan
        return out

    def leaves_a_rest(self, changed: Sequence[int]) -> bool:
        """Whether enough work remains as a yardstick when some kernels are removed from it."""
        left = self.total - self._of(self.rows.groups[self.rows.kernels], changed).sum(axis=0)
        return bool((left >= _LEAST_LEFT * self.total).all())

    def cause(self, pair: Sequence[int], changed: Sequence[int]) -> Sequence[int]:
        """Of two kernels that moved in opposite directions, the one that explains the change; both if neither does.

        One explains the other when, with it out of the rest, the other is no longer called. Where that says nothing (there is no
        third kernel to compare with), the one whose own time stayed nearer to what it was is not the cause.
        """
        explains = [self._explains(one, other, changed) for one, other in (pair, pair[::-1])]
        if explains[0] != explains[1]:
            return pair[:1] if explains[0] else pair[1:]
        fit = statistics.sides(self.logs[self.rows.kernels][list(pair)], self.rows.design)[0]
        one, other = (float(t) ** 2 for t in fit.change / fit.error)
        return pair if abs(one - other) < _TELLING else pair[:1] if one > other else pair[1:]

    def _explains(self, one: int, other: int, changed: Sequence[int]) -> bool:
        if not self.leaves_a_rest([*changed, one]):
            return False
        _, beside = self.run([*changed, one])
        kernel = beside[self.rows.kernels]
        return bool(np.isfinite(kernel.low[other]) and not kernel.called[other])

    def _of(self, summed: Summed, changed: Sequence[int]) -> Column:
        """The part of each row that is work of the kernels that changed."""
        return summed([np.where(np.isin(kernel, changed), time, 0.0)
                       for kernel, time in zip(self.rows.kernel_of, self.rows.time, strict=True)])  # fmt: skip

    def _beside(self, name: str, changed: Sequence[int]) -> Column:
        """Logarithm of each row's time relative to the rest: all device work except the row and the kernels that changed."""
        summed = self.rows.groups[name]
        rest = self.total - self.values[name]
        if changed:
            out = self._of(self.rows.groups[self.rows.kernels], changed).sum(axis=0)
            rest = rest - out + self._of(summed, changed)
        enough: Column = np.all(rest >= _LEAST_REST * self.total, axis=1) & bool((self.total > 0).all())
        return np.where(enough[:, None], self.logs[name] - np.log(np.maximum(rest, 1e-9)), np.nan)

    def run(self, changed: Sequence[int]) -> tuple[dict[str, Estimates], dict[str, Estimates]]:
        """Test times, and times relative to the rest, by group."""
        beside = {name: self._beside(name, changed) for name in self.rows.groups}
        parts = [*self.logs.values(), *beside.values()]
        # Machine drift affects all times, but hardly the times relative to the rest.
        strict = sum(map(len, self.logs.values()))
        values = np.concatenate(parts)
        levels = np.where(np.arange(len(values)) < strict, statistics.HEADLINE, LEVEL)
        found = statistics.family(values, self.rows.design, levels)
        edges = np.cumsum([0, *map(len, parts)]).tolist()
        pieces = [found.part(first, last) for first, last in pairwise(edges)]
        return dict(zip(self.logs, pieces, strict=False)), dict(
            zip(beside, pieces[len(self.logs) :], strict=True)
        )


def _one_sided(times: Column, after: Column) -> Column:
    """Rows that every run of one side has and no run of the other has."""
    there = times > 0
    one, two = there[:, ~after], there[:, after]
    out: Column = np.all(one, axis=1) & ~np.any(two, axis=1) | np.all(two, axis=1) & ~np.any(one, axis=1)
    return out


def _verdicts(times: Column, design: Design, time: Estimates | None, beside: Estimates | None) -> list[str]:
    alone = _one_sided(times, design.after)
    appeared = times[:, design.after].sum(axis=1) > 0
    out = []
    for row, (only, new) in enumerate(zip(alone.tolist(), appeared.tolist(), strict=True)):
        slower = time is not None and bool(time.called[row])
        moved = beside is not None and bool(beside.called[row])
        if only and (time is None or slower or moved):
            out.append(NEW if new else GONE)
        elif time is None:
            out.append(UNTESTED)
        elif slower:
            out.append(SLOWER if time.change[row] > 0 else FASTER)
        elif beside is not None and moved:
            out.append(GREW if beside.change[row] > 0 else SHRANK)
        else:
            out.append(NOT_SHOWN)
    return out

"""Answers: runs compared."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from answers.described import described
from answers.machine import Finding


class Change(TypedDict):
    """Times are ns per iteration, the mean over the runs of a side; intervals hold 1 exactly where no change is called."""

    before: float
    after: float
    change: described(float, "after - before")
    ratio: described(float | None, "after / before; null where before is 0")
    low: described(float | None, "lower end of the ratio's interval; null where it was not tested")
    high: float | None
    beside: described(
        float | None,
        "the same ratio of the row's time to that of the rest of the same run's device work; null where there is no rest",
    )
    beside_low: float | None
    beside_high: float | None
    count_before: described(float, "kernels, copies and fills per iteration")
    count_after: float
    p: described(float | None, "the largest p of the tests that must agree; null where it was not tested")
    verdict: Literal["slower", "faster", "grew", "shrank", "new", "gone", "not shown", "untested"]


class ChangedRow(Change):
    name: str


class ChangedNode(Change):
    """A node of the common call tree; rows are in depth-first order."""

    node: described(int, "number of the node, its place in the table")
    parent: described(int, "number of its parent, -1 for the root")
    depth: int
    kind: described(str, "root, python, native, marker, range, op, kernel, copy, …")
    name: described(str, "one name, or `before → after` of two that were matched")
    match: described(
        Literal["both", "added", "removed", "replaced"],
        "replaced: the sides have different names at the same place, matched by role and order or by what they launch",
    )


class Stretch(TypedDict):
    change: Literal["added", "removed", "replaced"]
    place: int
    kernels_before: int
    kernels_after: int
    before: int
    after: int
    what_before: str | None
    what_after: str | None


class ComparedRun(TypedDict):
    side: Literal["before", "after"]
    path: str
    began: described(int | None, "ns since 1970")
    order: described(int | None, "rank by time among all runs")
    iterations: int | None
    kinds: described(int | None, "kinds of iterations, by the kernels they launch")
    time: described(float, "ns per iteration, or of the whole recording")
    machine: str


class ChangedTable(TypedDict):
    units: dict[str, str]
    rows: list[ChangedRow]


class ChangedTree(TypedDict):
    units: dict[str, str]
    rows: list[ChangedNode]


class Stretches(TypedDict):
    units: dict[str, str]
    rows: list[Stretch]


class ComparedRuns(TypedDict):
    units: dict[str, str]
    rows: list[ComparedRun]


class ChangedTables(TypedDict, total=False):
    summary: ChangedTable
    kernel: ChangedTable
    role: ChangedTable
    stack: ChangedTable
    range: ChangedTable
    operator: ChangedTable
    tree: ChangedTree
    sequence: Stretches
    runs: ComparedRuns


class Diff(TypedDict):
    before: described(list[str], "paths of the first side")
    after: described(list[str], "paths of the second side")
    headline: str
    verdict: Literal["slower", "faster", "changed", "not shown", "untested"]
    change: described(float | None, "relative change of the time of an iteration: 0.05 is 5% slower")
    low: described(float | None, "lower end of its 99% interval; null where it was not tested")
    high: float | None
    could_see: described(
        float | None, "the smallest change that would have been called in four of five such comparisons"
    )
    iteration: described(str, "what the program calls an iteration; else `iteration`, or `recording`")
    in_turn: described(bool, "the sides were taken in turn")
    runs: described(tuple[int, int], "number of runs of each side")
    tables: ChangedTables
    findings: list[Finding]

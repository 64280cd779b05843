"""The answer of a comparison: a verdict, one sentence, tables, and notes on how far to trust them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import TYPE_CHECKING, Any

from warpsight._display import Shown
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.diff import rows, sentences
from warpsight.analysis.diff.alignment import ComparedLoop
from warpsight.analysis.diff.design import Design
from warpsight.analysis.diff.rows import Judged
from warpsight.analysis.diff.runs import ReducedRun
from warpsight.analysis.diff.statistics import Estimates

if TYPE_CHECKING:
    import pyarrow as pa

SLOWER, FASTER, CHANGED, NOT_SHOWN, UNTESTED = (
    rows.SLOWER,
    rows.FASTER,
    "changed",
    rows.NOT_SHOWN,
    rows.UNTESTED,
)
#: Verdicts of rows whose time changed.
MOVED = (rows.SLOWER, rows.FASTER, rows.GREW, rows.SHRANK)
#: Verdicts of rows that call a change.
CALLED = (*MOVED, rows.NEW, rows.GONE)


@dataclass(frozen=True)
class Difference(Shown):
    """The result of a comparison. Changes are relative: 0.05 is 5% slower.

    Attributes:
        headline: One sentence.
        verdict: slower or faster: the time of an iteration changed beyond run-to-run noise. changed: only parts of it did. not
            shown: no difference beyond noise. untested: too few runs.
        result: Tables, and notes on how far to trust them.
        change: Change of the time of an iteration; None without device work.
        low: Lower end of its 99% interval; None where it was not tested.
        high: Upper end.
        could_see: The smallest change that would have been called in four of five such comparisons; None likewise.
        iteration: What the program calls an iteration; else "iteration", or "recording" where whole recordings were compared.
        runs: Number of runs of each side.
        in_turn: Whether the sides were taken in turn.
        by_role: The sides have hardly a kernel name in common.
        lost: What is missing from the traces: source, cause, count.
    """

    headline: str
    verdict: str
    result: Result
    change: float | None = None
    low: float | None = None
    high: float | None = None
    could_see: float | None = None
    iteration: str = "recording"
    runs: tuple[int, int] = (1, 1)
    in_turn: bool = False
    by_role: bool = False
    lost: tuple[tuple[str, str, int], ...] = field(default=(), repr=False)

    def facts(self) -> dict[str, Any]:
        """Everything except tables and notes, as plain data."""
        names = ("headline", "verdict", "change", "low", "high", "could_see", "iteration", "in_turn")
        return {**{name: getattr(self, name) for name in names}, "runs": list(self.runs)}

    def to_json(self) -> dict[str, Any]:
        """Plain data, as `warpsight diff --json` prints it."""
        return {**self.facts(), **self.result.to_json()}


@dataclass(frozen=True)
class Compared:
    """Everything a comparison measured and tested; `headline` has the test of an iteration, the least visible change (log)."""

    every: Sequence[ReducedRun]
    design: Design
    loop: ComparedLoop
    headline: tuple[Estimates, float] | None
    judged: Judged
    kernels: Sequence[str]
    tables: dict[str, pa.Table]
    by_role: bool


def describe(found: Compared) -> Difference:
    """Describe the result in words."""
    first = found.tables["summary"].slice(0, 1).to_pylist()[0]
    verdict, headline = _headline(found, first)
    change, low, high = (None if first[end] is None else first[end] - 1 for end in ("ratio", "low", "high"))
    could_see = None if found.headline is None else exp(min(found.headline[1], 50)) - 1
    result = Result(found.tables, tuple(_notes(found)))
    return Difference(headline, verdict, result, change, low, high, could_see, found.loop.name, found.design.counts,
                      found.design.in_turn, found.by_role, _lost(found.every))  # fmt: skip


def _headline(found: Compared, first: dict[str, Any]) -> tuple[str, str]:
    """The verdict and its sentence."""
    one, two = first["before"], first["after"]
    spans = sentences.spans(one, two, found.loop.name)
    if not one or not two:
        which = "the first side has" if two else "the second side has" if one else "neither side has any"
        return UNTESTED, f"{which} no device work: {spans}" if one or two else f"{which} device work"
    change = log(two / one)
    if found.headline is None:
        size = (
            f"is {sentences.percent(change)} {'slower' if change > 0 else 'faster'}"
            if change
            else "takes the same time"
        )
        return UNTESTED, f"{sentences.untested(found.design)}: the second {size}, {spans}"
    tested, needed = found.headline
    ends = float(tested.low[0]), float(tested.high[0])
    runs = sentences.runs_of(found.design)
    if tested.called[0]:
        text = f"{sentences.changed(change, *ends, '99%')}, beyond run-to-run noise: {spans}; {runs}"
        return (SLOWER if change > 0 else FASTER), text
    parts = _parts(found)
    text = f"{sentences.not_shown(change, *ends, needed, found.loop.name)}: {spans}; {runs}"
    return (CHANGED, f"{text}. But {parts}") if parts else (NOT_SHOWN, text)


def _parts(found: Compared) -> str:
    """The part that changed most; "" if no part changed.

    A function or range that has another name now is not a change of what the program does: the tree says where it went.
    """
    for name in ("role" if found.by_role else "kernel", "tree", "stack", "range", "operator", "summary"):
        counts = MOVED if name in ("stack", "range", "operator") else CALLED
        called = [row for row in _rows(found.tables, name) if row["verdict"] in counts]
        if called:
            return sentences.part(called[0], len(called) - 1, name)
    return ""


def _rows(tables: dict[str, pa.Table], name: str) -> list[dict[str, Any]]:
    return list(tables[name].to_pylist()) if name in tables else []


def _notes(found: Compared) -> Iterator[Finding]:
    yield from sentences.notes(found.design, found.every)
    if found.loop.note:
        yield Finding("note", found.loop.note)
    if found.by_role:
        text = (
            "the sides have hardly a kernel name in common: compare roles (matrix product, attention, …) and the call tree, "
            "where kernels in the same place are one row"
        )
        yield Finding("note", text)
    if found.judged.ambiguous is not None:
        up, down = (found.kernels[row] for row in found.judged.ambiguous)
        yield Finding(
            "note", f"{up} and {down} moved against each other: a change of either alone explains both"
        )
    if _all_alike(found):
        text = (
            "all kernels changed alike, which points to clocks, power limits or other programs on the machine rather "
            "than the program itself"
        )
        yield Finding("note", text)


def _all_alike(found: Compared) -> bool:
    """Whether device time changed without any kernel changing more than the others."""
    device = next((row for row in _rows(found.tables, "summary") if row["name"] == "device time"), None)
    moved = found.tables["kernel"].column("verdict").to_pylist() if "kernel" in found.tables else []
    beside = found.judged.beside
    return (
        device is not None and device["verdict"] in (SLOWER, FASTER) and beside is not None and len(moved) > 1
        and not beside["kernel"].called.any() and not {rows.NEW, rows.GONE} & set(moved)
    )  # fmt: skip


def _lost(every: Sequence[ReducedRun]) -> tuple[tuple[str, str, int], ...]:
    counts: dict[tuple[str, str], int] = {}
    for run in every:
        for source, cause, count in run.lost:
            counts[source, cause] = counts.get((source, cause), 0) + count
    ordered = sorted(counts.items(), key=lambda one: -one[1])
    return tuple((source, cause, count) for (source, cause), count in ordered)

"""Everything the report shows, from the analyses: two at a time where memory allows, each failing separately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpsight.analysis.base.result import Finding, Result, in_order
from warpsight.errors import WarpsightError
from warpsight.model.selection import Rows, begin_of
from warpsight.model.workers import workers

if TYPE_CHECKING:
    from warpsight.analysis.flame.graph import FlameGraph
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.analysis.stats.overview_series import OverviewSeries
    from warpsight.analysis.timeline.scene import Scene
    from warpsight.model import StoredTrace

_NONE = Result({})
#: Kernels and calls from which what needs as much memory as the account waits for it: together they would need more than 3 GB at
#: 20 million.
_LARGE = 10_000_000
_AFTER_THE_ACCOUNT = ("flame", "iterations", "scene")


@dataclass
class Material:
    """Results by section; `failed` has the sections whose analysis failed, with the reason."""

    begin: int
    contents: dict[str, Any] = field(default_factory=dict)
    lost: list[tuple[str, str, int]] = field(default_factory=list)
    verdict: Verdict | None = None
    account: Result = _NONE
    kernels: Result = _NONE
    copies: Result = _NONE
    gaps: Result = _NONE
    iterations: Result = _NONE
    flame: FlameGraph | None = None
    scene: Scene | None = None
    memory: list[OverviewSeries] = field(default_factory=list)
    counters: list[OverviewSeries] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The rules' findings, in reading order; without rules, those of the individual analyses. Each text appears once."""
        if self.verdict is not None:
            return self.verdict.findings
        found = [f for result in (self.account, self.gaps, self.iterations, self.kernels, self.copies)
                 for f in result.findings]  # fmt: skip
        return in_order(list({f.text: f for f in found}.values()))


def collect(trace: StoredTrace, rows: Rows) -> Material:
    """Run the analyses on two threads: DuckDB and NumPy release the GIL, so two cores stay busy.

    The memory that the analyses need besides the shared columns adds up. With a large trace (:data:`_LARGE`), those that need
    much begin when the account has been freed.
    """
    from warpsight.analysis.account.account import forget

    material = Material(begin_of(trace))
    every = questions()
    large = sum(trace.count(table) for table in ("kernel", "launch", "api")) > _LARGE
    groups = [tuple(every)]
    if large:
        groups = [tuple(name for name in every if name not in _AFTER_THE_ACCOUNT), _AFTER_THE_ACCOUNT]
    for group in groups:
        with workers(2, "report") as pool:
            jobs = {name: pool.submit(every[name], trace, rows) for name in group}
            for name, job in jobs.items():
                try:
                    setattr(material, name, job.result())
                except WarpsightError as error:
                    material.failed[name] = str(error)
        if large:
            forget(trace, rows)
    return material


def questions() -> dict[str, Callable[[StoredTrace, Rows], object]]:
    """Section → function that produces it; those that wait for the verdict's account come late."""
    from warpsight.analysis.account.questions import gaps, spans
    from warpsight.analysis.flame.graph import flame
    from warpsight.analysis.rules.verdict import verdict
    from warpsight.analysis.stats.contents import contents
    from warpsight.analysis.stats.overview_series import counters, memory
    from warpsight.analysis.stats.sums import stats
    from warpsight.analysis.steps.iterations import iterations
    from warpsight.analysis.timeline.scene import scene
    from warpsight.ui.render.loss import lost

    return {
        "verdict": verdict,
        "flame": flame,
        "kernels": lambda trace, rows: stats(trace, "kernels", rows),
        "memory": memory,
        "copies": lambda trace, rows: stats(trace, "copies", rows),
        "counters": counters,
        "contents": lambda trace, rows: contents(trace),
        "lost": lambda trace, rows: lost(trace),
        "account": spans,
        "gaps": lambda trace, rows: gaps(trace, rows, every=False),
        "iterations": iterations,
        "scene": scene,
    }

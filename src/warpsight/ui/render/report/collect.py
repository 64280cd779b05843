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
#: Kernels and calls from which analyses run one at a time: two at once would need more than 4 GB at 20 million.
_LARGE = 10_000_000


@dataclass
class Material:
    """Results by section; a section whose analysis could not answer is in `failed` with the reason."""

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
        """The rules' findings, in reading order; without rules, those of the single analyses. Each text once."""
        if self.verdict is not None:
            return self.verdict.findings
        found = [f for result in (self.account, self.gaps, self.iterations, self.kernels, self.copies)
                 for f in result.findings]  # fmt: skip
        return in_order(list({f.text: f for f in found}.values()))


def collect(trace: StoredTrace, rows: Rows) -> Material:
    """Run the analyses. DuckDB and NumPy let go of Python's lock, so two threads keep two cores busy.

    What each needs beside the shared columns adds up, so a large trace (:data:`_LARGE`) is asked one thing at a time, and
    the account is given up once those have it that need it.
    """
    from warpsight.analysis.account.account import forget

    material = Material(begin_of(trace))
    large = sum(trace.count(table) for table in ("kernel", "launch", "api")) > _LARGE
    with workers(1 if large else 2, "report") as pool:
        # What needs the account comes first, then the longest: nothing long is left alone at the end.
        jobs = {name: pool.submit(job, trace, rows) for name, job in _JOBS.items()}
        for name, job in jobs.items():
            try:
                setattr(material, name, job.result())
                if large and name == "gaps":
                    forget(trace, rows)
            except WarpsightError as error:
                material.failed[name] = str(error)
    return material


def _verdict(trace: StoredTrace, rows: Rows) -> Verdict:
    from warpsight.analysis.rules.verdict import verdict

    return verdict(trace, rows)


def _account(trace: StoredTrace, rows: Rows) -> Result:
    from warpsight.analysis.account.questions import spans

    return spans(trace, rows)


def _gaps(trace: StoredTrace, rows: Rows) -> Result:
    from warpsight.analysis.account.questions import gaps

    return gaps(trace, rows, every=False)


def _flame(trace: StoredTrace, rows: Rows) -> FlameGraph:
    from warpsight.analysis.flame.graph import flame

    return flame(trace, rows)


def _iterations(trace: StoredTrace, rows: Rows) -> Result:
    from warpsight.analysis.steps.iterations import iterations

    return iterations(trace, rows)


def _scene(trace: StoredTrace, rows: Rows) -> Scene:
    from warpsight.analysis.timeline.scene import scene

    return scene(trace, rows)


def _kernels(trace: StoredTrace, rows: Rows) -> Result:
    from warpsight.analysis.stats.sums import stats

    return stats(trace, "kernels", rows)


def _copies(trace: StoredTrace, rows: Rows) -> Result:
    from warpsight.analysis.stats.sums import stats

    return stats(trace, "copies", rows)


def _memory(trace: StoredTrace, rows: Rows) -> list[OverviewSeries]:
    from warpsight.analysis.stats.overview_series import memory

    return memory(trace, rows)


def _counters(trace: StoredTrace, rows: Rows) -> list[OverviewSeries]:
    from warpsight.analysis.stats.overview_series import counters

    return counters(trace, rows)


def _contents(trace: StoredTrace, rows: Rows) -> dict[str, Any]:
    from warpsight.analysis.stats.contents import contents

    return contents(trace)


def _lost(trace: StoredTrace, rows: Rows) -> list[tuple[str, str, int]]:
    from warpsight.ui.render.loss import lost

    return lost(trace)


#: What is collected → who answers it.
_JOBS: dict[str, Callable[[Any, Any], Any]] = {
    "verdict": _verdict,
    "account": _account,
    "gaps": _gaps,
    "iterations": _iterations,
    "flame": _flame,
    "scene": _scene,
    "kernels": _kernels,
    "copies": _copies,
    "memory": _memory,
    "counters": _counters,
    "contents": _contents,
    "lost": _lost,
}

"""The verdict: what a recording says, in a few words, before any table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import families
from warpsight.analysis.rules.facts import Facts
from warpsight.model import intervals
from warpsight.model.selection import Rows
from warpsight.model.work import KINDS

if TYPE_CHECKING:
    from warpsight.model import Trace

_ALL = Rows()
#: Without a finding that costs at least this share of the time, nothing is wrong that recording can tell.
_WORTH = 0.02


@dataclass(frozen=True)
class Verdict:
    """What to read first.

    Attributes:
        headline: One sentence: the cause to remove first, or that there is none.
        summary: One sentence about what the GPUs did meanwhile.
        window: Begin and end of the judged time, ns, and how it was chosen, in words.
        findings: All findings, the first to remove first.
    """

    headline: str
    summary: str
    window: tuple[int, int]
    chosen: str
    length: int
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "headline": self.headline, "summary": self.summary,
            "window": {"begin": self.window[0], "end": self.window[1], "chosen": self.chosen},
            "findings": [f.to_json() for f in self.findings],
        }  # fmt: skip


def verdict(trace: Trace, rows: Rows = _ALL) -> Verdict:
    """Judge a recording: run all rules and say what matters most."""
    facts = Facts(trace, rows)
    found = families.run(facts)
    return Verdict(
        _headline(facts, found), _summary(facts), facts.window, _chosen(facts), facts.length, found
    )


def _headline(facts: Facts, found: tuple[Finding, ...]) -> str:
    if not len(facts.work):
        if facts.work.unfinished:
            return f"no kernel finished: {facts.work.unfinished:,} were launched and never seen to run"
        return "no device work was recorded"
    causes = [f for f in found if f.severity in ("error", "warning") and f.rule]
    causes = [f for f in causes if f.severity == "error" or (f.cost_ns or 0) >= _WORTH * facts.length]
    if not causes:
        share = facts.share_busy()
        where = next(
            (f" in {words.duration(facts.length)}" for f in found if f.rule == "outside/device-unused"), ""
        )
        return f"nothing stands out{where}: the GPU was busy {share:.0%} of the time, and no rule finds much to save"
    first = causes[0]
    if first.severity == "error" or first.cost_ns is None:
        return first.text
    return f"{first.text} (costs up to {first.cost_ns / facts.length:.0%} of the time)"


def _chosen(facts: Facts) -> str:
    if facts.rows.begin is not None or facts.rows.end is not None:
        return "the time asked for"
    if facts.steady:
        one = max(facts.iterations, key=len)
        return f"steady state of {int(one.steady.sum()):,} iterations ({one.source})"
    return "from the first to the last device work"


def _summary(facts: Facts) -> str:
    work = facts.work
    if not len(work):
        return "nothing ran on a device"
    length = facts.length * max(len(facts.busy), 1)
    parts = []
    for kind, name in enumerate(KINDS):
        total = sum(
            intervals.clipped(work.of_kind(kind, among=index), *facts.window).total
            for _, index in work.per_device()
        )
        if total * 200 >= length:
            plural = {
                "kernel": "kernels",
                "communication": "communication",
                "copy": "copies",
                "set": "fills",
            }[name]
            parts.append(f"{plural} {total / length:.0%}")
    count = len(facts.busy)
    who = "the GPU was" if count == 1 else f"{count} GPUs were"
    detail = f": {', '.join(parts)}" if parts else ""
    return f"{who} busy {facts.share_busy():.0%} of {words.duration(facts.length)}{detail}; judged: {_chosen(facts)}"

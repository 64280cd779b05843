"""The verdict: what a recording says, in a few words, before any table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.analysis.account import Account
from warpsight.analysis.account.classes import CLASSES, IDLE
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import families
from warpsight.analysis.rules.facts import Facts
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import Trace

_ALL = Rows()
#: A change is named in the headline when it saves this share of the span.
_WORTH = 0.05


@dataclass(frozen=True)
class Loop:
    """The iterations of the main loop.

    Attributes:
        count: How many there are.
        median_ns: The middle of their lengths, ns.
        source: How they were found, in words.
        steady: Begin and end of the steady state on the device, ns; None without one.
        steady_count: Iterations in it.
        busy: Share of the steady state in which the devices worked, 0 to 1.
    """

    count: int
    median_ns: int
    source: str
    steady: tuple[int, int] | None
    steady_count: int
    busy: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        out: dict[str, Any] = {"count": self.count, "median_ns": self.median_ns, "source": self.source}
        if self.steady is not None:
            out["steady"] = {
                "begin": self.steady[0],
                "end": self.steady[1],
                "count": self.steady_count,
                "busy": self.busy,
            }
        return out


@dataclass(frozen=True)
class Verdict:
    """What to read first.

    Attributes:
        headline: One sentence: what breaks the program, or what most of the time goes into, and the change that saves most.
        summary: One sentence about how the devices' time divides.
        window: Begin and end of the judged time, ns.
        chosen: How that was chosen, in words.
        length: Its length, ns.
        account: Every nanosecond of every device in it, by class and name.
        iterations: The main loop, None where there is none.
        findings: All findings in reading order.
    """

    headline: str
    summary: str
    window: tuple[int, int]
    chosen: str
    length: int
    account: Account
    iterations: Loop | None
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "headline": self.headline, "summary": self.summary,
            "window": {"begin": self.window[0], "end": self.window[1], "chosen": self.chosen},
            "account": self.account.to_json(),
            "iterations": None if self.iterations is None else self.iterations.to_json(),
            "findings": [f.to_json() for f in self.findings],
        }  # fmt: skip


def verdict(trace: Trace, rows: Rows = _ALL) -> Verdict:
    """Judge a recording: account for its time, run all rules and say what matters most."""
    facts = Facts(trace, rows)
    found = families.run(facts)
    loop = _loop(facts)
    asked = rows.begin is not None or rows.end is not None
    chosen = "the time asked for" if asked else "from the first to the last device work"
    return Verdict(
        _headline(facts, found), _summary(facts, loop), facts.window, chosen, facts.length, facts.account, loop, found
    )  # fmt: skip


def _loop(facts: Facts) -> Loop | None:
    if not facts.iterations:
        return None
    one: Iterations = max(facts.iterations, key=lambda one: (len(one), -one.process))
    steady = one.window() if int(one.steady.sum()) > 1 else None
    busy = facts.share_busy(*steady) if steady else 0.0
    return Loop(len(one), one.median, one.source, steady, int(one.steady.sum()), busy)


def _headline(facts: Facts, found: tuple[Finding, ...]) -> str:
    if not len(facts.work):
        if facts.work.unfinished:
            return f"no kernel finished: {facts.work.unfinished:,} were launched and never seen to run"
        return "no device work was recorded"
    errors = [f for f in found if f.severity == "error"]
    shares = [f for f in found if f.kind is not None]
    levers = [f for f in found if f.kind is None and (f.saves_ns or 0) >= _WORTH * facts.length]
    parts = [f.text for f in (*errors[:1], *shares[:1])]
    if levers:
        parts.append(
            f"{levers[0].text} (up to {(levers[0].saves_ns or 0) / facts.length:.0%} less time without it)"
        )
    return "; ".join(parts)


def _summary(facts: Facts, loop: Loop | None) -> str:
    account = facts.account
    if not account.span:
        return "nothing ran on a device"
    count = len(account.devices)
    who = "the GPU was" if count == 1 else f"{count} GPUs were"
    worked = [
        f"{_NOUNS[kind]} {account.share(kind):.0%}" for kind in range(3) if account.share(kind) >= 0.005
    ]
    idle = [f"{_NOUNS[kind]} {account.share(kind):.0%}" for kind in IDLE if account.share(kind) >= 0.005]
    text = f"{who} busy {1 - account.share(*IDLE):.0%} of {words.duration(account.span / max(count, 1))}"
    text += f" ({', '.join(worked)})" if worked else ""
    text += f"; idle: {', '.join(idle)}" if idle else ""
    if loop is not None and loop.steady is not None:
        share = (loop.steady[1] - loop.steady[0]) / facts.length
        text += (
            f"; the steady state of {loop.steady_count:,} iterations ({loop.source}) is {min(share, 1):.0%} of that, idle for "
            f"{1 - loop.busy:.0%}"
        )
    return text


_NOUNS = dict(
    enumerate(
        (
            "kernels", "communication", "copies", "launching", "blocking calls", "host code", "other streams", "the recorder",
            "unexplained",
        )
    )
)  # fmt: skip
assert len(_NOUNS) == len(CLASSES)

"""The verdict: a recording summed up in a few words, before any table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from warpsight.analysis.account import AccountSummary
from warpsight.analysis.account.classes import IDLE
from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import families, shares
from warpsight.analysis.rules.base.facts import Facts
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
#: Minimum share of the span that a change must save to be named in the headline.
_WORTH = 0.05
#: If the steady state has this share of the span, its account equals that of the span.
_NEARLY_ALL = 0.9
#: Spans of devices are similar if the longest is at most this many times the shortest.
_LIKE = 1.1
#: What a trace of a program without device work may hold.
_OF_THE_HOST = (
    ("launch", "launch", "launches"), ("api", "call", "calls"), ("op", "operator", "operators"),
    ("marker", "range", "ranges"), ("sample", "sample", "samples"),
)  # fmt: skip


@dataclass(frozen=True)
class MainLoop:
    """The iterations of the main loop.

    Attributes:
        count: How many there are.
        median_ns: The middle of their lengths, ns.
        source: How they were found, in words.
        steady: Begin and end of the steady state on the device, ns; None without one.
        steady_count: Iterations in it.
        busy: Share of the steady state in which the devices worked, 0 to 1.
        first: The largest share of the account of the steady state, where that is not the largest of the whole time.
    """

    count: int
    median_ns: int
    source: str
    steady: tuple[int, int] | None
    steady_count: int
    busy: float
    first: Finding | None = None

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
            if self.first is not None:
                out["steady"]["first"] = self.first.to_json()
        return out


@dataclass(frozen=True)
class Verdict:
    """What to read first.

    Attributes:
        headline: One sentence: what breaks the program, or what most of the time goes into, and the change that saves most.
        summary: One sentence: how busy the devices were, in all and in the main loop.
        window: Begin and end of the judged time, ns.
        chosen: How that was chosen, in words.
        length: Its length, ns.
        account: Every nanosecond of every device in it, by class and name.
        iterations: The main loop, or None.
        findings: All findings in reading order.
        leading: Those that the headline is made of.
    """

    headline: str
    summary: str
    window: tuple[int, int]
    chosen: str
    length: int
    account: AccountSummary
    iterations: MainLoop | None
    findings: tuple[Finding, ...]
    leading: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "headline": self.headline, "summary": self.summary,
            "window": {"begin": self.window[0], "end": self.window[1], "chosen": self.chosen},
            "account": self.account.to_json(),
            "iterations": None if self.iterations is None else self.iterations.to_json(),
            "findings": [f.to_json() for f in self.findings],
        }  # fmt: skip


def verdict(trace: StoredTrace, rows: Rows = _ALL) -> Verdict:
    """Judge a recording: account for its time, run all rules and say what matters most."""
    facts = Facts(trace, rows)
    found = families.run(facts)
    loop = _loop(facts, found)
    asked = rows.begin is not None or rows.end is not None
    chosen = "the requested time" if asked else "from the first to the last device work"
    leading = _leading(facts, found)
    return Verdict(
        _headline(facts, leading), _summary(facts, loop), facts.window, chosen, facts.length, facts.account.summary, loop,
        found, leading,
    )  # fmt: skip


def _loop(facts: Facts, found: tuple[Finding, ...]) -> MainLoop | None:
    if not facts.iterations:
        return None
    one: Iterations = max(facts.iterations, key=lambda one: (len(one), -one.process))
    steady = one.window() if int(one.steady.sum()) > 1 else None
    busy = facts.share_busy(*steady) if steady else 0.0
    first = _first_of(facts, steady, found) if steady else None
    return MainLoop(len(one), one.median, one.source, steady, int(one.steady.sum()), busy, first)


def _first_of(facts: Facts, steady: tuple[int, int], found: tuple[Finding, ...]) -> Finding | None:
    """The largest share of the steady state, None if it is also the largest of the whole time."""
    if steady[1] - steady[0] >= _NEARLY_ALL * facts.length:
        return None
    inside = Facts(facts.trace, replace(facts.rows, begin=steady[0], end=steady[1]))
    first = shares.largest(inside)
    whole = next((one for one in found if one.kind is not None), None)
    same = first is not None and whole is not None and (first.kind, first.name) == (whole.kind, whole.name)
    return None if same else first


def _leading(facts: Facts, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The first error, the largest share of the account, and the change that saves most, if it is large enough."""
    errors = [f for f in found if f.severity == "error"]
    shares = [f for f in found if f.kind is not None]
    levers = [f for f in found if f.kind is None and (f.saves_ns or 0) >= _WORTH * facts.length]
    return (*errors[:1], *shares[:1], *(lever for lever in levers[:1] if lever not in errors[:1]))


def _headline(facts: Facts, leading: tuple[Finding, ...]) -> str:
    if not len(facts.work):
        if facts.work.unfinished:
            launched = words.counted(facts.work.unfinished, "was", "were")
            return f"no kernel finished: {launched} launched but never seen running"
        return "no device work was recorded"
    if not facts.account.span:
        return f"none of the {len(facts.work):,} recorded kernels, copies and fills has a duration"
    parts = [
        f.text if f.kind is not None or not f.saves_ns
        else f"{f.text} (up to {f.saves_ns / facts.length:.0%} less time without it)" for f in leading
    ]  # fmt: skip
    return "; ".join(parts)


def _summary(facts: Facts, loop: MainLoop | None) -> str:
    account = facts.account
    if not account.span:
        return _without_device(facts)
    count = len(account.devices)
    who = "the GPU was" if count == 1 else f"{count} GPUs were"
    text = f"{who} busy {words.percent(1 - account.share(*IDLE))} of {_spans([one['span'] for one in account.devices.values()])}"
    if loop is None:
        return text
    found = f"of {words.duration(loop.median_ns)} ({loop.source})"
    if loop.steady is None:
        return f"{text}; {words.counted(loop.count, 'iteration', 'iterations')} {found}"
    some = f"{loop.steady_count:,} of {loop.count:,}" if loop.steady_count < loop.count else f"{loop.count:,}"
    text = f"{text}, and {words.percent(loop.busy)} of the loop's steady state: {some} iterations {found}"
    return text if loop.first is None else f"{text}; in the steady state {loop.first.text}"


def _spans(spans: list[int]) -> str:
    """The length of the devices' spans: a single value if they are similar."""
    least, most, mean = min(spans), max(spans), words.duration(sum(spans) / len(spans))
    if len(spans) == 1:
        return mean
    if most <= _LIKE * least:
        return f"{mean} each"
    return f"their time, {words.duration(least)} to {words.duration(most)} from first to last work"


def _without_device(facts: Facts) -> str:
    """What a trace without device work holds instead, which distinguishes a program without any from an incomplete recording."""
    if len(facts.work) or facts.work.unfinished:
        return "no time of a device is known"
    held = ((facts.trace.count(table), one, several) for table, one, several in _OF_THE_HOST)
    told = [words.counted(count, one, several) for count, one, several in held if count]
    if not told:
        return "the trace holds neither device work nor host work"
    listed = f"{', '.join(told[:-1])} and {told[-1]}" if told[1:] else told[0]
    # Ranges may be on any track: the trace does not say whose they are.
    alone = len(told) == 1 and facts.trace.count("marker")
    whose = ", on tracks not marked as a device's" if alone else " of the host"
    return f"the trace holds {listed}{whose}, and no kernel, copy or fill"

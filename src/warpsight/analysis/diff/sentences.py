"""The wording of a comparison: the headline, and notes on how far to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from typing import Any

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.diff.design import ADVISED, LEVEL, Design
from warpsight.analysis.diff.runs import ReducedRun

_HOW_MANY = ("no", "one", "two", "three", "four")


def percent(change: float) -> str:
    """A relative change given as a difference of logarithms: `5.1%`, without its sign."""
    size = abs(exp(change) - 1) * 100
    return f"{size:.2f}%" if size < 0.0995 else f"{size:.1f}%" if size < 99.95 else f"{size:,.0f}%"


def interval(low: float, high: float, *, signed: bool) -> str:
    """`3.9 to 6.2%`, signed `−1.1 to +1.9%`."""
    ends = []
    for end in (low, high):
        value = (exp(end) - 1) * 100
        sign = ("+" if value > 0 else "−" if value < 0 else "") if signed else ""
        ends.append(f"{sign}{abs(value):.1f}")
    return f"{ends[0]} to {ends[1]}%"


def changed(change: float, low: float, high: float, level: str) -> str:
    """`slower by 5.1% (99%: 3.9 to 6.2%)`."""
    way = "slower" if change > 0 else "faster"
    near, far = sorted((low, high), key=lambda end: abs(exp(end) - 1))
    return f"{way} by {percent(change)} ({level}: {interval(near, far, signed=False)})"


def not_shown(change: float, low: float, high: float, needed: float, loop: str) -> str:
    """`no difference shown in the time per step: +0.4% (99%: −1.1 to +1.9%), could have seen 2.3%`."""
    sign = "+" if change > 0 else "−"
    seen = (
        f"could have seen {percent(needed)}"
        if needed < 3
        else "only a change by several times could have been seen"
    )
    where = "of the recording" if loop == "recording" else f"per {loop}"
    size = f"{sign}{percent(change)} (99%: {interval(low, high, signed=True)})"
    return f"no difference shown in the time {where}: {size}, {seen}"


def part(row: dict[str, Any], more: int, table: str) -> str:
    """`attend grew by 30.2% (95%: 26.1 to 34.5%) beside the rest of the device work, and 2 more`."""
    name, verdict = row["name"], row["verdict"]
    rest = f", and {more} more row{'s' if more > 1 else ''} by {table} changed" if more else ""
    if verdict in ("new", "gone"):
        return f"{name} is {verdict}{rest}"
    time = verdict in ("slower", "faster")
    ends = [
        row[key] for key in (("ratio", "low", "high") if time else ("beside", "beside_low", "beside_high"))
    ]
    change, low, high = (log(end) if end else 0.0 for end in ends)
    near, far = sorted((low, high), key=lambda end: abs(exp(end) - 1))
    size = f"{percent(change)} (95%: {interval(near, far, signed=False)})"
    if time:
        return f"{name} is {verdict} by {size}{rest}"
    return f"{name} {verdict} by {size} beside the rest of the device work{rest}"


def spans(one: float, two: float, loop: str) -> str:
    """`1.23 ms → 1.29 ms per step`."""
    what = "from the first to the last device work" if loop == "recording" else f"per {loop}"
    return f"{words.duration(one)} → {words.duration(two)} {what}"


def runs_of(design: Design) -> str:
    """`5 and 5 runs, taken in turn`."""
    one, two = design.counts
    how = (
        ", taken in turn"
        if design.in_turn
        else ", one side after the other"
        if design.timed and design.apart
        else ""
    )
    return f"{one} and {two} runs{how}"


def untested(design: Design) -> str:
    """The reason why no test was made."""
    one, two = design.counts
    if one == two == 1:
        return "not tested against run-to-run noise, with one run per side"
    return (
        f"not tested against run-to-run noise: with {_number(one)} and {_number(two)} runs an exact test cannot get below "
        f"p = {design.smallest_p:.2f}"
    )


def _number(count: int) -> str:
    return _HOW_MANY[count] if count < len(_HOW_MANY) else str(count)


def notes(design: Design, runs: Sequence[ReducedRun]) -> Iterator[Finding]:
    """Notes on how the runs were recorded."""
    one, two = design.counts
    least = min(one, two)
    if not design.testable:
        text = f"a test needs four runs per side, better {_number_of_runs()}; taken in turn, A B A B …"
        yield Finding("note", text, {"runs": [one, two], "smallest_p": design.smallest_p})
    elif least < ADVISED:
        text = (
            f"with {_number(one)} and {_number(two)} runs the smallest p of an exact test is {design.smallest_p:.3f}, so a "
            f"single outlier can hide a change of a row; five per side reach {Design.of([None] * 5, [None] * 5).smallest_p:.3f}"
        )
        yield Finding("note", text, {"runs": [one, two], "smallest_p": design.smallest_p, "level": LEVEL})
    if design.testable and not design.timed:
        text = (
            "the traces do not say when they were recorded, so they are treated as recorded one after another, in "
            "the order given"
        )
        yield Finding("note", text)
    elif design.testable and not design.in_turn:
        text = (
            "the sides were not taken in turn: allowing for a steady drift, a change must be about "
            "twice as large to be seen; anything else that changed between the sides would look like a change"
        )
        yield Finding("note", text)
    machines = [{run.machine for run, second in zip(runs, design.after.tolist(), strict=True) if second == side}
                for side in (False, True)]  # fmt: skip
    if machines[0] != machines[1]:
        text = f"the sides were recorded on different machines: {_listed(machines[0])}, and {_listed(machines[1])}"
        yield Finding("note", text)


def _number_of_runs() -> str:
    return "five" if ADVISED == 5 else str(ADVISED)


def _listed(texts: set[str]) -> str:
    return "; ".join(sorted(text or "unknown" for text in texts))

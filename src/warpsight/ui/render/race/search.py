"""The results of `race stress` and `race reduce` as text and JSON, and their progress."""

from __future__ import annotations

import sys
import time

from warpsight.race import stressing
from warpsight.race.oracle import RunOutcome
from warpsight.race.search import reduction
from warpsight.ui.render import terminal

_EVERY_S = 10.0


class SearchProgress:
    """Shows an experiment's progress: on one line of a terminal, else every ten seconds."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._said = time.monotonic()

    def __call__(self, state: stressing.State) -> None:
        """Called after each run."""
        now = time.monotonic()
        if terminal.verbosity() < 0 or now - self._said < (0.2 if self._terminal else _EVERY_S):
            return
        self._said = now
        text = (
            f"{len(state.ended)} runs: {_failed(state.control)} without {state.cause}, {_failed(state.delayed)} with; "
            f"{_duration(state.seconds_left)} left at most"
        )
        if self._terminal:
            sys.stderr.write(f"\r{text}\033[K")
            sys.stderr.flush()
        else:
            terminal.note(text)


def searched(what: str, runs: int, outcome: RunOutcome) -> None:
    """Show a search's progress occasionally."""
    if sys.stderr.isatty() and terminal.verbosity() >= 0:
        sys.stderr.write(f"\r{_NAMES[what]}: run {runs}, {outcome.kind}\033[K")
        sys.stderr.flush()
    elif runs % 20 == 0:
        terminal.note(f"{_NAMES[what]}: {runs} runs")


_NAMES = {"points": "points", "delay_ns": "longest delay", "warps": "warps", "ctas": "CTAs"}


def stress(result: stressing.StressResult) -> str:
    """The verdict with its evidence."""
    _clear_line()
    headline = f"{result.verdict.capitalize()}: {result.why}"
    headline += f" ({result.example})" if result.verdict == "reproduced" else ""
    lines = [headline, f"  {'without ' + result.cause:<21} {_failed(result.control)}"]
    for ceiling, arm in result.ceilings.items():
        lines.append(f"  up to {_duration(ceiling / 1e9):<15} {_failed(arm)}")
    classes = ", ".join(f"{count} {kind}" for kind, count in sorted(result.outcomes.items()))
    lines.append(f"  runs                  {classes or 'none'}, in {_duration(result.seconds)}")
    if result.verdict == "not reproduced" and result.delayed.trials:
        lines.append(
            f"  bound                 runs with {result.cause} fail in less than {_percent(result.rate_below)} "
            f"(confidence {result.confidence:g})"
        )
    else:
        lines.append(f"  evidence              {result.evidence:.3g} for {result.cause}, {result.evidence_natural:.3g} against; "
                     f"{1 / (1 - result.confidence):.3g} decides")  # fmt: skip
    if result.plan:
        lines.append(f"  plan                  {result.plan}")
        verb = "replay" if result.cause == "memory stress" else "reduce"  # memory stress has no points
        lines.append(f"  next                  warpsight race {verb} {result.plan} -- PROGRAM")
    return "\n".join(lines) + "\n"


def reduce(result: reduction.ReduceResult) -> str:
    """The points with their source lines, and the rest of the plan."""
    _clear_line()
    if result.verdict == "natural":
        return f"Natural: it fails without any delay, in {result.runs} runs\n"
    if result.verdict == "not reproduced":
        return f"Not reproduced: the plan did not make it fail in {result.runs} runs\n"
    first = result.steps[0]
    lines = [
        f"{first.after} of {first.before} points make it fail, in {_percent(result.rate)} of runs "
        f"(confidence {first.confidence:g})"
    ]
    for point in result.points:
        lines.append(f"  {point.opcode or point.kind} in {point.kernel} at {point.pc:#x}")
        lines += [f"    {'inlined at ' if depth else ''}{place}" for depth, place in enumerate(point.source)]
    for step in result.steps[1:]:
        if step.what == "delay_ns":
            lines.append(
                f"  longest delay      {_duration(step.after / 1e9)} of {_duration(step.before / 1e9)}"
            )
        else:
            lines.append(
                f"  {_NAMES[step.what]:<18} {step.after} of {step.before}: {_where(result, step.what)}"
            )
    searches = ", ".join(f"{_NAMES[step.what]} {step.runs}" for step in result.steps)
    lines += [f"  runs               {result.runs} ({searches})", f"  plan               {result.plan}"]
    lines.append(f"  next               warpsight race replay {result.plan} -- PROGRAM")
    return "\n".join(lines) + "\n"


def _where(result: reduction.ReduceResult, what: str) -> str:
    if what == "warps":
        return ", ".join(map(str, result.where.warps or ()))
    return ", ".join(
        f"{low}" if high == low + 1 else f"{low}–{high - 1}" for low, high in result.where.ctas or ()
    )


def _clear_line() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")


def _failed(arm: stressing.Arm) -> str:
    return f"{arm.failures} of {arm.trials} {'trials ' if arm.trials > arm.runs else ''}failed"


def _percent(rate: float) -> str:
    return f"{100 * rate:.2g}%"


def _duration(seconds: float) -> str:
    if seconds == float("inf"):
        return "unknown time"
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    if seconds >= 1:
        return f"{seconds:.3g} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds * 1e6:.3g} µs"

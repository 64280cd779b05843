"""A re-timed recording for a terminal: the step before and after, then the kernels that changed."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from warpsight.ui.render import numbers, tables

if TYPE_CHECKING:
    from warpsight.simulate.simulation import Simulated


def show(found: Simulated, stream: IO[str], top: int | None = 10) -> None:
    """Print the answer in one sentence, and the kernels whose times changed."""
    stream.write(headline(found) + "\n")
    kernels = found.result.tables["kernels"]
    if len(kernels):
        stream.write("\n")
        tables.show(kernels, top=top, title="kernels that changed", stream=stream)


def headline(found: Simulated) -> str:
    """The predicted step, the change, and the bounds."""
    step = found.step
    what = f"mean of {step.count} steps" if step.count else "the whole recording"
    before, after, low, high = (
        numbers.duration(round(time)) for time in (step.recorded, step.predicted, step.low, step.high)
    )
    if not found.changes:
        return f"Re-timed without a change: {after} ({what}; recorded {before})."
    change = step.predicted - step.recorded
    share = 100 * change / step.recorded if step.recorded else 0.0
    return f"{before} → {after} ({share:+.1f}%; between {low} and {high}; {what})"

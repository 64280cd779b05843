"""Measures replays under changed schedules, for comparison with the prediction of `simulate`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from warpsight.replay import execution, script
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.layout import NONE
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.outcome import FAILED, Changed, Files, version
from warpsight.replay.results import ReplayResults
from warpsight.replay.schedules import pace, prediction, schedule
from warpsight.replay.schedules.sequence import OperationSequence as Steps
from warpsight.replay.script import ScriptSettings
from warpsight.simulate.graphs import USUAL_GAP

#: ns that a kernel is taken to need at least.
_LEAST = 500
_ROUNDS = 40


def measure(
    capsule: Capsule,
    steps: Steps,
    settings: ScriptSettings,
    base: ReplayResults,
    changes: Sequence[str],
    timeout: float | None,
) -> tuple[Changed, ...]:
    """Replay with each change alone. `base`: the replay without changes, with the host's times.

    Raises:
        UsageError: when a change cannot be made.
    """
    made = [schedule.changed(capsule.manifest, steps, text) for text in changes]
    took = median(base.totals.values())
    gap = _gap(steps, base, settings, timeout) if any(one.flags & script.GRAPH for one in made) else 0
    lengths = _lengths(steps, base, took, gap) if any(one.predictable for one in made) else []
    found = []
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as temporary:
        for number, one in enumerate(made):
            folder = Path(temporary, str(number))
            folder.mkdir()
            predicted = None
            if one.predictable:
                ratio = prediction.predicted(
                    capsule.manifest, steps, lengths, base.issued, one.text, Path(temporary), gap
                )
                predicted = took * ratio
            found.append(_measured(capsule, one, settings, predicted, folder, timeout))
    return tuple(found)


def _measured(
    capsule: Capsule, one: schedule.Schedule, settings: ScriptSettings, predicted: float | None, folder: Path,
    timeout: float | None,
) -> Changed:  # fmt: skip
    plain = ScriptSettings(settings.runs, 0, one.flags, settings.device)
    written = script.write(capsule, one.steps, plain, folder)
    found = execution.run(written, folder, timeout=timeout)
    if found.failure is not None:
        return Changed(one.text, FAILED, None, None, predicted)
    compared = one.steps.complete and any(piece["after"] != NONE for piece in written.pieces)
    files = Files(capsule.manifest, written, folder)
    verdict = version(files, found, 0, one.text, None, compared).verdict
    totals = list(found.totals.values())
    for path in folder.iterdir():
        path.unlink()
    return Changed(one.text, verdict, median(totals), min(totals), predicted)


def _raw(steps: Steps, base: ReplayResults) -> list[float]:
    """The time between the events around each step, ns."""
    measured: dict[int, list[float]] = {}
    for (_, _, step), (begin, end) in base.times.items():
        measured.setdefault(step, []).append(end - begin)
    return [median(measured[i]) for i in range(steps.first, len(steps.steps))]


def _gap(steps: Steps, base: ReplayResults, settings: ScriptSettings, timeout: float | None) -> int:
    """The time between two kernels of a stream, ns: the value `simulate` uses for graphs, and what a graph saves of it here."""
    timed = zip(steps.steps[steps.first :], _raw(steps, base), strict=True)
    kernels = [(step.work, length) for step, length in timed if isinstance(step.work, m.Launch)]
    launches, lengths = [one for one, _ in kernels], [length for _, length in kernels]
    return USUAL_GAP + pace.sooner_in_a_graph(launches, lengths, settings.device, timeout)


def _lengths(steps: Steps, base: ReplayResults, took: float, gap: int) -> list[int]:
    """The duration of each step on the device, ns: shorter than between its events, by the amount that makes the total fit."""
    raw = _raw(steps, base)

    def lengths(less: float) -> list[int]:
        return [max(_LEAST, round(length - less)) for length in raw]

    less = _solved(
        lambda less: prediction.makespan(steps, lengths(less), base.issued, gap), took, max(raw, default=0)
    )
    return lengths(less)


def _solved(span: Callable[[float], float], wanted: float, most: float) -> float:
    """The argument at which a falling function takes a value."""
    low, high = 0.0, most
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if span(middle) > wanted else (low, middle)
    return low

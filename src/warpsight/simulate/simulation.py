"""Re-times a recording with what-ifs: how long its steps would have taken, and with what certainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpsight._display import Shown
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.program import Program
from warpsight.analysis.retime.solving import Times, solve
from warpsight.analysis.steps import iterations
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.selection import Rows
from warpsight.simulate import changes, contention, steps
from warpsight.simulate.calibration import calibrated
from warpsight.simulate.change import Change, parse

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

_ALL = Rows()
#: Half of a 95% confidence interval in standard errors.
_CONFIDENCE = 1.96


@dataclass(frozen=True)
class _StepTime:
    """A step's mean time, ns.

    Attributes:
        recorded: As recorded.
        predicted: After the changes.
        low: The least that the assumptions and the spread of the steps allow.
        high: The most.
        count: Steps that it is the mean of; 0: no iterations were found, and all of it is one step.
    """

    recorded: float
    predicted: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Simulated(Shown):
    """A recording, re-timed.

    Attributes:
        changes: The what-ifs.
        step: The step's time.
        recorded_ns: Length of the recording.
        predicted_ns: Length of the re-timed one.
        unexplained_ns: Delays of device work that the model cannot explain; they stay as recorded.
        program: The changed program.
        times: When everything happens in it.
        result: Tables `summary`, `steps` and `kernels`, and notes.
    """

    changes: tuple[Change, ...]
    step: _StepTime
    recorded_ns: int
    predicted_ns: int
    unexplained_ns: int
    program: Program
    times: Times
    result: Result

    def to_json(self) -> dict[str, Any]:
        """Plain data, times in ns."""
        return {
            "what": [change.text for change in self.changes],
            "step": dict(vars(self.step)),
            "recorded": self.recorded_ns,
            "predicted": self.predicted_ns,
            "unexplained": self.unexplained_ns,
            **self.result.to_json(),
        }


def simulate(
    trace: StoredTrace, what: Sequence[str], rows: Rows = _ALL, step_ns: float | None = None
) -> Simulated:
    """Re-time the chosen rows of a trace with what-ifs (:mod:`.change`), applied in sequence.

    Without what-ifs the answer is the recording itself. With `step_ns`, the step's time without recording, the cost of recording
    is removed first (:mod:`.calibration`).

    Raises:
        UsageError: for an invalid what-if.
    """
    asked = tuple(parse(text) for text in what)
    base = trace.kept.get(("program", rows.key()), lambda: build(trace, rows))
    found = iterations.find(trace, rows)
    largest = max(found, key=lambda one: int(one.duration.sum())) if found else None
    plain = base
    if step_ns is not None:
        plain = calibrated(base, step_ns, lambda times: _mean(largest, base, times))
    unsure = any(change.subject in changes.ASSUMING for change in asked)
    runs = {lean: changed(trace, plain, asked, lean) for lean in ((-1, 0, 1) if unsure else (0,))}
    was = steps.recorded(base)
    shared = contention.measured(trace, base, was) if asked else None
    if shared is not None:
        note = f"kernels take {shared.usual:.0%} longer beside collectives, compared with those that ran alone in the recording"
        runs = {
            lean: contention.applied(program, base, shared).but(notes=(*program.notes, note))
            for lean, program in runs.items()
        }
    solved = {lean: solve(program) for lean, program in runs.items()}
    now = solved[0]
    step = _step(largest, base, was, solved)
    notes = _notes(runs[0], base, largest)
    tables = {
        "summary": _summary(step, base, was, now),
        "steps": _listed(found, was, now),
        "kernels": _kernels(trace, base, was, now),
    }
    return Simulated(
        asked, step, steps.span(base, was).length, steps.span(base, now).length, int(base.delay.sum()), runs[0], now,
        Result(tables, notes),
    )  # fmt: skip


def changed(trace: StoredTrace, program: Program, asked: Sequence[Change], lean: int = 0) -> Program:
    """A program with all changes."""
    for change in asked:
        program = changes.apply(trace, program, change, lean)
    return program


def _mean(found: Iterations | None, base: Program, times: Times) -> float:
    """The mean step, or the whole length without iterations."""
    if found is None or len(found) < 2:
        return float(steps.span(base, times).length)
    return float(steps.durations(found, times)[steps.counted(found)].mean())


def _step(found: Iterations | None, base: Program, was: Times, solved: dict[int, Times]) -> _StepTime:
    if found is None or len(found) < 2:
        lengths = {lean: float(steps.span(base, times).length) for lean, times in solved.items()}
        return _StepTime(
            float(steps.span(base, was).length), lengths[0], min(lengths.values()), max(lengths.values()), 0
        )
    chosen = steps.counted(found)
    before = steps.durations(found, was)[chosen]
    means = {lean: float(steps.durations(found, times)[chosen].mean()) for lean, times in solved.items()}
    error = _CONFIDENCE * float(before.std()) / max(len(before), 1) ** 0.5
    error *= means[0] / max(float(before.mean()), 1.0)
    return _StepTime(
        float(before.mean()), means[0], min(means.values()) - error, max(means.values()) + error, len(before)
    )


def _notes(program: Program, base: Program, found: Iterations | None) -> tuple[Finding, ...]:
    texts = list(program.notes)
    if found is None:
        texts.append("no iterations were found: times are those of the whole recording")
    notes = [Finding("note", text) for text in texts]
    return tuple(notes)


def _summary(step: _StepTime, base: Program, was: Times, now: Times) -> pa.Table:
    rows = [
        ("step", step.recorded, step.predicted, step.low, step.high),
        ("recording", float(steps.span(base, was).length), float(steps.span(base, now).length), None, None),
    ]
    columns = list(zip(*rows, strict=True))
    table = pa.table({
        "what": pa.array(columns[0], pa.string()), "recorded": pa.array(columns[1], pa.float64()),
        "predicted": pa.array(columns[2], pa.float64()), "low": pa.array(columns[3], pa.float64()),
        "high": pa.array(columns[4], pa.float64()),
    })  # fmt: skip
    return with_units(table, recorded="ns", predicted="ns", low="ns", high="ns")


def _listed(found: Sequence[Iterations], was: Times, now: Times) -> pa.Table:
    """Every iteration: process, number, label, recorded and predicted time, and whether it counts."""
    parts: dict[str, list[Any]] = {
        name: [] for name in ("process", "number", "label", "recorded", "predicted", "counted")
    }
    for one in found:
        parts["process"] += [one.process] * len(one)
        parts["number"] += range(len(one))
        parts["label"] += one.label
        parts["recorded"] += steps.durations(one, was).tolist()
        parts["predicted"] += steps.durations(one, now).tolist()
        parts["counted"] += steps.counted(one).tolist()
    kinds = (pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.bool_())
    table = pa.table(
        {name: pa.array(column, kind) for (name, column), kind in zip(parts.items(), kinds, strict=True)}
    )
    return with_units(table, recorded="ns", predicted="ns")


def _kernels(trace: StoredTrace, program: Program, was: Times, now: Times) -> pa.Table:
    """Per kernel name its time as recorded and as predicted, where that changed; largest change first."""
    work = program.graph.work
    before, after = (times.end[: len(work)] - times.start[: len(work)] for times in (was, now))
    size = int(work.name_id.max(initial=0)) + 1
    recorded, predicted, count = (
        np.bincount(work.name_id, w, size) for w in (before, after, np.ones(len(work)))
    )
    other = np.flatnonzero(recorded != predicted)
    other = other[np.argsort(-np.abs(recorded - predicted)[other], kind="stable")]
    names = dict(trace.sql("SELECT id, short FROM name").fetchall()) | {0: "copies and fills"}
    table = pa.table({
        "kernel": pa.array([names.get(i, "?") for i in other.tolist()], pa.string()),
        "count": pa.array(count[other].astype(np.int64)),
        "recorded": pa.array(recorded[other].astype(np.int64)), "predicted": pa.array(predicted[other].astype(np.int64)),
    })  # fmt: skip
    return with_units(table, recorded="ns", predicted="ns")

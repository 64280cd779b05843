"""`race check`: one verdict on a program's races from an event trace, racecheck and delays."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.debug.sanitizer import sanitize
from warpsight.errors import WarpsightError
from warpsight.race.moments import WarpMoments, moments
from warpsight.race.plan import Point
from warpsight.race.points import points_of
from warpsight.race.repair import Repairs
from warpsight.race.suspects import (
    EVENTS,
    ON_DEVICE,
    RACECHECK,
    Suspect,
    from_racecheck,
    from_races,
    merged,
)
from warpsight.recorder.launch import EndedError, StartError, check_uninterrupted
from warpsight.sass.events import tracing
from warpsight.sass.events.trace import EventTrace
from warpsight.sass.races.detect import checked, races

#: Classes of events that the detector follows, and those needed to suggest repairs.
TRACED = ("memory", "barriers", "mbarrier", "tma", "cluster", "wgmma")
#: Traces larger than this (bytes) are checked for races on the device instead.
LARGEST_TRACE = 1 << 30


@dataclass(frozen=True)
class DetectorResult:
    """The result of one detector.

    Attributes:
        name: its name; findings: number of findings, None if it could not run; notes: why its answer may be incomplete.
    """

    name: str
    findings: int | None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {"name": self.name, "findings": self.findings, "notes": list(self.notes)}


@dataclass(frozen=True)
class Provoked:
    """The effect of delays on a program.

    Attributes:
        verdict: the verdict of :func:`~warpsight.race.stressing.stress`, or `not tried`; summary: the same in words.
        failures, runs: counts of the delayed arm; control_failures, control_runs: counts of the arm without delays.
    """

    verdict: str
    failures: int
    runs: int
    control_failures: int
    control_runs: int
    summary: str

    @property
    def reproduced(self) -> bool:
        """Whether delays make it fail."""
        return self.verdict == "reproduced"

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "verdict": self.verdict, "failures": self.failures, "runs": self.runs, "control_failures": self.control_failures,
            "control_runs": self.control_runs, "summary": self.summary,
        }  # fmt: skip


@dataclass(frozen=True)
class RaceVerdict:
    """Everything known about a program's races.

    Attributes:
        suspects: pairs of accesses, those found by most detectors first; arms: the result of each detector.
        moments: what the warps of each suspect did, if a trace shows it.
        provoked: the effect of delays, None if not tried; disagreements: contradictions between detectors, one sentence each.
    """

    suspects: tuple[Suspect, ...]
    arms: tuple[DetectorResult, ...]
    provoked: Provoked | None
    disagreements: tuple[str, ...]
    moments: tuple[tuple[WarpMoments, ...], ...]

    @property
    def racy(self) -> bool:
        """Whether a race was found or provoked."""
        return bool(self.suspects) or (self.provoked is not None and self.provoked.reproduced)

    def to_json(self) -> dict[str, Any]:
        """As an object."""
        return {
            "racy": self.racy, "suspects": [suspect.to_json() for suspect in self.suspects],
            "arms": [arm.to_json() for arm in self.arms],
            "provoked": self.provoked.to_json() if self.provoked is not None else None,
            "disagreements": list(self.disagreements),
        }  # fmt: skip


def check(
    program: Sequence[str], kernels: Sequence[str] = (), launches: int = 64,
    provoke: Callable[[Sequence[Point]], Provoked] | None = None,
) -> RaceVerdict:  # fmt: skip
    """Run a program under each detector, and with delays.

    Args:
        program: the command line; it runs once under each detector.
        kernels: patterns of the kernels that are traced.
        launches: how many launches are traced.
        provoke: function that tries delays, at the suspicious points first; None skips them.

    Raises:
        StartError: when the program cannot be started.
        WarpsightError: when no detector could run.
    """
    with tempfile.TemporaryDirectory(prefix="warpsight-check-") as folder:
        selection = tracing.TraceSelection(
            events=TRACED, kernels=tuple(kernels), launches=(0, launches), limit=LARGEST_TRACE
        )
        found, arm, traces = _traced(program, selection, Path(folder, "check.events"))
        if any(trace.cut for trace in traces):
            selection = tracing.TraceSelection(kernels=tuple(kernels), launches=(0, launches), check=True)
            found, arm = _on_device(program, selection, Path(folder, "device.events"))
            traces = []
        from_tool, tool_arm = _racechecked(program)
        if arm.findings is None and tool_arm.findings is None:
            raise WarpsightError("; ".join((*arm.notes, *tool_arm.notes)))
        provoked = _provoked(provoke, traces) if provoke is not None else None
        return verdict([*found, *from_tool], (arm, tool_arm), traces, provoked)


def verdict(
    found: Sequence[Suspect],
    arms: tuple[DetectorResult, ...],
    traces: Sequence[EventTrace],
    provoked: Provoked | None,
) -> RaceVerdict:
    """One verdict from what the detectors found."""
    repairs = Repairs(traces)
    suspects = [repairs.repaired(suspect) for suspect in merged(found)]
    suspects.sort(key=lambda suspect: -len(suspect.found_by))
    looked = {arm.name for arm in arms if arm.findings is not None}
    said = tuple(_disagreements(suspects, looked, provoked))
    return RaceVerdict(tuple(suspects), arms, provoked, said, tuple(moments(traces, one) for one in suspects))


def _traced(
    program: Sequence[str], selection: tracing.TraceSelection, out: Path
) -> tuple[list[Suspect], DetectorResult, list[EventTrace]]:
    try:
        traced = tracing.trace(program, selection, out)
        check_uninterrupted(traced.code)
    except (StartError, EndedError):
        raise
    except WarpsightError as error:
        return [], DetectorResult(EVENTS, None, (str(error),)), []
    traces = [EventTrace(file) for file in traced.files]
    if any(trace.cut for trace in traces):
        return [], DetectorResult(EVENTS, None), traces
    answers = [races(trace) for trace in traces]
    notes = list(dict.fromkeys(note for answer in answers for note in answer.notes))
    if sum(answer.launches for answer in answers) >= (selection.launches or (0, 0))[1]:
        notes.append(
            f"only the first {selection.launches[1] if selection.launches else 0} launches were traced (--launches)"
        )
    if not traces:
        notes.append("the program did not use an NVIDIA GPU")
    found = from_races(race for answer in answers for race in answer.races)
    return found, DetectorResult(EVENTS, len(found) if traces else None, tuple(notes)), traces


def _on_device(
    program: Sequence[str], selection: tracing.TraceSelection, out: Path
) -> tuple[list[Suspect], DetectorResult]:
    try:
        traced = tracing.trace(program, selection, out)
        check_uninterrupted(traced.code)
        answer = checked(traced.files)
    except (StartError, EndedError):
        raise
    except WarpsightError as error:
        return [], DetectorResult(ON_DEVICE, None, (str(error),))
    notes = (f"the event trace was larger than {LARGEST_TRACE >> 20:,} MiB", *answer.notes)
    found = from_races(answer.races, ON_DEVICE)
    return found, DetectorResult(ON_DEVICE, len(found), notes)


def _racechecked(program: Sequence[str]) -> tuple[list[Suspect], DetectorResult]:
    try:
        run = sanitize("racecheck", program)
        check_uninterrupted(run.code)
    except (StartError, EndedError):
        raise
    except WarpsightError as error:
        return [], DetectorResult(RACECHECK, None, (str(error),))
    found = from_racecheck(run.findings)
    looked = bool(run.summaries)
    return found, DetectorResult(RACECHECK, len(found) if looked else None, run.troubles)


def _provoked(provoke: Callable[[Sequence[Point]], Provoked], traces: Sequence[EventTrace]) -> Provoked:
    """The effect of delays; if they could not be tried, the detectors' findings still count."""
    try:
        return provoke(suspicious(traces))
    except EndedError:
        raise
    except WarpsightError as error:
        return Provoked("not tried", 0, 0, 0, 0, f"not tried: {error}")


def _disagreements(suspects: Sequence[Suspect], looked: set[str], provoked: Provoked | None) -> list[str]:
    """Contradictions between the detectors and the delays, and what each means."""
    said = []
    for suspect in suspects:
        lines = " and ".join(sorted(suspect.lines))
        if suspect.found_by == (RACECHECK,) and EVENTS in looked:
            said.append(
                f"{lines}: found only by racecheck. The event trace does not follow asynchronous copies, phases of mbarriers "
                "and the end of blocks, and counts an arrival it cannot see as made"
            )
        elif suspect.found_by == (EVENTS,) and RACECHECK in looked and suspect.space == "shared":
            said.append(
                f"{lines}: found only by the event trace, although racecheck checks shared memory too"
            )
    if provoked is not None and suspects and provoked.verdict == "not reproduced" and not provoked.failures:
        said.append(
            f"delays did not make the program fail in {provoked.runs} runs: the races may be harmless here, rarer, or of weak "
            "memory, which delays do not bring out"
        )
    if provoked is not None and not suspects and provoked.reproduced:
        said.append(
            "delays make the program fail, but no detector names two accesses: several launches, copies or polling may be "
            "involved; `race reduce` finds the instructions"
        )
    return said


def suspicious(traces: Sequence[EventTrace]) -> list[Point]:
    """The points whose accesses race in traces, each pair together."""
    found: dict[Point, None] = {}
    for trace in traces:
        known = {(point.kernel, point.pc): point for point in points_of(trace) if point.kind != "launch"}
        for race in races(trace).races:
            for one in (race.first, race.second):
                point = known.get((one.place.function, one.place.offset))
                if point is not None:
                    found[point] = None
    return list(found)

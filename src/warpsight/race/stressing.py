"""`race stress`: a designed experiment on whether delays make a program fail.

Runs without delays (the control arm, of the same patched code) and runs with delays of several ceilings are drawn at random, so
that drift cannot be mistaken for an effect of delays. Until something fails most runs are delayed; from then on half are, and
half of those repeat the plan that failed. The evidence (:mod:`warpsight.race.evidence`) is evaluated after every run.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from warpsight.errors import UsageError
from warpsight.race import plan as plans
from warpsight.race.evidence import Evidence, FailedRun, upper_bound
from warpsight.race.experiment import Experiment, control, digest, programs_own
from warpsight.race.journal import ExperimentJournal
from warpsight.race.oracle import BROKEN, Kind, RunOutcome
from warpsight.race.plan import Plan

Verdict = Literal["reproduced", "natural", "not reproduced", "broken run"]
#: Exit codes of the verb.
EXIT_CODES: dict[Verdict, int] = {"not reproduced": 0, "reproduced": 10, "natural": 11, "broken run": 12}

#: Ceilings to try, as fractions of the plan's.
_LADDER = (0.01, 0.1, 1.0)
#: The share of runs without delays, before and after the first failure.
_CONTROL_BEFORE, _CONTROL_AFTER = 0.2, 0.5
#: The same for trials inside a process, which are nearly free compared with starting it: a failure is then worth more.
_TRIALS_BEFORE, _TRIALS_AFTER = 0.5, 0.8
#: Number of broken runs before any other that ends the experiment, and later their share of all runs.
_BROKEN_FIRST, _BROKEN_PART = 5, 0.5


class Drawn(msgspec.Struct, frozen=True):
    """The parameters drawn for a run.

    These are its number, ceiling (0 in the control arm), seed, and the fraction of runs or trials without delays.
    """

    run: int
    ceiling_ns: int
    seed: int
    control_share: float


@dataclass(frozen=True)
class Limits:
    """When an experiment without an answer stops: runs, seconds, or a rate shown to be below `rate`."""

    runs: int = 1000
    seconds: float = 600.0
    rate: float = 0.0


class Arm(msgspec.Struct):
    """The outcome of an arm, counted in trials if a run has several; `runs` are processes."""

    runs: int = 0
    trials: int = 0
    failures: int = 0


class StressResult(msgspec.Struct, kw_only=True):
    """The verdict of an experiment.

    Attributes:
        cause: what the experiment is about, `delays` or `memory stress`.
        verdict, why: the verdict and its reason in words; confidence: confidence of the verdict and the bound.
        control, delayed: the two arms; ceilings: the delayed arm by ceiling in ns; broken: runs that cannot be judged.
        outcomes: how often each class of outcome occurred.
        evidence, evidence_natural: e-values, which decide above 1/(1 − confidence).
        rate_below: upper bound of the failure rate of delayed runs or trials.
        plan: the plan that fails most often, empty if none did; example: how it failed; folder: folder of the experiment.
        exit_code: exit code of the verb.
    """

    cause: str
    verdict: Verdict
    why: str
    confidence: float
    control: Arm
    delayed: Arm
    ceilings: dict[int, Arm]
    broken: int
    outcomes: dict[Kind, int]
    evidence: float
    evidence_natural: float
    rate_below: float
    plan: str
    example: str
    folder: str
    seconds: float
    exit_code: int


Progress = Callable[["State"], None]


@dataclass
class State:
    """The knowledge at one time: finished runs in the order they were drawn, without gaps, and their evidence."""

    plan: Plan
    alpha: float
    limits: Limits
    ended: list[tuple[Drawn, RunOutcome]] = field(default_factory=list)
    control: Arm = field(default_factory=Arm)
    ceilings: dict[int, Arm] = field(default_factory=dict)
    outcomes: dict[Kind, int] = field(default_factory=dict)
    failures: list[FailedRun] = field(default_factory=list)
    failing: dict[tuple[int, int], tuple[int, int, str]] = field(
        default_factory=dict
    )  # failures, runs and why, by plan
    evidence: Evidence = field(default_factory=lambda: Evidence.of(()))
    broken: int = 0
    spent: float = 0.0
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Duration of the experiment, without interruptions."""
        return self.spent + time.monotonic() - self.begun

    @property
    def cause(self) -> str:
        """What the experiment is about."""
        return "memory stress" if self.plan.mode == "memory" else "delays"

    @property
    def delayed(self) -> Arm:
        """The delayed arm, all ceilings combined."""
        arms = self.ceilings.values()
        return Arm(sum(a.runs for a in arms), sum(a.trials for a in arms), sum(a.failures for a in arms))

    @property
    def seconds_left(self) -> float:
        """The most seconds that are left."""
        runs = len(self.ended)
        by_runs = (self.limits.runs - runs) * self.seconds / runs if runs else float("inf")
        return max(0.0, min(self.limits.seconds - self.seconds, by_runs))

    def add(self, drawn: Drawn, outcome: RunOutcome) -> None:
        """Take in the next run."""
        self.ended.append((drawn, outcome))
        self.outcomes[outcome.kind] = self.outcomes.get(outcome.kind, 0) + 1
        if outcome.kind in BROKEN:
            self.broken += 1
            return
        whole = drawn.ceiling_ns > 0  # whether trials are delayed unless they say otherwise
        failed_delayed = outcome.failed_delayed if outcome.failed_delayed is not None else whole
        arm = self.ceilings.setdefault(drawn.ceiling_ns, Arm()) if whole else self.control
        arm.runs += 1
        if not outcome.control + outcome.delayed:
            arm.trials += 1
        else:
            arm.trials += outcome.delayed
            self.control.trials += outcome.control
        if whole:
            seed = outcome.failed_seed if outcome.failed_seed is not None else drawn.seed
            failures, runs, why = self.failing.get((drawn.ceiling_ns, seed), (0, 0, ""))
            if outcome.failed and failed_delayed:
                self.failing[drawn.ceiling_ns, seed] = (
                    failures + 1,
                    runs + 1,
                    f"{outcome.kind}: {outcome.why}",
                )
            elif runs:
                self.failing[drawn.ceiling_ns, seed] = (failures, runs + 1, why)
        if outcome.failed:
            (arm if failed_delayed else self.control).failures += 1
            # A run without delays in which trials could have been switched was not drawn against delayed ones.
            if whole or not outcome.control:
                self.failures.append(FailedRun(failed_delayed, drawn.control_share))
                self.evidence = Evidence.of(self.failures)

    def verdict(self) -> tuple[Verdict, str] | None:
        """The verdict, if it has been reached."""
        enough = 1 / self.alpha
        runs = len(self.ended)
        control, delayed = self.control, self.delayed
        if self.evidence.caused >= enough:
            return "reproduced", f"{self.cause} make{'s' * (self.plan.mode == 'memory')} it fail"
        if self.evidence.natural >= enough and control.failures:
            return "natural", f"it fails without {self.cause}, and with {self.cause} not three times as often"
        if self.broken == runs >= _BROKEN_FIRST or (runs >= 20 and self.broken > _BROKEN_PART * runs):
            return "broken run", f"{self.broken} of {runs} runs could not be judged"
        if self.limits.rate and upper_bound(delayed.failures, delayed.trials, self.alpha) <= self.limits.rate:
            return "not reproduced", f"the rate is below {self.limits.rate:g}"
        if runs < self.limits.runs and self.seconds < self.limits.seconds:
            return None
        if self.broken == runs:
            return "broken run", "no run could be judged"
        if control.failures:
            return "natural", f"it fails without {self.cause}; whether that matters is not decided"
        if delayed.failures:
            return (
                "not reproduced",
                f"{delayed.failures} failures with {self.cause} may be chance; more runs would decide",
            )
        return "not reproduced", "nothing failed"

    def best(self) -> tuple[int, int] | None:
        """Ceiling and seed of the plan that fails most often; on ties, the one with the shortest delays.

        The failure rate is estimated from the plan's own runs, plus the trials of its ceiling, weighted as one run.
        """

        def rate(plan: tuple[int, int]) -> float:
            failures, runs, _ = self.failing[plan]
            arm = self.ceilings[plan[0]]
            return (failures + (arm.failures + 1) / (arm.trials + 2)) / (runs + 1)

        return max(self.failing, key=lambda plan: (rate(plan), -plan[0]), default=None)


def draw(state: State, number: int, choice: random.Random, ceilings: Sequence[int], mixed: bool) -> Drawn:
    """Draw the next run: arm, ceiling and seed."""
    before, after = (_TRIALS_BEFORE, _TRIALS_AFTER) if mixed else (_CONTROL_BEFORE, _CONTROL_AFTER)
    share = after if state.failures else before
    is_control, seed = choice.random() < share, choice.getrandbits(63)
    repeated = state.best() if choice.random() < 0.5 else None
    if is_control and not mixed:
        return Drawn(number, 0, seed, share)
    if repeated is not None:
        return Drawn(number, *repeated, share)
    arms = [state.ceilings.get(ceiling, Arm()) for ceiling in ceilings]
    weights = [(arm.failures + 0.5) / (arm.runs + 1) for arm in arms]
    return Drawn(number, choice.choices(ceilings, weights)[0], seed, share)


def derived(plan: Plan, drawn: Drawn) -> Plan:
    """The plan of a run."""
    if not drawn.ceiling_ns:
        return msgspec.structs.replace(control(plan), seed=drawn.seed)
    floor = drawn.ceiling_ns if plan.mode == "fixed" else min(plan.floor_ns, drawn.ceiling_ns)
    return msgspec.structs.replace(plan, seed=drawn.seed, floor_ns=floor, ceiling_ns=drawn.ceiling_ns)


def stress(experiment: Experiment, plan: Plan, *, limits: Limits = Limits(), confidence: float = 0.95, seed: int = 0,
           ceilings: Sequence[int] = (), force: bool = False, progress: Progress | None = None) -> StressResult:  # fmt: skip
    """Run the experiment, or continue an interrupted one.

    Args:
        experiment: program, folder and GPUs.
        plan: points, mode, floor, probability and highest ceiling of delays; its seed is not used.
        limits: when to stop without an answer.
        confidence: 1 − α: at most α of experiments end with a wrong "reproduced", "natural" or bound.
        seed: seed for the order of runs and their delays.
        ceilings: in ns; by default 1/100, 1/10 and all of the plan's.
        force: start over in a folder that holds an experiment.
        progress: called after each run.

    Raises:
        UsageError: for invalid options.
        WarpsightError: when the folder holds another experiment, or plans cannot be executed on this machine.
    """
    lowest = 1 if plan.mode == "fixed" else max(1, plan.floor_ns)
    ladder = _LADDER[1:] if plan.mode == "memory" else _LADDER
    ceilings = tuple(ceilings) or tuple(sorted({max(lowest, int(plan.ceiling_ns * part)) for part in ladder}))
    if not plan.points and plan.mode != "memory" and experiment.injection is not programs_own:
        raise UsageError("the plan has no points, so there is nothing to delay")
    if not 0.5 <= confidence < 1 or not plan.probability or not plan.ceiling_ns or min(ceilings) < 1:
        raise UsageError(
            "a confidence must be at least 0.5 and below 1, and a plan to stress needs a probability and a ceiling above 0"
        )
    experiment.stop.clear()
    progress = progress or (lambda _: None)
    state = State(plan, 1 - confidence, limits)
    what = {"experiment": "stress", "version": 1, "oracle": msgspec.to_builtins(experiment.oracle), "plan": digest(plan),
            "ceilings": list(ceilings), "confidence": confidence, "seed": seed}  # fmt: skip
    with experiment.begin(what, force) as journal:
        plans.write(plan, experiment.folder / "plan.json")
        reference = experiment.refer(plan)
        try:
            if reference.kind == "pass":
                _run(experiment, journal, state, ceilings, seed, progress, mixed=bool(reference.control))
        finally:
            experiment.end_processes()
        return _result(experiment, state, reference)


@dataclass
class _Running:
    """Drawn runs: those still running, and those that finished before an earlier one."""

    pending: list[Drawn]
    early: dict[int, tuple[Drawn, RunOutcome]]


def _run(experiment: Experiment, journal: ExperimentJournal, state: State, ceilings: Sequence[int], seed: int,
         progress: Progress, *, mixed: bool) -> None:  # fmt: skip
    """Draw and run until there is a verdict; `mixed`: trials are switched within the process."""
    waiting = _replay(journal, state)
    workers = experiment.gpus or (None,)
    free = list(workers)
    futures: dict[Future[RunOutcome], tuple[Drawn, str | None]] = {}
    number = 1 + max(
        [d.run for d, _ in state.ended] + [d.run for d in waiting.pending] + list(waiting.early), default=-1
    )
    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            while state.verdict() is None:
                while free:
                    if waiting.pending:
                        drawn = waiting.pending.pop(0)
                    else:
                        mixed = mixed or any(outcome.control for _, outcome in state.ended)
                        drawn = draw(state, number, random.Random(f"{seed} {number}"), ceilings, mixed)
                        journal.append({"drawn": msgspec.to_builtins(drawn)})
                        number += 1
                    gpu = free.pop()
                    futures[pool.submit(_one, experiment, state.plan, drawn, gpu)] = (drawn, gpu)
                done, _ = wait(futures, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    drawn, gpu = futures.pop(future)
                    free.append(gpu)
                    _record(experiment, journal, state, waiting, drawn, future.result())
                progress(state)
        finally:
            experiment.stop.set()  # processes still running at the verdict or at Ctrl-C


def _one(experiment: Experiment, plan: Plan, drawn: Drawn, gpu: str | None) -> RunOutcome:
    return experiment.run(
        f"{drawn.run:06}",
        derived(plan, drawn),
        gpu=gpu,
        control_share=drawn.control_share if drawn.ceiling_ns else 1.0,
    )


def _record(
    experiment: Experiment,
    journal: ExperimentJournal,
    state: State,
    waiting: _Running,
    drawn: Drawn,
    outcome: RunOutcome,
) -> None:
    """Save a result, and apply those whose turn it is: a decision must not depend on which run is faster."""
    journal.append(
        {"run": drawn.run, "outcome": msgspec.to_builtins(outcome), "seconds": round(state.seconds, 3)}
    )
    if outcome.kind == "pass":
        experiment.forget(f"{drawn.run:06}")
    waiting.early[drawn.run] = (drawn, outcome)
    while (turn := len(state.ended)) in waiting.early:
        state.add(*waiting.early.pop(turn))


def _replay(journal: ExperimentJournal, state: State) -> _Running:
    """Restore what an interrupted experiment already knew; its unfinished runs are repeated as drawn."""
    drawn = {one.run: one for one in _drawn(journal.lines)}
    state.spent = max((line["seconds"] for line in journal.lines if "seconds" in line), default=0.0)
    outcomes = {
        line["run"]: msgspec.convert(line["outcome"], RunOutcome)
        for line in journal.lines
        if "outcome" in line
    }
    waiting = _Running(
        [one for number, one in sorted(drawn.items()) if number not in outcomes],
        {number: (drawn[number], outcome) for number, outcome in outcomes.items() if number in drawn},
    )
    while (turn := len(state.ended)) in waiting.early:
        state.add(*waiting.early.pop(turn))
    return waiting


def _drawn(lines: Sequence[dict[str, Any]]) -> Iterator[Drawn]:
    return (msgspec.convert(line["drawn"], Drawn) for line in lines if "drawn" in line)


def _result(experiment: Experiment, state: State, reference: RunOutcome) -> StressResult:
    """The verdict and its evidence. Writes the plan that fails most often for `race replay` and `race reduce`."""
    if reference.kind == "pass":
        verdict, why = state.verdict() or ("not reproduced", "interrupted")
    elif reference.failed:
        verdict, why = "natural", f"it failed in three of three runs without {state.cause}: {reference.why}"
    else:
        verdict, why = "broken run", f"it cannot be judged without {state.cause}: {reference.why}"
    best, path, example = state.best(), "", ""
    if best is not None:
        path, example = str(experiment.folder / "failing.json"), state.failing[best][2]
        plans.write(derived(state.plan, Drawn(0, *best, 0.0)), path)
    delayed = state.delayed
    return StressResult(
        cause=state.cause, verdict=verdict, why=why, confidence=1 - state.alpha, control=state.control, delayed=delayed,
        ceilings=dict(sorted(state.ceilings.items())), broken=state.broken, outcomes=state.outcomes,
        evidence=state.evidence.caused, evidence_natural=state.evidence.natural,
        rate_below=upper_bound(delayed.failures, delayed.trials, state.alpha), plan=path, example=example,
        folder=str(experiment.folder), seconds=round(state.seconds, 3), exit_code=EXIT_CODES[verdict],
    )  # fmt: skip

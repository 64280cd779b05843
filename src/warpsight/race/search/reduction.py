"""`race reduce`: the fewest points, smallest delay, fewest warps and CTAs with which a plan still makes a program fail.

Each is one search (:mod:`warpsight.race.search.minimal`), in this order, starting from the plan that the previous one ended
with. The outcome of every run is in a journal; after an interruption the searches are repeated with the recorded outcomes,
which leads to the same point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np

from warpsight.errors import UsageError, WarpsightError
from warpsight.race import plan as plans
from warpsight.race.experiment import LOG, Experiment, control, digest
from warpsight.race.journal import ExperimentJournal
from warpsight.race.oracle import BROKEN, RunOutcome
from warpsight.race.plan import Plan, Point, Where
from warpsight.race.search.bisection import RATES, Floats
from warpsight.race.search.minimal import Minimal, Search, exact, shortest

Verdict = Literal["reduced", "natural", "not reproduced"]
EXIT_CODES: dict[Verdict, int] = {"reduced": 0, "natural": 11, "not reproduced": 13}

#: Called with the subject of the search, the number of runs so far and the outcome of the last one.
Progress = Callable[[str, int, RunOutcome], None]
#: Smaller delays are not tried.
_SHORTEST_NS = 100
#: Up to this many CTAs are searched individually.
_MOST_CTAS = 1 << 20
#: How often a run that cannot be judged is repeated.
_REPEATED = 3


class ReductionStep(msgspec.Struct, frozen=True):
    """The result of one search.

    Attributes:
        what: `points`, `delay_ns`, `warps` or `ctas`; before, after: how many, or how long.
        runs: number of runs; confidence: confidence that the answer is right.
    """

    what: str
    before: int
    after: int
    runs: int
    confidence: float


class ReduceResult(msgspec.Struct, kw_only=True):
    """The result of reducing a plan.

    Attributes:
        verdict: `reduced`; `natural`: it fails without any delay; `not reproduced`: the plan does not make it fail.
        steps: the result of each search; runs: total number of runs; rate: estimated failure rate of runs with the plan.
        points, delay_ns, where: those of the reduced plan, which is in the file `plan`; folder: folder of the runs.
        exit_code: exit code of the verb.
    """

    verdict: Verdict
    steps: list[ReductionStep]
    runs: int
    rate: float
    points: tuple[Point, ...]
    delay_ns: int
    where: Where
    plan: str
    folder: str
    exit_code: int


@dataclass
class _Reduction:
    """The searches of one reduction."""

    experiment: Experiment
    journal: ExperimentJournal
    confidence: float
    deterministic: bool
    most_runs: int
    progress: Progress
    steps: list[ReductionStep] = field(default_factory=list)
    runs: int = 0
    rates: Floats = field(default_factory=lambda: np.full(len(RATES), 1 / len(RATES)))
    known: dict[str, bool] = field(default_factory=dict)

    def fails(self, what: str, plan: Plan) -> bool:
        """Run under a plan, or use an earlier result: whether it failed."""
        name = digest(plan)
        if self.deterministic and name in self.known:
            return self.known[name]
        outcome = self._recorded(name) or self._judged(name, plan)
        self.runs += 1
        self.known[name] = outcome.failed
        self.progress(what, self.runs, outcome)
        return outcome.failed

    def _judged(self, name: str, plan: Plan) -> RunOutcome:
        """Repeat runs until the outcome is conclusive, and save it."""
        run = f"{self.runs:06}"
        for _ in range(_REPEATED):
            outcome = self.experiment.run(run, plan, control_share=0.0 if plan.probability else 1.0)
            if outcome.kind not in BROKEN:
                self.journal.append({"plan": name, "outcome": msgspec.to_builtins(outcome)})
                self.experiment.forget(run)
                return outcome
        where = self.experiment.folder / "runs" / run
        raise WarpsightError(
            f"{_REPEATED} runs in a row could not be judged ({outcome.kind}: {outcome.why}); the last one is in {where}"
        )

    def _recorded(self, name: str) -> RunOutcome | None:
        if self.runs >= len(self.journal.lines):
            return None
        line = self.journal.lines[self.runs]
        if line.get("plan") != name:
            raise WarpsightError(f"{self.experiment.folder} was begun by another version; -f starts over")
        return msgspec.convert(line["outcome"], RunOutcome)

    def smallest(
        self, what: str, count: int, chosen: Callable[[Sequence[int]], Plan], empty: Plan
    ) -> Minimal:
        """Search for the smallest set of `count` elements; `chosen`: the plan with some of them."""

        def oracle(elements: tuple[int, ...]) -> bool:
            return self.fails(what, chosen(elements) if elements else empty)

        before = self.runs
        if self.deterministic:
            found = exact(count, oracle)
        else:
            search = Search(count, oracle, self.confidence, self.most_runs, rates=self.rates)
            found = search.run()
            self.rates = search.rates
        self.steps.append(
            ReductionStep(what, count, len(found.elements), self.runs - before, round(found.confidence, 4))
        )
        return found

    def shortest_delay(self, plan: Plan) -> Plan:
        """The plan with the smallest ceiling, in factors of two, that still fails."""
        ladder = [plan.ceiling_ns]
        while ladder[-1] // 2 >= _SHORTEST_NS:
            ladder.append(ladder[-1] // 2)
        made = [_with_ceiling(plan, ceiling) for ceiling in reversed(ladder)]
        before, confidence = self.runs, 1.0

        def fails(steps: int) -> bool:
            return self.fails("delay_ns", made[steps - 1] if steps else control(plan))

        if self.deterministic:
            step = shortest(1, len(made), fails)
        else:
            search = Search(
                len(made), lambda steps: fails(len(steps)), self.confidence, self.most_runs, rates=self.rates
            )
            step, confidence = max(search.first(), 1), self.confidence
            self.rates = search.rates
        found = made[step - 1]
        self.steps.append(
            ReductionStep("delay_ns", plan.ceiling_ns, found.ceiling_ns, self.runs - before, confidence)
        )
        return found


def reduce(experiment: Experiment, plan: Plan, *, confidence: float = 0.95, deterministic: bool = False, warps: int = 0,
           ctas: int = 0, points_only: bool = False, most_runs: int = 20_000, force: bool = False,
           progress: Progress | None = None) -> ReduceResult:  # fmt: skip
    """Reduce a plan that makes a program fail, or continue an interrupted reduction.

    Args:
        experiment: program and folder.
        plan: for example `failing.json` of `stress`.
        confidence: required confidence of each search.
        deterministic: runs under one plan always have the same outcome, so repeat none.
        warps: warps of a CTA to search; 0: those that waited, if known.
        ctas: CTAs to search; 0: those that waited, if known.
        points_only: do not search for the smallest delay, warps and CTAs.
        most_runs: most runs of a search.
        force: start over in a folder that holds a reduction.
        progress: called after each run with the search, the number of runs, and the outcome.

    Raises:
        UsageError: for invalid options.
        WarpsightError: when the program cannot be judged, or the runs do not suffice to find the answer.
    """
    if not plan.points or not plan.probability:
        raise UsageError("the plan has no points, or a probability of 0, so there is nothing to reduce")
    if plan.depth > 1:
        raise UsageError(
            "steps are counted at a plan's points, so fewer points are another schedule: use mode random"
        )
    if not 0.5 <= confidence < 1:
        raise UsageError(f"a confidence must be at least 0.5 and below 1, not {confidence:g}")
    what = {"experiment": "reduce", "version": 1, "oracle": msgspec.to_builtins(experiment.oracle), "plan": digest(plan),
            "confidence": confidence, "deterministic": deterministic, "warps": warps, "ctas": ctas}  # fmt: skip
    with experiment.begin(what, force) as journal:
        reference = experiment.refer(plan)
        if reference.kind != "pass":
            raise WarpsightError(
                f"the program does not pass without delays ({reference.kind}: {reference.why})"
            )
        reduction = _Reduction(
            experiment, journal, confidence, deterministic, most_runs, progress or (lambda *_: None)
        )
        try:
            verdict, made = _searched(reduction, plan, warps, ctas, points_only)
        finally:
            experiment.end_processes()
    return _result(experiment, reduction, verdict, made)


def _searched(
    reduction: _Reduction, plan: Plan, warps: int, ctas: int, points_only: bool
) -> tuple[Verdict, Plan]:
    """Points, then delay, warps and CTAs."""
    seen = _waiters(reduction.experiment, plan)
    found = [plan.points[at] for at in seen.get("point", range(len(plan.points)))]
    verdict, made = _reduced(reduction, plan, found)
    if verdict == "not reproduced" and len(found) < len(plan.points):
        verdict, made = _reduced(reduction, plan, plan.points)  # another run came to other points
    candidates: Sequence[int]
    if verdict == "reduced" and not points_only:
        made = reduction.shortest_delay(made)
        candidates = plan.where.warps or range(warps) or seen.get("warp", [])
        made = _fewest(reduction, made, "warps", candidates, _with_warps)
        candidates = _listed(plan.where.ctas or ()) or range(ctas) or seen.get("cta", [])
        made = _fewest(reduction, made, "ctas", candidates, _with_ctas)
    return verdict, made


def _waiters(experiment: Experiment, plan: Plan) -> dict[str, list[int]]:
    """Points, warps and CTAs that waited in one run under the plan, from a log; queried once and cached."""
    kept = experiment.folder / "seen.json"
    if experiment.read_log is None:
        return {}
    if not kept.exists():
        outcome = experiment.run("seen", plan, control_share=0.0, log=True)
        log = experiment.read_log(plan, experiment.folder / "runs" / "seen" / LOG)
        found = {
            name: np.unique(log[name][log[name] >= 0]).tolist()
            for name in ("point", "cta", "warp")
            if name in log
        }
        # After a crash or a hang the log lacks its end, and below a probability of 1 other warps wait in each run.
        usable = outcome.kind in ("pass", "fail") and plan.probability == 1 and bool(found.get("point"))
        plans.replace(kept, msgspec.json.encode(found if usable else {}))
    return msgspec.json.decode(kept.read_bytes(), type=dict[str, list[int]])


def _reduced(reduction: _Reduction, plan: Plan, points: Sequence[Point]) -> tuple[Verdict, Plan]:
    """The fewest points."""

    def chosen(elements: Sequence[int]) -> Plan:
        return msgspec.structs.replace(plan, points=tuple(points[at] for at in elements))

    found = reduction.smallest("points", len(points), chosen, control(plan))
    if not found.fails:
        return "not reproduced", plan
    return ("reduced" if found.elements else "natural"), (
        chosen(found.elements) if found.elements else control(plan)
    )


def _fewest(reduction: _Reduction, plan: Plan, what: str, elements: Sequence[int],
            chosen: Callable[[Plan, Sequence[int]], Plan]) -> Plan:  # fmt: skip
    """The plan with the fewest of these warps or CTAs."""
    if len(elements) < 2:
        return plan

    def some(places: Sequence[int]) -> Plan:
        return chosen(plan, [elements[at] for at in places])

    found = reduction.smallest(what, len(elements), some, control(plan))
    return some(found.elements) if found.elements else plan


def _listed(ranges: Sequence[tuple[int, int]]) -> list[int]:
    """The numbers in some ranges; empty if there are too many to search one by one."""
    if sum(high - low for low, high in ranges) > _MOST_CTAS:
        return []
    return sorted({number for low, high in ranges for number in range(low, high)})


def _with_ceiling(plan: Plan, ceiling_ns: int) -> Plan:
    floor = ceiling_ns if plan.mode == "fixed" else min(plan.floor_ns, ceiling_ns)
    return msgspec.structs.replace(plan, floor_ns=floor, ceiling_ns=ceiling_ns)


def _with_warps(plan: Plan, warps: Sequence[int]) -> Plan:
    return msgspec.structs.replace(plan, where=msgspec.structs.replace(plan.where, warps=tuple(warps)))


def _with_ctas(plan: Plan, ctas: Sequence[int]) -> Plan:
    ranges: list[tuple[int, int]] = []
    for cta in ctas:
        if ranges and ranges[-1][1] == cta:
            ranges[-1] = (ranges[-1][0], cta + 1)
        else:
            ranges.append((cta, cta + 1))
    return msgspec.structs.replace(plan, where=msgspec.structs.replace(plan.where, ctas=tuple(ranges)))


def _result(experiment: Experiment, reduction: _Reduction, verdict: Verdict, plan: Plan) -> ReduceResult:
    path = ""
    if verdict == "reduced":
        path = str(experiment.folder / "reduced.json")
        plans.write(plan, path)
    rate = float(RATES[:, 0] @ reduction.rates) if not reduction.deterministic else 1.0
    return ReduceResult(
        verdict=verdict, steps=reduction.steps, runs=reduction.runs, rate=0.0 if verdict == "not reproduced" else rate,
        points=plan.points if verdict == "reduced" else (), delay_ns=plan.ceiling_ns, where=plan.where, plan=path,
        folder=str(experiment.folder), exit_code=EXIT_CODES[verdict],
    )  # fmt: skip

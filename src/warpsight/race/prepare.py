"""Plans from a run's observations, and runs with a plan, of the same or a changed program."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from warpsight._version import __version__
from warpsight.errors import UsageError, WarpsightError
from warpsight.model.sharing import secrets
from warpsight.race import check, counter, delays, plan, points, stressing
from warpsight.race.experiment import Experiment
from warpsight.race.plan import Plan, Point, Where
from warpsight.race.points import Chosen, DiscoveredPoints
from warpsight.recorder.launch import check_runnable, check_uninterrupted
from warpsight.sass.events import tracing
from warpsight.sass.events.trace import EventTrace


@dataclass(frozen=True)
class Replayed:
    """A run with a plan: the plan used, the exit code, the delays, and problems."""

    plan: Plan
    exit_code: int
    delays: pa.Table
    notes: tuple[str, ...]


def plan_of(
    command: Sequence[str],
    found: DiscoveredPoints,
    chosen: Chosen,
    where: Where,
    first: Sequence[Point] = (),
    **rule: Any,
) -> Plan:
    """A plan with the chosen points of a run: those in `first` come first, even if not chosen, and accesses before others.

    Args:
        command: the program.
        found: the points that its run found.
        chosen: which points to take.
        where: which warps wait.
        first: the most suspicious points.
        rule: mode, seed, probability, floor_ns, ceiling_ns.

    Raises:
        ValueError: when the rule contradicts itself.
    """
    known = set(found.points)
    taken = dict.fromkeys(
        [
            *(point for point in first if point in known),
            *sorted(filter(chosen.takes, found.points), key=lambda point: point.kind not in points.ACCESSES),
        ]
    )
    names = {point.kernel for point in taken}
    made = Plan(
        points=tuple(taken), where=where, code={name: found.code[name] for name in sorted(names)},
        versions={"warpsight": __version__}, command=tuple(command), **rule,
    )  # fmt: skip
    return msgspec.convert(msgspec.to_builtins(made), Plan)  # which checks the fields


@dataclass(frozen=True)
class PrioritySchedule:
    """A plan of mode `pct` for launches of at most this many warps; `bound`: see :func:`~warpsight.race.counter.bound`."""

    plan: Plan
    warps: int

    @property
    def bound(self) -> float:
        """A lower bound on how often a bug of its depth shows."""
        return counter.bound(self.plan.depth, self.warps, self.plan.steps)


def by_priorities(made: Plan, depth: int) -> PrioritySchedule:
    """The plan with waits by priorities; a run without waits counts the steps of its warps.

    Raises:
        StartError, WarpsightError: as :func:`replay`; also when no warp reaches a point.
    """
    probe = msgspec.structs.replace(
        made, mode="pct", depth=1, steps=1, probability=1.0, floor_ns=0, ceiling_ns=0
    )
    with tempfile.TemporaryDirectory(prefix="warpsight-steps-") as folder:
        path, log = Path(folder, "plan.json"), Path(folder, "log")
        plan.write(probe, path)
        check_runnable(made.command[0])
        check_uninterrupted(tracing.run_injected(made.command, delays.environment(path, log)))
        done = delays.delays_done(log).filter(pc.field("occurrence") != delays.UNCOUNTED)
        shapes = [launch.said for file in delays.logs(log) for launch in EventTrace(file).launches.values()]
    if not len(done):
        raise WarpsightError("no warp reached a point of the plan, so there are no steps for a schedule")
    steps = int(pc.max(done["occurrence"]).as_py()) + 1
    warps = max(math.prod(said["grid"]) * -(-math.prod(said["block"]) // 32) for said in shapes)
    floor = made.floor_ns if made.mode != "fixed" else 0
    return PrioritySchedule(
        msgspec.structs.replace(made, mode="pct", depth=depth, steps=steps, probability=1.0, floor_ns=floor),
        warps,
    )


def suspicious(program: Sequence[str], kernels: Sequence[str], launches: int = 64) -> tuple[Point, ...]:
    """The points of a program whose unordered accesses conflict in one traced run; each pair together."""
    selection = tracing.TraceSelection(events=check.TRACED, kernels=tuple(kernels), launches=(0, launches))
    with tempfile.TemporaryDirectory(prefix="warpsight-directed-") as folder:
        traced = tracing.trace(program, selection, Path(folder, "directed.events"))
        return tuple(check.suspicious([EventTrace(file) for file in traced.files]))


def provoked(
    program: Sequence[str], kernels: Sequence[str], first: Sequence[Point], seconds: float, same_output: bool
) -> check.Provoked:
    """The effect of delays at a program's points, from a randomized experiment.

    Args:
        program: the command line; a run fails if its exit code is not 0 or, with `same_output`, if its output differs from that
            without delays.
        kernels: patterns of the kernels to delay.
        first: suspicious points; if there are any, a plan of only these is also tried.
        seconds: most seconds to run.
        same_output: compare its output.
    """
    found = points.discover(program, kernels)
    chosen = [point for point in first if point in found.points]
    limited = replace(found, points=tuple(chosen)) if chosen else found
    made = plan_of(
        program, limited, Chosen(kinds=points.PATCHED), Where(), mode="random", seed=0, probability=0.5, floor_ns=0,
        ceiling_ns=100_000,
    )  # fmt: skip
    if not made.points:
        return check.Provoked(
            "not tried", 0, 0, 0, 0, "the program has no points at which warps can be delayed"
        )
    with tempfile.TemporaryDirectory(prefix="warpsight-check-") as folder:
        experiment = Experiment.of(program, Path(folder, "stress"), same_output=same_output)
        result = stressing.stress(experiment, made, limits=stressing.Limits(1000, seconds))
    control, delayed = result.control, result.delayed
    where = f"at the {len(chosen)} suspicious points" if chosen else f"at {len(made.points)} points"
    undecided = result.verdict == "not reproduced" and delayed.failures > 0
    return check.Provoked(
        str(result.verdict), delayed.failures, delayed.runs, control.failures, control.runs,
        f"{'undecided' if undecided else result.verdict} ({where}): {delayed.failures} of {delayed.runs} delayed runs failed, "
        f"{control.failures} of {control.runs} without delays" + ": a longer --for decides" * undecided,
    )  # fmt: skip


def replay(plan_path: Path, program: Sequence[str], log: Path | None, *, changed: bool) -> Replayed:
    """Run a program with the delays of a plan.

    Args:
        plan_path: the plan.
        program: the command line; if empty, that of the plan.
        log: path prefix of the logs to keep (`log.PID`); None: keep none.
        changed: find the plan's points in a program whose code has changed.

    Raises:
        FormatError: when there is no plan.
        UsageError: when there is no program.
        StartError, WarpsightError: when the program cannot be started, or a requirement is missing.
    """
    used = plan.read(plan_path)
    command = tuple(program) or used.command
    if not command:
        raise UsageError(
            f"{plan_path} names no program; write one: warpsight race replay {plan_path} -- PROGRAM"
        )
    if not program and secrets.HIDDEN in " ".join(command):
        raise UsageError(
            f"{plan_path} does not keep the secrets of its program's command line; write it out: "
            f"warpsight race replay {plan_path} -- PROGRAM"
        )
    check_runnable(command[0])
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="warpsight-replay-") as folder:
        if changed:
            instructions = ["*"] if delays.needs_nvbit(used) else None
            found = points.discover(command, sorted({point.kernel for point in used.points}), instructions)
            used, notes = mapped(used, found)
            plan_path = Path(folder, "plan.json")
            plan.write(used, plan_path)
        kept = log or Path(folder, "log")
        code = tracing.run_injected(command, delays.environment(plan_path, kept))
        done = delays.delays_done(kept)
        notes += delays.losses(kept)
        if used.points and used.ceiling_ns and used.probability:
            notes += delays.idle(used, kept, done)
        return Replayed(used, code, done, tuple(notes))


def mapped(old: Plan, found: DiscoveredPoints) -> tuple[Plan, list[str]]:
    """A plan for changed code: each point at its corresponding instruction, and a note on those without one.

    This is the instruction of the same function, kind and operation with the nearest source line; several on one line correspond
    in order. Lines may have moved, so check the new lines of a plan with few points.
    """
    before, after = _by_function(old.points), _by_function(found.points)
    pairs: dict[Point, Point] = {}
    for name, own in before.items():
        pairs |= _aligned(own, after.get(name, []))
    missing = [point for point in old.points if point not in pairs]
    notes = [f"no instruction of the program corresponds to {_point_text(point)}" for point in missing]
    kept = tuple(dict.fromkeys(pairs[point] for point in old.points if point in pairs))
    code = {name: found.code[name] for name in sorted({point.kernel for point in kept})}
    return msgspec.structs.replace(old, points=kept, code=code), notes


def _point_text(point: Point) -> str:
    return f"{point.opcode or point.kind} at {point.source[0] if point.source else hex(point.pc)}"


def _by_function(found: Sequence[Point]) -> dict[str, list[Point]]:
    grouped: dict[str, list[Point]] = defaultdict(list)
    for point in sorted(found, key=lambda point: (point.kernel, point.code, point.pc, point.kind)):
        grouped[point.kernel].append(point)
    return grouped


def _aligned(before: list[Point], after: list[Point]) -> dict[Point, Point]:
    """Points of a function and the corresponding ones in its changed version."""
    pairs: dict[Point, Point] = {}
    free = list(after)
    for point in before:
        same = [one for one in free if (one.kind, one.opcode) == (point.kind, point.opcode)]
        if same:
            pairs[point] = min(same, key=lambda one: (_distance(point, one), abs(one.pc - point.pc)))
            free.remove(pairs[point])
    return pairs


def _distance(one: Point, other: Point) -> int:
    """Lines between two instructions; a large number for different files, 0 if lines are unknown."""
    if not one.source or not other.source:
        return 0
    (file, _, line), (other_file, _, other_line) = (
        one.source[0].rpartition(":"),
        other.source[0].rpartition(":"),
    )
    return abs(int(line) - int(other_line)) + (0 if Path(file).name == Path(other_file).name else 1 << 20)

"""`warpsight race stress`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import output
from warpsight.ui.cli.race import oracles

if TYPE_CHECKING:
    from warpsight.race.experiment import Experiment
    from warpsight.race.plan import Plan

TAKES_PROGRAM = True
#: How long a kernel that hammers memory may last: a wait for the device takes so much longer.
_LONGEST_STRESS_NS = 300_000


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="[PLAN] -- PROGRAM [ARGS]…", help="The program; without a "
                          "plan, every point of `race points` is delayed.")] = None,
    confidence: oracles.Confidence = 0.95,
    folder: oracles.Folder = None,
    force: oracles.Force = False,
    as_json: oracles.AsJson = False,
    expect_exit: oracles.ExpectExit = 0,
    same_output: oracles.SameOutput = False,
    same_file: oracles.SameFile = None,
    tolerance: oracles.Tolerance = 0.0,
    timeout: oracles.Timeout = 600.0,
    hang_after: oracles.Hang = 60.0,
    in_process: oracles.InProcess = 1,
    inject: oracles.Inject = "sanitizer",
    gpus: oracles.Gpus = None,
    runs: Annotated[int, typer.Option(min=1, help="Most runs.", rich_help_panel="Runs")] = 1000,
    seconds: Annotated[float, typer.Option("--for", metavar="S", help="Most seconds.", rich_help_panel="Runs")] = 600.0,
    rate: Annotated[float, typer.Option("--rate", min=0, max=1, metavar="R", rich_help_panel="Runs", help="Stop once "
                          "delayed runs are shown to fail less often than this.")] = 0.0,
    ceilings: Annotated[list[int] | None, typer.Option("--delay", min=1, metavar="NS", rich_help_panel="Runs", help="Longest "
                        "delay to try; repeatable. By default 1/100, 1/10 and all of the plan's.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for the order of runs and their delays.", rich_help_panel="Runs")] = 0,
    directed: Annotated[bool, typer.Option("--directed", rich_help_panel="Options", help="Without a plan: put unordered "
                                           "conflicting accesses first, for `race reduce`. Traces 64 launches.")] = False,
    memory: Annotated[bool, typer.Option("--memory", rich_help_panel="Options", help="Instead of delays, run kernels that hammer "
                                         "memory beside the unpatched program, for weak-memory bugs.")] = False,
    depth: Annotated[int, typer.Option("--pct", min=0, max=16, metavar="DEPTH", rich_help_panel="Options", help="Without a "
                          "plan: delay by warp priorities that change at DEPTH − 1 random steps.")] = 0,
) -> None:  # fmt: skip
    """Find out whether delays make a program fail, by a randomized experiment against runs without delays.

    Exit codes: 0 not reproduced (the output gives the failure rate that is excluded), 10 reproduced, 11 natural (fails without
    delays too), 12 the runs cannot be judged. The failing plan is kept for `race replay` and `race reduce`. After an
    interruption, the same command continues.
    """
    from warpsight.race.stressing import Limits, stress
    from warpsight.ui.render.race import search as race_search

    path, program = oracles.sides(words or (), "warpsight race stress plan.json -- python test.py")
    experiment = oracles.experiment(
        "stress", program, folder, inject, gpus, expect_exit=expect_exit, same_output=same_output, same_files=same_file or (),
        tolerance=tolerance, timeout_s=timeout, hang_s=hang_after, in_process=in_process,
    )  # fmt: skip
    if (memory or depth) and (path is not None or (memory and depth)):
        raise UsageError("--memory and --pct make the plan: give one of them, or a plan")
    plan = _plan(path, experiment, force, directed, memory, depth)
    found = stress(
        experiment, plan, limits=Limits(runs, seconds, rate), confidence=confidence, seed=seed, ceilings=ceilings or (),
        force=force, progress=race_search.SearchProgress(),
    )  # fmt: skip
    with output.text(None) as stream:
        stream.write(output.json_text(found) if as_json else race_search.stress(found))
    raise typer.Exit(found.exit_code)


def _plan(
    path: Path | None, experiment: Experiment, force: bool, directed: bool, memory: bool, depth: int
) -> Plan:  # fmt: skip
    """The plan from the file, from the experiment being continued, or from a run of the program."""
    from warpsight.race import plan, points, prepare
    from warpsight.race.experiment import programs_own
    from warpsight.ui.render.race import plans as race

    if path is not None:
        return plan.read(path)
    begun = experiment.folder / "plan.json"
    if begun.exists() and not force:
        known = plan.read(begun)
        if (known.mode == "memory", known.depth) == (memory, depth):
            return known
    program = experiment.oracle.command
    own = experiment.injection is programs_own  # it chooses what to delay itself
    found = points.DiscoveredPoints((), {}, 0, ()) if own or memory else points.discover(program)
    first = prepare.suspicious(program, ()) if directed and found.points else ()
    made = prepare.plan_of(
        program, found, points.Chosen(kinds=points.PATCHED), plan.Where(), first, mode="memory" if memory else "random", seed=0,
        probability=1.0, floor_ns=10_000 if memory else 0, ceiling_ns=_LONGEST_STRESS_NS if memory else 100_000,
    )  # fmt: skip
    if not depth:
        return made
    schedule = prepare.by_priorities(made, depth)
    race.schedule(schedule)
    return schedule.plan

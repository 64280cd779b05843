"""`warpsight race reduce`."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import output
from warpsight.ui.cli.race import oracles

TAKES_PROGRAM = True


def command(
    words: Annotated[list[str] | None, typer.Argument(metavar="PLAN -- PROGRAM [ARGS]…", help="A plan that makes the program "
                                                      "fail, such as failing.json of `race stress`, and the program.")] = None,
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
    deterministic: Annotated[bool, typer.Option("--deterministic", rich_help_panel="Runs", help="Runs under one plan always "
                          "have the same outcome: do not repeat them.")] = False,
    points_only: Annotated[bool, typer.Option("--points-only", rich_help_panel="Runs", help="Skip the search for the "
                          "smallest delay, warps and CTAs.")] = False,
    warps: Annotated[int, typer.Option(min=0, max=32, metavar="N", rich_help_panel="Runs", help="Warps of a CTA to search, "
                          "0: those that waited.")] = 0,
    ctas: Annotated[int, typer.Option(min=0, metavar="N", rich_help_panel="Runs", help="CTAs to search, "
                         "0: those that waited.")] = 0,
    runs: Annotated[int, typer.Option(min=1, rich_help_panel="Runs", help="Most runs of a search.")] = 20_000,
) -> None:  # fmt: skip
    """Find the fewest points at which delays make a program fail, then the smallest delay, the fewest warps and CTAs.

    Works for programs that fail only sometimes. Exit codes: 0 reduced, 11 natural (fails without delays), 13 the plan does not
    make it fail. The reduced plan is kept for `race replay`. After an interruption, the same command continues.
    """
    from warpsight.race import plan
    from warpsight.race.search.reduction import reduce
    from warpsight.ui.render.race import search as race_search

    example = "warpsight race reduce test.stress/failing.json -- python test.py"
    path, program = oracles.sides(words or (), example)
    if path is None:
        raise UsageError(f"no plan to reduce; for example: {example}")
    experiment = oracles.experiment(
        "reduce", program, folder, inject, None, expect_exit=expect_exit, same_output=same_output, same_files=same_file or (),
        tolerance=tolerance, timeout_s=timeout, hang_s=hang_after, in_process=in_process,
    )  # fmt: skip
    found = reduce(
        experiment, plan.read(path), confidence=confidence, deterministic=deterministic, warps=warps, ctas=ctas,
        points_only=points_only, most_runs=runs, force=force, progress=race_search.searched,
    )  # fmt: skip
    with output.text(None) as stream:
        stream.write(output.json_text(found) if as_json else race_search.reduce(found))
    raise typer.Exit(found.exit_code)

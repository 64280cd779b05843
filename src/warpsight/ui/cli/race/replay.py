"""`warpsight race replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli.options import SIDES

TAKES_PROGRAM = True


def command(
    plan_path: Annotated[Path, typer.Argument(metavar="PLAN", help="A delay plan.")],
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program; that of the plan "
                       "by default.")] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the log of delays: FILE.PID of each process.")] = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the delays as a table: .csv or .parquet.")] = None,
    changed: Annotated[bool, typer.Option("--allow-changed", help="Find the plan's points in a program that was changed since, "
                       "by source line and instruction. Costs a run.")] = False,
) -> None:  # fmt: skip
    """Run a program with a plan's delays, which are the same in each run.

    Ends with the program's exit code. A kernel whose code is not the plan's ends the program with exit code 125, unless
    --allow-changed.
    """
    from warpsight.race import prepare
    from warpsight.ui.render import terminal
    from warpsight.ui.render.race import plans as race

    if table is not None and table.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--table {table}: write a name that ends in .csv or .parquet")
    words = tuple(program or ())
    if words and words[0] != SIDES:
        raise UsageError(f"write -- before the program: warpsight race replay {plan_path} -- {words[0]}")
    replayed = prepare.replay(plan_path, words[1:], log, changed=changed)
    for note in replayed.notes:
        terminal.warning(note)
    race.replayed(replayed)
    if table is not None:
        race.write_table(replayed.delays, table)
    raise typer.Exit(replayed.exit_code)

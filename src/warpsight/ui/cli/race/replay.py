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
    program: Annotated[list[str] | None, typer.Argument(metavar="[[--] PROGRAM [ARGS]…]", help="The program; by default "
                          "the command that the plan names.")] = None,
    log: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep each process's log of delays in FILE.PID.")] = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the delays as a table: .csv or .parquet.")] = None,
    changed: Annotated[bool, typer.Option("--allow-changed", help="Find the plan's points in a changed program by source line "
                                          "and instruction, in an extra run.")] = False,
) -> None:  # fmt: skip
    """Run a program with a plan's delays, which are the same in each run.

    Without a program it runs the plan's own `command` as you: read it first in a plan that somebody else wrote. Exits with the
    program's code, or with 125 when a kernel's code is not the plan's, unless --allow-changed.
    """
    import shlex

    from warpsight.model.sharing import secrets
    from warpsight.race import plan, prepare
    from warpsight.ui.render import terminal
    from warpsight.ui.render.race import plans as race

    if table is not None and table.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--table {table}: write a name that ends in .csv or .parquet")
    words = tuple(program or ())
    if words and words[0] != SIDES:
        raise UsageError(f"write -- before the program: warpsight race replay {plan_path} -- {words[0]}")
    if not words and (command := plan.read(plan_path).command):
        terminal.note(f"running what {plan_path} names: {secrets.each([shlex.join(command)])[0]}")
    replayed = prepare.replay(plan_path, words[1:], log, changed=changed)
    terminal.warning(*replayed.notes)
    race.replayed(replayed)
    if table is not None:
        race.write_table(replayed.delays, table)
    raise typer.Exit(replayed.exit_code)

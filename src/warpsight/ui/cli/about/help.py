"""`warpsight help VERB`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import parser
from warpsight.ui.cli.app import VERBS, overview


def command(
    verb: Annotated[
        str | None,
        typer.Argument(help="Verb to explain; without one, list the common ones.", metavar="VERB"),
    ] = None,
    below: Annotated[
        str | None, typer.Argument(help="A verb below it, as in: help race check.", metavar="VERB")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every verb.")] = False,
) -> None:
    """Show the help of a verb."""
    if verb is None or every:
        sys.stdout.write(overview(every=every))
        return
    if verb not in VERBS:
        raise UsageError(parser.unknown_verb(verb))
    found = parser.verb_command(verb)
    if below is not None and not hasattr(found, "commands"):
        raise UsageError(f"{verb} has no verbs below it; its help: warpsight help {verb}")
    words = ["--help"] if below is None else [below, "--help"]
    found.main(args=words, prog_name=f"warpsight {verb}", standalone_mode=False)

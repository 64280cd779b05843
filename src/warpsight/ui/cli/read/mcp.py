"""`warpsight mcp`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import app


def command(
    roots: Annotated[list[Path] | None, typer.Argument(metavar="[FOLDER]…", help="Folders that may be read; the current one by "
                                                       "default.")] = None,
    skill: Annotated[Path | None, typer.Option("--install-skill", metavar="FOLDER", help="Install the agent skill in this folder "
                                               "(such as .claude/skills) and exit.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace a skill that differs.")] = False,
) -> None:  # fmt: skip
    """Serve traces to agents over the Model Context Protocol (standard input and output).

    Tools: list_traces, info, analyze, window, source, stats, query, flame, diff. Read-only, with bounded answers, for files
    below the given folders.
    """
    # Front ends do not import each other; this verb is the one way in.
    if skill is not None:
        target, written = importlib.import_module("warpsight.ui.mcp.skill").install(skill, force=force)
        typer.echo(f"{target}  {'installed' if written else 'is current'}")
        return
    app.end_soon_after_interrupt(grace_s=0)
    importlib.import_module("warpsight.ui.mcp.server").serve(roots or [Path()])

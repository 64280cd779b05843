"""`warpsight trigger`: have a flight recorder write a trace of its window."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsight.ui.cli.output import json_text

_PATIENCE_S = 600.0


def command(
    recording: Annotated[str, typer.Argument(metavar="PID|DIR",
                         help="A recorded process, its launcher, or the recording's folder.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, kept in the trace and its name.")] = "asked for",
    json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:  # fmt: skip
    """Make a flight recorder write a trace of its last seconds.

    Needs a recording with `--ring`. Prints the trace's folder once it can be read.
    """
    from warpsight.recorder import find
    from warpsight.recorder.drain import listener

    answer = listener.ask(find.socket_of(recording), {"do": "trigger", "reason": reason}, _PATIENCE_S)
    print(json_text(answer) if json else answer["path"], end="" if json else "\n")

"""`warpsight race`: a folder of verbs about timing bugs."""

from __future__ import annotations

#: Verbs below `race`, each a module here with a `command`.
BELOW = ("check", "points", "stress", "reduce", "replay")


def command() -> None:
    """Find timing bugs: provoke them with delays, prove that the delays are the cause, shrink them to the fewest points.

    `check` looks for races and suggests repairs. `points` writes a plan of the instructions where warps can be delayed.
    `stress` and `reduce` run the program many times; `replay` runs it once with a plan's delays.
    """

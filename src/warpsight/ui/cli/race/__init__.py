"""`warpsight race`: a folder of verbs about timing bugs."""

from __future__ import annotations

#: Verbs below `race`, each a module here with a `command`.
BELOW = ("points", "check", "stress", "reduce", "replay")


def command() -> None:
    """Find timing bugs: provoke them with delays, prove that the delays are the cause, shrink them to the fewest points.

    `points` lists the instructions of a program at which warps can be delayed, as a plan. `check` looks for races in one go and
    suggests repairs. `stress` and `reduce` run the program many times. `replay` runs it once with a plan's delays.
    """

"""`warpsight capsule`: a folder of verbs about GPU work cut out of programs."""

from __future__ import annotations

#: Verbs below `capsule`, each a module here with a `command`.
BELOW = ("record", "show", "export")


def command() -> None:
    """Cut kernels out of a running program to run them again, and say what a capsule holds.

    `record` makes a capsule, `show` describes it, `warpsight replay` runs it, `export` turns it into a program. A capsule is a
    program with its memory: replay only capsules that you trust, and do not share one that holds secrets (`--values`).
    """

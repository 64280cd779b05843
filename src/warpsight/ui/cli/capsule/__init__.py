"""`warpsight capsule`: a folder of verbs about GPU work cut out of programs."""

from __future__ import annotations

#: Verbs below `capsule`, each a module here with a `command`.
BELOW = ("record", "show", "export")


def command() -> None:
    """Cut kernels out of a running program to run them again, and say what a capsule holds.

    `record` makes a capsule, `show` says what one holds, `warpsight replay` runs it, `export` makes a program of it.
    A capsule is a program and holds the memory of one: replay only capsules that you trust, and share none that holds what is
    secret (`--values`).
    """

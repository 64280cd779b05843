"""Descriptors of warpsight's own processes: keeps the three standard ones open, and allows enough others."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

#: Below this the soft limit is raised; a recorded process takes about eight.
_ENOUGH = 1024


def fill_standard() -> None:
    """Open closed descriptors 0, 1 and 2 on /dev/null: otherwise one of our files could become someone's output.

    Standard output is opened for reading, so that writing a result to it is an error and not a silent loss. Programs started from
    here still find them closed.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # takes the lowest free number, and is not inherited
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def raise_limit() -> Callable[[], None] | None:
    """Allow this process more open files; returns a function that restores the limit in a child, or None."""
    import resource  # not on every system that this module is imported on

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = hard if hard != resource.RLIM_INFINITY else _ENOUGH
    if soft == resource.RLIM_INFINITY or soft >= min(_ENOUGH, most):
        return None
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_ENOUGH, most), hard))
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

"""Command lines of warpsight's own child processes: this interpreter, this package, nothing of the user's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import warpsight

# `python -m` would put the working directory first, where a user's numpy.py may lie; and the package may
# have come
# from a path that only this process knows.
_RUN = ("import runpy, sys; sys.path[0:1] = [{root!r}]; "
        "runpy.run_module({module!r}, run_name='__main__', alter_sys=True)")  # fmt: skip


def python_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package in a new interpreter."""
    root = str(Path(warpsight.__file__).resolve().parent.parent)
    return [sys.executable, "-c", _RUN.format(root=root, module=module), *arguments]

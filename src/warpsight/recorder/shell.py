"""`record --print-env`: a recording for everything a shell starts, without `warpsight record` in front of it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from warpsight.recorder.environment import SOCKET, recorder_variables
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.served import Served


def print_environment(path: Path, settings: Settings, *, force: bool) -> None:
    """Start a server that ends with the calling shell, and print the variables that connect programs to it.

    For `eval "$(warpsight record --print-env -o run.warp)"` in a batch script, before srun, mpirun or a
    container.

    Raises:
        WarpsightError: when it cannot record.
    """
    variables = recorder_variables(settings, os.environ)
    server = Served(path, settings, force=force, watch=_shell())
    for name, value in {**variables, **settings.launcher_variables(), SOCKET: server.socket}.items():
        print(f"export {name}={shlex.quote(value)}")
    server.leave()
    print(f"recording into {server.folder} until this shell ends", file=sys.stderr)


def _shell() -> int:
    """The shell that evaluates our output: the parent of the subshell for `$(…)`, which exits along with us."""
    parent = os.getppid()
    try:
        above = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        same = Path(f"/proc/{parent}/cmdline").read_bytes() == Path(f"/proc/{above}/cmdline").read_bytes()
    except (OSError, ValueError):
        return parent
    return above if same else parent

"""`ws.run(["python", "train.py"], …)`: what `warpsight record` does, from Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.recorder.child import python_command
from warpsight.recorder.options import table as rows
from warpsight.recorder.options.keywords import takes_options
from warpsight.recorder.options.settings import Settings, keyword_values
from warpsight.recorder.options.values import spelled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from warpsight.api.trace import Trace
    from warpsight.recorder.options.types import RunOptions


@dataclass(frozen=True)
class Run:
    """A recorded run: where its trace is and how the program ended (128 + signal, 127, 126)."""

    path: Path
    returncode: int

    def open(self) -> Trace:
        """Open the trace."""
        from warpsight.api import trace

        return trace.open(self.path)


@takes_options(rows.RECORDING, rows.VENDOR)
def run(command: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str] | None = None, *, force: bool = False,
        environment: Mapping[str, str] | None = None, **options: Unpack[RunOptions]) -> Run:  # fmt: skip
    """Run a program and record it. The program uses this terminal.

    Options that are not given come from the environment or a configuration file, as with `warpsight record`.

    Args:
        command: The program and its arguments.
        path: The folder to make; a new temporary one by default.
        force: Replace an existing trace.
        environment: The program's environment; by default, this process's.
        options: See docs/reference/options.md.

    Raises:
        UsageError: for unknown options or invalid values.
    """
    given = _values(options)
    target = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="warpsight-run-")) / "run.warp"
    flags = [part for name, value in given.items() for part in spelled(rows.BY_NAME[name], value)]
    arguments = ["record", "-q", "-o", str(target), *(["-f"] if force else []), *flags, "--"]
    child = python_command("warpsight.ui.cli", *arguments, *[os.fspath(part) for part in command], site=True)
    finished = subprocess.run(child, env=None if environment is None else dict(environment), check=False)
    return Run(target, finished.returncode)


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as checked values, with a vendor recorder's arguments joined into one string."""
    arguments = options.get("backend_args", "")
    if not isinstance(arguments, str):
        options = {**options, "backend_args": shlex.join(map(os.fspath, arguments))}
    given = keyword_values(options, rows.RECORDING, rows.VENDOR)
    Settings.of({name: given[name] for name in given if rows.BY_NAME[name].scope == rows.RECORDING})
    return given

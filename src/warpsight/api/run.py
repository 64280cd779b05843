"""`ws.run(["python", "train.py"], …)`: what `warpsight record` does, from Python."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.recorder.child import python_command
from warpsight.recorder.settings import Settings

if TYPE_CHECKING:
    from warpsight.api.trace import Trace

_FLAGS = {"duration": "--for", "leave_cupti": "--yield", "triggers": "--trigger"}


@dataclass(frozen=True)
class Run:
    """A recorded run: where its trace is and how the program ended (128 + signal, 127, 126)."""

    path: Path
    returncode: int

    def open(self) -> Trace:
        """Open the trace."""
        from warpsight.api import trace

        return trace.open(self.path)


def run(command: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str] | None = None, *, force: bool = False,
        environment: Mapping[str, str] | None = None, **options: Any) -> Run:  # fmt: skip
    """Run a program and record it; `options` as in :func:`warpsight.record`. The program shares our terminal.

    `path` is the folder to make; without one it is a new temporary folder. `backend` may also be a vendor's recorder
    (`nsys`, `rocm`, `metal`, `maca`, `ascend`), with `backend_args` (a list of arguments for it), `template` (of
    Instruments), `keep`, `duration` and `delay`; of `rocm` and `maca` `recorder` chooses between ours (`own`) and theirs
    (`vendor`).

    Raises:
        UsageError: for options that do not exist or make no sense.
    """
    vendor = _vendor_flags(options)
    settings = Settings.of(options)
    target = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="warpsight-run-")) / "run.warp"
    arguments = [
        "record",
        "-q",
        "-o",
        str(target),
        *(["-f"] if force else []),
        *vendor,
        *_flags(settings),
        "--",
    ]
    child = python_command("warpsight.ui.cli", *arguments, *[os.fspath(part) for part in command])
    finished = subprocess.run(child, env=None if environment is None else dict(environment), check=False)
    return Run(target, finished.returncode)


def _vendor_flags(options: dict[str, Any]) -> list[str]:
    """Take a vendor's recorder and what is meant for it out of the options, as flags of the command line."""
    from warpsight.recorder.vendors import VENDORS

    if options.get("backend") not in VENDORS:
        return []
    out = ["--backend", options.pop("backend")]
    arguments = options.pop("backend_args", [])
    if arguments:
        text = arguments if isinstance(arguments, str) else shlex.join(map(os.fspath, arguments))
        out.append(f"--backend-args={text}")
    if recorder := options.pop("recorder", ""):
        out += ["--recorder", str(recorder)]
    if template := options.pop("template", ""):
        out += ["--template", str(template)]
    if options.pop("keep", False):
        out.append("--keep")
    return out


def _flags(settings: Settings) -> list[str]:
    """Options that differ from their defaults, as on the command line."""
    out: list[str] = []
    defaults = Settings()
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if value == getattr(defaults, field.name):
            continue
        flag = _FLAGS.get(field.name, "--" + field.name.replace("_", "-"))
        if field.name == "kernels":
            for pattern in value:
                out += [flag, pattern]
        elif isinstance(value, bool):
            out.append(flag)
        else:
            out += [flag, ",".join(value) if isinstance(value, tuple) else str(value)]
    return out

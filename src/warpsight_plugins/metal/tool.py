"""Apple's `xctrace record`: its options come before `--launch --`, the program after. The recording holds the exit code."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from warpsight.recorder.external.tool import Tool, ToolRequest, given
from warpsight_plugins.instruments.export import xctrace

_TEMPLATES = ("Metal System Trace", "GPU Driver", "Game Performance", "Animation Hitches")
_BUNDLE = "run.trace"


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    own = ["record"]
    if not given(request.arguments, "--template", "--instrument"):
        own += ["--template", request.template or _TEMPLATES[0]]
    own += ["--output", str(folder / _BUNDLE)]
    if request.duration:
        own += ["--time-limit", f"{round(request.duration * 1000)}ms"]
    if not given(request.arguments, "--target-stdout"):
        own += ["--target-stdout", "-"]
    # A shell between would lose Instruments the program, and so would a name it must look for.
    return [*own, *request.arguments, "--launch", "--", shutil.which(program[0]) or program[0], *program[1:]]


def _outputs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.trace"))


def _exit_code(folder: Path) -> int | None:
    """The exit code of the launched process, by the recording's table of contents."""
    tool = xctrace()
    bundles = _outputs(folder)
    if tool is None or not bundles:
        return None
    done = subprocess.run(
        [*tool, "export", "--input", str(bundles[-1]), "--toc"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        errors="replace",
    )  # fmt: skip
    try:
        process = ElementTree.fromstring(done.stdout).find(".//target/process")
    except ElementTree.ParseError:
        return None
    status = process.get("return-exit-status", "") if process is not None else ""
    return int(status) if status.isdigit() else None


TOOL = Tool(
    advice="it comes with Xcode, on a Mac: xcode-select --install, then open Xcode once",
    find=xctrace,
    arguments=_arguments,
    outputs=_outputs,
    form="instruments",
    exit_code=_exit_code,
    probe=("version",),
)

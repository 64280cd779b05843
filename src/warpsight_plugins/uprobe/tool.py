"""Uprobes on the GPU runtimes' functions: launch stacks of a process without any injected code.

Probes are placed through tracefs and perf takes the stacks, so root is needed. Frames are found by frame pointers. In a function
without them the kernel skips the caller; `--backend-args "--call-graph dwarf"` finds it at a higher cost.

The GPU's work is not recorded: `warpsight merge` puts the stacks on a GPU trace of the same run.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from warpsight.recorder.external.tool import Tool, ToolRequest

STACKS = "stacks.txt"


def _find() -> list[str] | None:
    if shutil.which("perf") is None:
        return None
    return [sys.executable, "-m", "warpsight_plugins.uprobe"]


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    own = ["--output", str(folder / STACKS)]
    if request.duration:
        own += ["--duration", f"{request.duration:g}"]
    if request.pid:
        own += ["--pid", str(request.pid)]
    return [*own, *request.arguments, *(["--", *program] if program else [])]


TOOL = Tool(
    advice="install perf (linux-perf, linux-tools or perf of your distribution)",
    find=_find,
    arguments=_arguments,
    outputs=lambda folder: [folder / STACKS] if (folder / STACKS).is_file() else [],
    form="perf-script",
    probe=None,  # requires doctor's check of perf events
)

"""MetaX' mcTracer. Its exit code is undocumented, so the program's exit code is written separately."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from warpsight.recorder.external.tool import Tool, ToolRequest, below, on_path


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    return ["--mctx", "--odname", str(folder), "--name", "warpsight", *request.arguments, "--", *program]


def _outputs(folder: Path) -> list[Path]:
    """The newest of its numbered files."""
    found = sorted(folder.rglob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return found[-1:]


TOOL = Tool(
    advice="it comes with MetaX' MACA SDK; set MACA_PATH when it is not in /opt/maca",
    find=lambda: on_path(
        "mcTracer", below("MACA_PATH", "bin"), "/opt/maca/bin", *sorted(glob.glob("/opt/maca-*/bin"))[::-1]
    ),
    arguments=_arguments,
    outputs=_outputs,
    form="mctracer",
    hides_exit_code=True,
    probe=("--help",),
)

"""Huawei's msprof. It exits with its own code, so the program's exit code is written separately."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpsight.recorder.external.tool import Tool, ToolRequest, below, on_path


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    own = [f"--output={folder}"]
    if request.delay:
        own.append(f"--delay={request.delay:g}")
    if request.duration:
        own.append(f"--duration={request.duration:g}")
    return [*own, *request.arguments, *program]


def _outputs(folder: Path) -> list[Path]:
    from warpsight.formats.source import Source
    from warpsight_plugins.msprof import sniff

    with Source(folder) as source:
        return [folder] if sniff(source) else []


TOOL = Tool(
    advice="it comes with Huawei's CANN toolkit: source its set_env.sh first",
    find=lambda: on_path(
        "msprof",
        below("ASCEND_TOOLKIT_HOME", "tools", "profiler", "bin"),
        "/usr/local/Ascend/ascend-toolkit/latest/tools/profiler/bin",
    ),
    arguments=_arguments,
    outputs=_outputs,
    form="msprof",
    hides_exit_code=True,
)

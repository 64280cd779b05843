"""Nsight Systems: `nsys profile`. It ends with the program's exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpsight.formats.nsys.export import nsys
from warpsight.recorder.external.tool import Tool, ToolRequest, given


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    own = ["profile", f"--output={folder / 'report'}", "--force-overwrite=true"]
    if not given(request.arguments, "-t", "--trace"):
        own.append("--trace=cuda,nvtx,osrt")
    if request.delay:
        own.append(f"--delay={request.delay:g}")
    if request.duration:
        own += [
            f"--duration={request.duration:g}",
            "--kill=none",
        ]  # the program goes on, as with our own recorder
    return [*own, *request.arguments, *program]


TOOL = Tool(
    advice="install NVIDIA Nsight Systems, or record with warpsight itself: --backend cuda",
    find=nsys,
    arguments=_arguments,
    outputs=lambda folder: sorted(folder.glob("*.nsys-rep")),
    form="nsys",
)

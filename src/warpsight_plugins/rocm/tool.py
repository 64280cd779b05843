"""AMD's rocprofv3. It becomes the program, so its exit code is the program's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from warpsight.recorder.external.tool import Tool, ToolRequest, below, given, on_path

#: The expansion of `--runtime-trace`; users who name kinds of traces themselves get only those.
_TRACES = (
    "--runtime-trace", "-r", "--sys-trace", "-s", "--hip-trace", "--kernel-trace", "--memory-copy-trace", "--marker-trace",
    "--hsa-trace", "--rccl-trace", "--pmc", "-i", "--input", "--hip-runtime-trace", "--memory-allocation-trace",
)  # fmt: skip


def _arguments(request: ToolRequest, folder: Path, program: Sequence[str]) -> list[str]:
    own = ["--output-directory", str(folder), "--output-format", "json"]
    if not given(request.arguments, *_TRACES):
        own.append("--runtime-trace")
    if request.delay or request.duration:
        # delay:time:repetitions in whole milliseconds; the program may well end before a year is over
        period = (request.delay, request.duration or 365 * 86_400)
        own += ["--collection-period", ":".join([*(f"{round(s * 1000)}" for s in period), "1"])]
        own += ["--collection-period-unit", "msec"]
    return [*own, *request.arguments, "--", *program]


def _outputs(folder: Path) -> list[Path]:
    return [folder] if any(folder.rglob("*_results.json")) else []


TOOL = Tool(
    advice="install the package rocprofiler-sdk of ROCm 6.2 or newer; OpenCL programs do not need it: --backend opencl",
    find=lambda: on_path("rocprofv3", below("ROCM_PATH", "bin"), "/opt/rocm/bin"),
    arguments=_arguments,
    outputs=_outputs,
    form="rocprof",
)

"""Running NVIDIA's Compute Sanitizer: from the wheel `nvidia-cuda-sanitizer-api` or a toolkit."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsight.debug.sanitizer_chains import complete
from warpsight.debug.sanitizer_report import SanitizerFinding, findings
from warpsight.device_code.disassembly import find_tool
from warpsight.errors import WarpsightError
from warpsight.recorder.launch import check_runnable
from warpsight.recorder.signals import run_to_end

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
#: The tool's messages about itself, in its text output.
_TOOL_ERROR = re.compile(r"^========= (Error: .*|Internal .*|Warning: .*)$", re.MULTILINE)
_SUMMARY = re.compile(r"^========= ((?:ERROR|RACECHECK|LEAK) SUMMARY: .*)$", re.MULTILINE)
#: The program's own exit, which we need not explain.
_PROGRAM_ENDED = "process didn't terminate successfully"


@dataclass(frozen=True)
class SanitizerRun:
    """The outcome of a run.

    Attributes:
        code: exit code of the program, or of the tool where it could not run it.
        findings: see :class:`~warpsight.debug.sanitizer_report.SanitizerFinding`.
        summaries: the tool's closing lines, one for each process.
        troubles: the tool's messages about itself, and damage to its reports.
    """

    code: int
    findings: tuple[SanitizerFinding, ...]
    summaries: tuple[str, ...]
    troubles: tuple[str, ...]


def sanitize(
    tool: str,
    program: Sequence[str],
    limit: int = 10_000,
    extra: Sequence[str] = (),
    keep: Path | None = None,
) -> SanitizerRun:
    """Run a program under one of the tools; the program keeps its terminal, and the tool's output goes to a file.

    Args:
        tool: one of :data:`TOOLS`.
        program: the command line.
        limit: records at most, 0 for all.
        extra: further options for compute-sanitizer, in its own spelling.
        keep: folder for the tool's own reports; a temporary one by default.

    Raises:
        StartError: when the program does not exist (127) or cannot be run (126), which the tool would not distinguish from a
            failing program.
        WarpsightError: when compute-sanitizer is not installed or cannot be started.
    """
    check_runnable(program[0])
    path = find_tool("compute-sanitizer")
    if path is None:
        raise WarpsightError(
            "compute-sanitizer is not installed: pip install nvidia-cuda-sanitizer-api, or install the CUDA toolkit"
        )
    with tempfile.TemporaryDirectory(prefix="warpsight-sanitizer-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(path), "--tool", tool, "--print-limit", str(limit), "--xml", "--save", str(folder / f"{tool}.%p.xml"),
            "--log-file", str(folder / f"{tool}.%p.txt"), *extra, *program,
        ]  # fmt: skip
        before = set(folder.iterdir())
        try:
            code = run_to_end(command, below=True)
        except OSError as error:
            raise WarpsightError(f"{path}: {error.strerror or error}") from None
        new = sorted(set(folder.iterdir()) - before)
        run = _collect(code, [f for f in new if f.suffix == ".xml"], [f for f in new if f.suffix == ".txt"])
        complete(run.findings, program)
        return run


def _collect(code: int, reports: Sequence[Path], logs: Sequence[Path]) -> SanitizerRun:
    found, troubles = findings(reports)
    summaries: list[str] = []
    for log in logs:
        text = log.read_text("utf-8", "replace")
        summaries += _SUMMARY.findall(text)
        own = [line for line in _TOOL_ERROR.findall(text) if "Race reported" not in line]
        troubles += [line for line in own if _PROGRAM_ENDED not in line]
    if not reports and not troubles:
        troubles.append("compute-sanitizer wrote no report: the program used no CUDA, or ended before it did")
    return SanitizerRun(code, tuple(found), tuple(summaries), tuple(dict.fromkeys(troubles)))

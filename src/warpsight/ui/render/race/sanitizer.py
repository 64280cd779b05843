"""Findings of Compute Sanitizer for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

from warpsight.debug.sanitizer import SanitizerRun
from warpsight.debug.sanitizer_report import SanitizerFinding, interesting
from warpsight.device_code.debug_info.inline_chain import Frame, source_line
from warpsight.ui.render.dump.summary import plain_name, triple
from warpsight.ui.render.terminal import colored

_RED, _YELLOW, _RESET = "\033[1;31m", "\033[33m", "\033[0m"


def show(run: SanitizerRun, stream: IO[str], sources: tuple[str, ...] = (), top: int = 20) -> None:
    """Print the findings, `top` at most."""
    color = colored(stream)
    for number, finding in enumerate(run.findings[:top], 1):
        for line in _finding_lines(finding, number, sources, color):
            stream.write(line.rstrip() + "\n")
    hidden = len(run.findings) - top
    if hidden > 0:
        stream.write(f"and {hidden:,} more findings; --top 0 shows all\n")
    errors = sum(finding.count for finding in run.findings if finding.severity == "error")
    others = sum(finding.count for finding in run.findings) - errors
    stream.write(
        f"{len(run.findings):,} findings from {errors:,} errors and {others:,} warnings\n"
        if run.findings
        else "no findings, but the program was not checked as a whole\n"
        if run.troubles
        else "no findings\n"
    )


def _finding_lines(
    finding: SanitizerFinding, number: int, sources: tuple[str, ...], color: bool
) -> Iterator[str]:
    """The lines of one finding."""
    paint = (_RED if finding.severity == "error" else _YELLOW) if color else ""
    count = f" ({finding.count:,} times)" if finding.count > 1 else ""
    yield f"{number}. {paint}{finding.severity}: {finding.message}{_RESET if paint else ''}{count}"
    yield from _chain(finding.frames, sources)
    for index, access in enumerate(finding.accesses):
        hazards = f", {access.hazards:,} hazards" if access.hazards else ""
        yield f"   {'between a' if index == 0 else 'and a'} {access.direction}{hazards}"
        yield from _chain(access.chain, sources)
    if finding.threads:
        block, thread = finding.threads[0]
        more = f" and {finding.count - 1:,} more threads" if finding.count > 1 else ""
        yield f"   thread {triple(thread)} of block {triple(block)}{more}"
    if finding.address is not None:
        yield f"   address {finding.address:#x}"
    host = interesting(finding.host)
    if host:
        yield f"   host stack ({finding.host_at or 'at the call'})"
    for frame in host:
        place = f"{frame.file}:{frame.line}" if frame.file else f"{frame.module} + {frame.offset}"
        yield f"     {plain_name(frame.function)} in {place}"
    yield ""


def _chain(frames: Sequence[Frame], sources: tuple[str, ...]) -> Iterator[str]:
    for index, frame in enumerate(frames):
        word = "in" if index == 0 else "called from"
        place = (
            f" at {frame.file}:{frame.line}" if frame.file else " (no line information: build with -lineinfo)"
        )
        yield f"   {word} {plain_name(frame.function) or '?'}{place}"
        text = source_line(frame.file, frame.line, sources)
        if text:
            yield f"       {text}"

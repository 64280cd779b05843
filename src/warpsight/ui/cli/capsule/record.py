"""`warpsight capsule record`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.replay.recording import Choice, Recorded

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
_VALUES = ("all", "none", "zeros", "random")
_REACH = ("found", "all")
SYSTEMS = ("linux",)


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to cut from.")] = None,
    kernels: Annotated[list[str] | None, typer.Option("-k", "--kernel", metavar="PATTERN",
                       help="Kernels whose mangled or demangled name matches; repeatable. All by default.")] = None,
    launch: Annotated[str | None, typer.Option("--launch", metavar="N or LOW..HIGH",
                      help="Launches of those kernels, from 0, and everything between them. The launch of a graph with such a "
                      "kernel counts as one.")] = None,
    named_range: Annotated[str | None, typer.Option("--range", metavar="PATTERN", help="All work in an NVTX range whose name "
                           "matches; --launch then says which of them.")] = None,
    step: Annotated[int | None, typer.Option(min=1, metavar="N",
                    help="All work of one iteration: between the N-th call of ws.step() and the next.")] = None,
    frame: Annotated[int | None, typer.Option(min=0, metavar="N",
                     help="All work of the N-th block under ws.capture_frame(), from 0.")] = None,
    reach: Annotated[str, typer.Option(help="Memory that comes along: found (parameters, and every address found in memory "
                     "that is reached) or all (everything live).")] = "found",
    values: Annotated[str, typer.Option(help="What memory holds: all, none, or zeros or random bytes in its place, with "
                      "addresses kept.")] = "all",
    shadow: Annotated[bool, typer.Option("--shadow/--no-shadow", help="Copy memory within the GPU while the program is held, "
                      "where it has room; otherwise to the host at once.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New folder; PROGRAM.capsule by default.")] = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run a program and cut GPU work out of it, so that it can run again on its own.

    The program is held at each chosen operation while memory is copied, and runs on at full speed otherwise. Textures, managed
    memory and memory of other GPUs or processes cannot be cut out: the verb says so and leaves no capsule. Needs CUPTI and a
    driver of CUDA 12.4 or newer.
    """
    from warpsight.replay import recording

    if not program:
        raise UsageError(
            "no program; for example: warpsight capsule record -k 'softmax*' --launch 3 -- python train.py"
        )
    choice = _choice(kernels or [], launch, named_range, step, frame, reach, values, shadow)
    recorded = recording.record(
        program, choice, out or Path(f"{Path(program[0]).stem}.capsule"), replace=force
    )
    _summarize(recorded)
    raise typer.Exit(recorded.code)


def _choice(
    kernels: list[str], launch: str | None, named_range: str | None, step: int | None, frame: int | None, reach: str,
    values: str, shadow: bool,
) -> Choice:  # fmt: skip
    from warpsight.inside.capsules import FRAME, STEP
    from warpsight.replay.recording import Choice

    if sum((bool(kernels), named_range is not None, step is not None, frame is not None)) > 1:
        raise UsageError("--kernel, --range, --step and --frame exclude each other")
    if launch and (step is not None or frame is not None):
        raise UsageError("--launch goes with --kernel and --range")
    if reach not in _REACH:
        raise UsageError(f"--reach {reach}: write {' or '.join(_REACH)}")
    if values not in _VALUES:
        raise UsageError(f"--values {values}: write {', '.join(_VALUES[:-1])} or {_VALUES[-1]}")
    number = step - 1 if step is not None else frame
    launches = _range(launch) if number is None else (number, number + 1)
    pattern = STEP if step is not None else FRAME if frame is not None else named_range or ""
    if named_range is not None and launches[1] != launches[0] + 1:
        raise UsageError("--range takes one number with --launch: which of the ranges it is")
    return Choice(
        tuple(kernels), launches, pattern, reach == "all",
        values, shadow,  # type: ignore[arg-type]
    )  # fmt: skip


def _range(text: str | None) -> tuple[int, int]:
    """LOW..HIGH without HIGH, or one number; the first by default."""
    low, dots, high = (text or "0").partition("..")
    try:
        begin = int(low)
        end = int(high) if dots else begin + 1
    except ValueError:
        raise UsageError(f"--launch {text}: write N or LOW..HIGH") from None
    if begin < 0 or end <= begin or end > 2**63:
        raise UsageError(f"--launch {text}: the range is empty or too large (HIGH does not belong to it)")
    return begin, end


def _summarize(recorded: Recorded) -> None:
    from warpsight.ui.render import terminal
    from warpsight.ui.render.numbers import duration, size

    for capsule in recorded.capsules:
        held = capsule.manifest
        memory = sum(a.size for a in held.allocations)
        terminal.note(
            f"{capsule.path}: {len(held.operations):,} operations, {len(held.allocations):,} allocations of {size(memory)}, "
            f"{size(capsule.packed_bytes())} on disk; look: warpsight capsule show {capsule.path}"
        )
        for text in held.incomplete:
            terminal.warning(text)
    for why in recorded.refused:
        terminal.warning(f"another process has no capsule: {why}")
    terminal.note(
        f"the program was held for {duration(recorded.held_ns)} while {size(recorded.copied_bytes)} were copied"
    )

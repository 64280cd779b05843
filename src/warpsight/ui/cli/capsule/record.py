"""`warpsight capsule record`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.replay.capsule.recording import CapsuleChoice, RecordedCapsule

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
_VALUES: tuple[Literal["all", "none", "zeros", "random"], ...] = ("all", "none", "zeros", "random")
_REACH = ("found", "all")
_WHEN: tuple[Literal["slowest", "hung", "faulted"], ...] = ("slowest", "hung", "faulted")
_MOST = 2**63
SYSTEMS = ("linux",)


def command(
    program: options.Program = None,
    kernels: options.Kernels = None,
    launch: Annotated[str | None, typer.Option("--launch", metavar="N or LOW..HIGH",
                      help="Launches of those kernels, counted from 0, with everything between them. A graph "
                      "launch with such a kernel counts as one.")] = None,
    named_range: Annotated[str | None, typer.Option("--range", metavar="PATTERN", help="All work in an NVTX range whose "
                          "name matches; --launch picks which.")] = None,
    step: Annotated[str | None, typer.Option(metavar="N", help="All work between the N-th call of ws.step() and the next; "
                          "LOW..HIGH: several steps, excluding HIGH.")] = None,
    frame: Annotated[str | None, typer.Option(metavar="N", help="All work in the N-th block of ws.capture_frame(), from 0; "
    "LOW..HIGH: several, excluding HIGH.")] = None,
    when: Annotated[str | None, typer.Option(metavar="WHICH", help="Keep only one of them: the slowest (by its GPU "
                    "time), or the first that is hung or faulted. The program pauses at each candidate.")] = None,
    patience: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Treat an operation that takes longer as hung, "
                        "and end the capsule with it.")] = 10,
    signal: Annotated[str | None, typer.Option(metavar="NAME", help="Start counting when the program receives this signal, "
                          "such as USR1.")] = None,
    reach: Annotated[str, typer.Option(help="Memory to include: found (reachable from the parameters through any address in "
                     "memory) or all (everything live).")] = "found",
    values: Annotated[str, typer.Option(help="Memory contents to keep: all, none, zeros or random; addresses are always "
                                             "kept.")] = "all",
    limit: Annotated[int | None, typer.Option(metavar="MIB", min=1, help="Replace the contents of larger allocations by "
                          "zeros.")] = None,
    shadow: Annotated[bool, typer.Option("--shadow/--no-shadow", help="Copy memory within the GPU first, where it has room, "
                          "so that the pause is shorter.")] = True,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New folder; PROGRAM.capsule by default.")] = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run a program and cut GPU work out of it, so that it can run again on its own.

    The program pauses at each chosen operation while memory is copied, and otherwise runs at full speed. Textures, managed
    memory, and memory of other GPUs or processes cannot be cut out: the verb then says so and leaves no capsule. Needs CUPTI
    and a CUDA 12.4 driver or newer.
    """
    from warpsight.replay.capsule import recording

    if not program:
        raise UsageError(
            "no program; for example: warpsight capsule record -k 'softmax*' --launch 3 -- python train.py"
        )
    choice = replace(
        _choice(kernels or [], launch, named_range, step, frame, when),
        everything=options.one_of("--reach", reach, _REACH) == "all",
        values=options.one_of("--values", values, _VALUES), shadow=shadow, patience=patience,
        signal=_signal(signal), limit=_MOST if limit is None else limit << 20,
    )  # fmt: skip
    recorded = recording.record(
        program, choice, out or Path(f"{Path(program[0]).stem}.capsule"), replace=force
    )
    summarize(recorded)
    raise typer.Exit(recorded.code)


def _choice(
    kernels: list[str], launch: str | None, named_range: str | None, step: str | None, frame: str | None, when: str | None
) -> CapsuleChoice:  # fmt: skip
    from warpsight.inside.capsules import FRAME, STEP
    from warpsight.replay.capsule.recording import CapsuleChoice

    if sum((bool(kernels), named_range is not None, step is not None, frame is not None)) > 1:
        raise UsageError("--kernel, --range, --step and --frame exclude each other")
    if launch and (step is not None or frame is not None):
        raise UsageError("--launch needs --kernel or --range")
    which = "all" if when is None else options.one_of("--when", when, _WHEN)
    option, text = next(
        (
            pair
            for pair in (("--step", step), ("--frame", frame), ("--launch", launch))
            if pair[1] is not None
        ),
        ("--launch", "0" if which == "all" else f"0..{_MOST}"),
    )
    assert text is not None
    low, high = options.bounds(text, option, _MOST, 10)
    pattern = STEP if step is not None else FRAME if frame is not None else named_range or ""
    if step is not None:
        if low < 1:
            raise UsageError("--step counts from 1")
        low, high = low - 1, high - 1
    return CapsuleChoice(tuple(kernels), (low, high), pattern, which=which)


def _signal(name: str | None) -> int:
    import signal

    if name is None:
        return 0
    plain = name.upper().removeprefix("SIG")
    if plain not in ("USR1", "USR2", "HUP", "WINCH", "URG"):
        raise UsageError(f"--signal {name}: write USR1, USR2, HUP, WINCH or URG")
    return int(getattr(signal, f"SIG{plain}"))


def summarize(recorded: RecordedCapsule) -> None:
    """Report what was cut out, and the cost."""
    from warpsight.ui.render import terminal
    from warpsight.ui.render.numbers import duration, size

    for capsule in recorded.capsules:
        held = capsule.manifest
        memory = sum(a.size for a in held.allocations)
        terminal.note(
            f"{capsule.path}: {len(held.operations):,} operations, {len(held.allocations):,} allocations of {size(memory)}, "
            f"{size(capsule.packed_bytes())} on disk; to see it: warpsight capsule show {capsule.path}"
        )
        terminal.warning(*held.incomplete)
    for number in recorded.numbers:
        terminal.note(f"number {number:,} (from 0) of the chosen ones was cut out")
    for why in recorded.refused:
        terminal.warning(f"another process has no capsule: {why}")
    terminal.note(
        f"the program was held for {duration(recorded.held_ns)} while {size(recorded.copied_bytes)} were copied"
    )

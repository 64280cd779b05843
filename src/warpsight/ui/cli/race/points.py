"""`warpsight race points`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from warpsight.api import files
from warpsight.errors import UsageError
from warpsight.ui.cli import options

#: Numbers of CTAs and the like have 32 bits.
_MOST = 2**32 - 1
CONTEXT_SETTINGS = {"allow_interspersed_args": False}


def command(
    program: options.Program = None,
    kinds: Annotated[str | None, typer.Option("--kind", metavar="KINDS", help="Kinds of points, comma-separated: memory, "
                                              "barriers, blocks, mbarrier, tma, cluster, wgmma, shuffle, tcgen05, launch, or "
                                              "narrower ones such as shared or bulk_load. All but launch by default.")] = None,
    instructions: Annotated[list[str] | None, typer.Option("--any", metavar="REGEX", help="Instead, with NVBit: every executed "
                                                           "instruction whose text matches; repeatable.")] = None,
    opcodes: Annotated[list[str] | None, typer.Option("--opcode", metavar="PATTERN", help="Instructions such as 'STG*'; "
                       "repeatable.")] = None,
    kernels: options.Kernels = None,
    sources: Annotated[list[str] | None, typer.Option("--source", metavar="FILE[:LINE[-LINE]]",
                       help="Source lines, inlined calls included; repeatable.")] = None,
    mode: Annotated[str, typer.Option(help="random: floor to ceiling; fixed: ceiling; pct: by the warp's priority.")] = "random",
    depth: Annotated[int, typer.Option(min=1, max=16, help="Bug depth for --mode pct: priorities change at one step fewer.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    probability: Annotated[float, typer.Option(min=0, max=1, help="Probability that a warp waits at a point.")] = 1.0,
    floor_ns: Annotated[int, typer.Option(min=0, help="Shortest delay.")] = 0,
    ceiling_ns: Annotated[int, typer.Option(min=0, help="Longest delay, up to 4 s; 0: patch without delays.")] = 100_000,
    ctas: Annotated[list[str] | None, typer.Option("--ctas", metavar="N or LOW..HIGH", help="Blocks of the grid that wait, "
                          "x fastest; repeatable.")] = None,
    warps: Annotated[str | None, typer.Option(metavar="LIST", help="Warps of a block that wait, such as 0,4..8.")] = None,
    ranks: Annotated[str | None, typer.Option(metavar="LIST", help="Blocks of a cluster that wait.")] = None,
    streams: Annotated[str | None, typer.Option(metavar="LIST", help="Streams whose launches wait, numbered by first "
                          "launch.")] = None,
    directed: Annotated[bool, typer.Option("--directed", help="Also trace accesses, and put unordered conflicting ones "
                          "first.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New file; PROGRAM.plan.json by default.")] = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run a program and write a delay plan with the instructions at which its warps can wait.

    You can edit the plan and give it to `race replay`, `race stress` and `race reduce`. It holds only executed instructions,
    without fences and bar.arrive, which cannot be patched; --any finds those. Needs ptxas and NVIDIA's Sanitizer library (pip
    install 'warpsight[nvidia]'), or for --any NVIDIA's NVBit (NVBIT_PATH) and nvcc.
    """
    from warpsight.formats.events.kinds import EXECUTED
    from warpsight.race import plan, points, prepare
    from warpsight.ui.render import terminal
    from warpsight.ui.render.race import plans as race

    if not program:
        raise UsageError("no program; for example: warpsight race points -- python train.py")
    target = out or Path(f"{Path(program[0]).stem}.plan.json")
    files.check_free(target, force)
    _check_patterns(instructions, kinds)
    chosen = points.Chosen(
        kinds=(EXECUTED.name,) if instructions else _words(kinds) or points.PATCHED,
        opcodes=tuple(opcodes or ()), kernels=tuple(kernels or ()),
        sources=tuple(sources or ()),
    )  # fmt: skip
    where = plan.Where(
        ctas=tuple(options.bounds(text, "--ctas", _MOST) for text in ctas or ()) or None,
        warps=_numbers(warps, "--warps", 32),
        ranks=_numbers(ranks, "--ranks", 16), streams=_numbers(streams, "--streams", 2**32),
    )  # fmt: skip
    found = points.discover(program, chosen.kernels, instructions or None)
    first = prepare.suspicious(program, chosen.kernels) if directed else ()
    try:
        made = prepare.plan_of(
            program, found, chosen, where, first, mode="random" if mode == "pct" else mode, seed=seed, probability=probability,
            floor_ns=ceiling_ns if mode == "fixed" else floor_ns, ceiling_ns=ceiling_ns,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None
    if mode == "pct":
        schedule = prepare.by_priorities(made, depth)
        made = schedule.plan
        race.schedule(schedule)
    plan.write(made, target)
    race.points(made, target)
    terminal.warning(*found.notes)
    raise typer.Exit(found.exit_code)


def _check_patterns(patterns: list[str] | None, kinds: str | None) -> None:
    if patterns and kinds:
        raise UsageError("--any takes instructions by their text, --kind by what they do: give one of them")
    for pattern in patterns or ():
        try:
            re.compile("" if pattern == "*" else pattern)
        except re.error as error:
            raise UsageError(f"--any {pattern}: {error}") from None


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in (text or "").split(",") if word.strip()))


def _numbers(text: str | None, option: str, limit: int) -> tuple[int, ...] | None:
    """`0,4..8` as numbers below a limit; None if not given."""
    if text is None:
        return None
    found: list[int] = []
    for word in _words(text):
        begin, end = options.bounds(word, option, _MOST)
        if end > limit or end - begin > 1024:
            raise UsageError(f"{option} {text}: numbers must be below {limit}")
        found += range(begin, end)
    if not found:
        raise UsageError(f"{option} {text}: write numbers, as 0,4..8")
    return tuple(dict.fromkeys(found))

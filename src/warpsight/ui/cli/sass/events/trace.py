"""`warpsight sass trace`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.api import files
from warpsight.errors import UsageError
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.sass.events import tracing

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
SYSTEMS = ("linux",)


def command(
    program: Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to trace.")] = None,
    events: Annotated[str | None, typer.Option(metavar="CLASSES", help="Event classes, comma-separated: memory (global, "
                          "shared, local), values (of those "
                      "accesses), barriers, shuffle, mbarrier, tma, cluster, wgmma, blocks, calls, "
                      "malloc, tcgen05; with NVBit: instructions, registers, memory, tensor-copies. By default "
                      "memory,barriers, or with --sass or --category instructions.")] = None,
    kernels: options.Kernels = None,
    launches: options.Launches = None,
    blocks: options.Blocks = None,
    warps: options.Warps = None,
    addresses: options.Addresses = None,
    offsets: Annotated[list[str] | None, typer.Option("--pc", metavar="LOW..HIGH",
                       help="Instructions at these byte offsets; up to four times.")] = None,
    sass: Annotated[list[str] | None, typer.Option("--sass", metavar="REGEX", help="With NVBit: instructions whose text "
                          "matches; repeatable.")] = None,
    categories: Annotated[str | None, typer.Option("--category", metavar="NAMES", help="With NVBit: instructions of mma, "
                          "tma, sync, memory.")] = None,
    when: Annotated[str, typer.Option(metavar="before, after or both", help="When to read registers.")] = "before",
    predicates: Annotated[bool, typer.Option("--predicates", help="Include predicates with the registers.")] = False,
    every: Annotated[int, typer.Option(min=1, metavar="N", help="Keep every N-th record of a launch.")] = 1,
    first: Annotated[int | None, typer.Option(min=1, metavar="N", help="Keep the first N records of a launch.")] = None,
    ring: Annotated[int, typer.Option("--ring-mib", min=1, max=4096, help="Host buffer for records, a power of two; kernels "
                          "wait while it is full.")] = 64,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New file; PROGRAM.events by default.")] = None,
    force: options.Force = False,
) -> None:  # fmt: skip
    """Run a program and record what single instructions of its kernels do: addresses, values, barriers, copies.

    Chosen kernels run up to a hundred times slower, others in their modules a little slower. No event is lost: kernels wait for
    the file. The program cannot be recorded at the same time. Needs ptxas and NVIDIA's Sanitizer library (pip install
    'warpsight[nvidia]'); registers, tensor copies and every instruction need NVIDIA's NVBit (NVBIT_PATH) and nvcc.
    """
    from warpsight.sass.events import tracing
    from warpsight.ui.render import terminal

    if not program:
        raise UsageError(
            "no program to trace; for example: warpsight sass trace -k 'gemm*' -- python train.py"
        )
    selection = tracing.TraceSelection(
        events=_classes(events or ("instructions" if sass or categories else "memory,barriers")),
        kernels=tuple(kernels or ()), launches=range_of(launches, "--launches"),
        blocks=range_of(blocks, "--blocks"), warps=warps_of(warps), addresses=range_of(addresses, "--addresses"),
        offsets=_offsets(offsets or []), every=every, first=first, ring_mib=_power_of_two(ring),
        sass=_patterns(sass or [], categories), when=when, predicates=predicates,
    )  # fmt: skip
    _check_nvbit(selection)
    target = out or Path(f"{Path(program[0]).stem}.events")
    files.check_free(target, force)
    traced = tracing.trace(program, selection, target)
    if not traced.files:
        other = ", or this NVBit could not be loaded into it" if selection.needs_nvbit else ""
        terminal.warning(f"no events: the program did not use an NVIDIA GPU{other}")
    for file in traced.files:
        _summarize(file)
    raise typer.Exit(traced.code)


def _summarize(file: Path) -> None:
    from warpsight.formats.events import blocks
    from warpsight.formats.events.kinds import TENSOR_COPIES
    from warpsight.formats.source import Source
    from warpsight.ui.render import terminal

    found = blocks.read(Source(file))
    size = file.stat().st_size
    copies = TENSOR_COPIES in (found.process.get("request") or {}).get("events", ())
    look = "sass tma" if copies else "sass events" if found.operands else "sass memory"
    terminal.note(
        f"{file}: {found.recorded:,} records of {len(found.launches):,} launches, {size / 1e6:,.1f} MB; "
        f"to see them: warpsight {look} {file}; warpsight {'import' if found.operands else 'sass races'} {file}"
    )
    for cause, count in found.losses:
        terminal.warning(cause + (f" ({count:,})" if count > 1 else ""))


def _classes(text: str) -> tuple[str, ...]:
    from warpsight.formats.events.kinds import CLASSES, INSTRUCTIONS, REGISTERS, TENSOR_COPIES, VALUES

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = (*CLASSES, VALUES, INSTRUCTIONS, REGISTERS, TENSOR_COPIES)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(
            f"--events {text}: there is no class {', '.join(unknown) or 'in it'}; classes: {', '.join(known)}"
        )
    if VALUES in names and "memory" not in names:
        raise UsageError("--events values are those of accesses: add memory")
    return names


def _patterns(texts: list[str], categories: str | None) -> tuple[str, ...]:
    """Instruction patterns: those given, and those of categories."""
    from warpsight.sass.events.nvbit import CATEGORIES

    found = list(texts)
    for name in filter(None, (categories or "").split(",")):
        if name.strip() not in CATEGORIES:
            raise UsageError(f"--category {name}: the categories are {', '.join(CATEGORIES)}")
        found.append(CATEGORIES[name.strip()])
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--sass {pattern}: {error}") from None
        if "\n" in pattern or not pattern:
            raise UsageError("--sass: a pattern must be one line, and not empty")
    return tuple(found)


def _check_nvbit(selection: tracing.TraceSelection) -> None:
    """Refuse options that only the other tool supports."""
    from warpsight.formats.events.kinds import INSTRUCTIONS, REGISTERS, TENSOR_COPIES

    if selection.when not in ("before", "after", "both"):
        raise UsageError(f"--when {selection.when}: write before, after or both")
    if REGISTERS not in selection.events and (selection.when != "before" or selection.predicates):
        raise UsageError("--when and --predicates are about registers: add --events registers")
    others = [
        name for name in selection.events if name not in (INSTRUCTIONS, REGISTERS, TENSOR_COPIES, "memory")
    ]
    if selection.needs_nvbit and others:
        raise UsageError(
            f"NVBit records instructions, registers, memory and tensor-copies; {', '.join(others)} cannot be traced in the "
            "same run (--events says what is)"
        )
    if selection.needs_nvbit and selection.addresses:
        raise UsageError("--addresses cannot be used with NVBit")


def range_of(text: str | None, option: str) -> tuple[int, int] | None:
    """Parse LOW..HIGH (excluding HIGH) or one number, in any base."""
    if text is None:
        return None
    return options.bounds(text, option, 2**64 - 1)


def warps_of(text: str | None) -> tuple[int, ...]:
    """The warps of --warps."""
    found = range_of(text, "--warps")
    if found and found[1] > 32:
        raise UsageError(f"--warps {text}: a block has 32 warps at most")
    return tuple(range(*found)) if found else ()


def _offsets(texts: list[str]) -> tuple[tuple[int, int], ...]:
    if len(texts) > 4:
        raise UsageError("--pc can be given four times at most")
    return tuple(found for text in texts if (found := range_of(text, "--pc")))


def _power_of_two(ring: int) -> int:
    if ring & (ring - 1):
        raise UsageError(f"--ring-mib {ring}: write a power of two")
    return ring

"""Options that several verbs share, each declared once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from warpsight.api import choice
from warpsight.errors import UsageError

Word = TypeVar("Word", bound=str)
#: Stands for the `--` between two sides; no path can be called so.
SIDES = "\0--"

TracePath = Annotated[
    str,
    typer.Argument(
        help="A trace: folder, packed file, URL, or any file that `import` reads.", metavar="TRACE"
    ),
]

NewestTrace = Annotated[
    str,
    typer.Argument(
        help="A trace or another tool's file; the newest trace here by default.", metavar="[TRACE]"
    ),
]
RecordsPath = Annotated[
    Path,
    typer.Argument(help="NDJSON trace, possibly compressed, or a trace imported from it.", metavar="FILE"),
]
Sources = Annotated[
    list[str] | None, typer.Option(metavar="DIR", help="Also look for source files here; repeatable.")
]

# Which rows
Device = Annotated[list[int] | None, typer.Option("--device", help="Only this device; repeatable.")]
Stream = Annotated[list[int] | None, typer.Option("--stream", help="Only this stream; repeatable.")]
Process = Annotated[
    list[int] | None, typer.Option("--process", help="Only this process id of the trace; repeatable.")
]
Name = Annotated[str | None, typer.Option("--name", help="Only names that this regular expression matches.")]
Begin = Annotated[
    str | None, typer.Option("--from", help="Only from this time on, counted from the start: 1.5s, 200ms.")
]
END_HELP = "Only what began before this time, counted from the start."
End = Annotated[str | None, typer.Option("--until", help=END_HELP)]
#: For verbs without another `--to`.
EndOrTo = Annotated[str | None, typer.Option("--until", "--to", help=END_HELP)]

# Programs, and the files of their recordings
Program = Annotated[list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program.")]
ProgramToCheck = Annotated[
    list[str] | None, typer.Argument(metavar="[--] PROGRAM [ARGS]…", help="The program to check.")
]
Pid = Annotated[int, typer.Argument(metavar="PID", help="The process.")]
CapsulePath = Annotated[Path, typer.Argument(metavar="CAPSULE", help="A capsule.")]
EventsPath = Annotated[Path, typer.Argument(help="An event trace, from `sass trace`.", metavar="FILE")]
Keep = Annotated[Path | None, typer.Option(metavar="TRACE", help="Keep a program's recording here.")]
ForceTrace = Annotated[bool, typer.Option("-f", "--force", help="Replace an existing trace.")]

# Which launches and accesses, of an instruction trace
Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "-k",
        "--kernel",
        metavar="PATTERN",
        help="Only kernels whose mangled or demangled name matches; repeatable.",
    ),
]
Launches = Annotated[
    str | None, typer.Option(metavar="N or LOW..HIGH", help="Launches of those kernels, counted from 0.")
]
Blocks = Annotated[str | None, typer.Option(metavar="N or LOW..HIGH", help="Blocks of the grid, x fastest.")]
Warps = Annotated[str | None, typer.Option(metavar="N or LOW..HIGH", help="Warps of each block.")]
Addresses = Annotated[str | None, typer.Option(metavar="LOW..HIGH", help="Accesses to these addresses.")]

# How much is printed
Top = Annotated[int, typer.Option("--top", "-n", min=0, help="Rows to show, 0 for all.")]
TableRows = Annotated[int | None, typer.Option("--top", "-n", help="Rows of a table, 0 for all.", min=0)]
Level = Annotated[str, typer.Option(help="line (with inlined calls), ptx or instruction.")]
KernelCount = Annotated[int, typer.Option(min=0, help="Kernels to show, 0 for all.")]
PlaceCount = Annotated[int, typer.Option("--top", "-n", min=0, help="Places per kernel, 0 for all.")]
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Gzip = Annotated[bool, typer.Option("--gzip", help="Compress dumps.")]

# How things are called
Names = Annotated[str, typer.Option("--names", help="Kernel names: demangled, short or mangled.")]

# Results printed
IncludePaths = Annotated[
    bool, typer.Option("--include-paths", help="Keep paths, user and host names as recorded.")
]
IncludeArguments = Annotated[
    bool, typer.Option("--include-arguments", help="Keep the arguments of recorded commands.")
]
IncludeEnvironment = Annotated[
    bool, typer.Option("--include-environment", help="Keep the recorded environment variables.")
]

# Where and in which form
Out = Annotated[Path | None, typer.Option("-o", "--output", help="Write to this new file.")]
Force = Annotated[bool, typer.Option("-f", "--force", help="Replace an existing file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, times in ns.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
JsonFrames = Annotated[bool, typer.Option("--json", help="Write JSON, frames innermost first.")]
ToldAsJson = Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV, times in ns.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 3 when anything is missing from the trace.")
]


def bounds(text: str, option: str, most: int, base: int = 0) -> tuple[int, int]:
    """The bounds of LOW..HIGH (excluding HIGH) or of one number, in any base or in the given one.

    Raises:
        UsageError: for an invalid value; the message names the option.
    """
    low, dots, high = text.partition("..")
    try:
        begin = int(low, base)
        end = int(high, base) if dots else begin + 1
    except ValueError:
        raise UsageError(f"{option} {text}: write N or LOW..HIGH") from None
    if not 0 <= begin < end <= most:
        raise UsageError(f"{option} {text}: the range is empty or too large (HIGH is excluded)")
    return begin, end


def one_of(option: str, text: str, allowed: Sequence[Word]) -> Word:
    """Check that the value is one of a few words.

    Raises:
        UsageError: for any other value; the message names the option and the accepted words.
    """
    for word in allowed:
        if word == text:
            return word
    raise UsageError(f"{option} {text!r}: write {', '.join(allowed[:-1])} or {allowed[-1]}")


def check_one_form(csv: bool, json: bool) -> None:
    """Refuse two forms of output at once.

    Raises:
        UsageError: when both are requested.
    """
    if csv and json:
        raise UsageError("--csv and --json exclude each other")


def check_times(begin: str | None, end: str | None) -> None:
    """Refuse anything that is not a time before anything is read.

    Raises:
        UsageError: for an invalid value; the message names the option.
    """
    choice.nanoseconds(begin, "--from")
    choice.nanoseconds(end, "--until")


def or_newest(trace: str) -> str:
    """The given trace, or the newest one in this folder, which a note then names.

    Raises:
        UsageError: when there is none.
    """
    if trace:
        return trace
    from warpsight.ui.render import terminal

    found = str(newest())
    terminal.note(f"{found}, the newest trace here:")
    return found


def newest(folder: Path | None = None) -> Path:
    """The most recently written trace in a folder (the current one).

    Raises:
        UsageError: when it does not exist.
    """
    where = folder or Path()
    found = [*where.glob("*.warp/manifest.json"), *where.glob("*.warp.zip")]
    if not found:
        raise UsageError(
            f"there is no trace in {where.absolute()}; name one, or make one: warpsight record -- python train.py"
        )
    last = max(found, key=lambda path: path.stat().st_mtime_ns)
    return last.parent if last.name == "manifest.json" else last

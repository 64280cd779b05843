"""Options that several verbs share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.api import choice
from warpsight.errors import UsageError

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
#: For verbs that have no other `--to`.
EndOrTo = Annotated[str | None, typer.Option("--until", "--to", help=END_HELP)]

# How things are called
Names = Annotated[str, typer.Option("--names", help="Kernel names: demangled, short or mangled.")]

# What is printed
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
    """LOW..HIGH without HIGH, or one number, in any base or in the given one.

    Raises:
        UsageError: naming the option.
    """
    low, dots, high = text.partition("..")
    try:
        begin = int(low, base)
        end = int(high, base) if dots else begin + 1
    except ValueError:
        raise UsageError(f"{option} {text}: write N or LOW..HIGH") from None
    if not 0 <= begin < end <= most:
        raise UsageError(f"{option} {text}: the range is empty or too large (HIGH does not belong to it)")
    return begin, end


def check_times(begin: str | None, end: str | None) -> None:
    """Refuse anything that is not a time before anything is read.

    Raises:
        UsageError: naming the option.
    """
    choice.nanoseconds(begin, "--from")
    choice.nanoseconds(end, "--until")

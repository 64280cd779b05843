"""`warpsight import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsight.errors import UsageError
from warpsight.ui.cli import options, output

if TYPE_CHECKING:
    from warpsight.formats.importing import Imported


def command(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders; several become processes of one trace.", metavar="FILE…"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="New trace folder; NAME.warp by default."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--from", help="Format of the files; recognized by default.", metavar="FORMAT"),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", help="Reader option; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    force: options.ForceTrace = False,
    formats: Annotated[
        bool, typer.Option("--formats", help="List readable formats and their options.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was read as JSON.")] = False,
) -> None:
    """Read other tools' files into a trace.

    Reading verbs also take such files directly; import once to make later questions fast.
    """
    from warpsight.formats.importing import import_files

    if formats:
        _list()
        return
    if not files:
        raise UsageError(
            "there is nothing to import: name at least one file (--formats lists what can be read)"
        )
    target = out or Path(_stem(files[0]) + ".warp")
    made = import_files(files, target, form, force, _options(option or []))
    _print_result(made, as_json)


def _options(pairs: list[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {pair!r} is not KEY=VALUE")
        options[key] = value
    return options


def _stem(path: str) -> str:
    name = Path(path.rstrip("/")).name
    for end in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(end)
    return Path(name).stem or "imported"


def _list() -> None:
    import sys

    from warpsight.formats.registry import READERS

    width = max(map(len, READERS), default=0) + 2
    for name, reader in READERS.items():
        sys.stdout.write(f"{name:{width}}{reader.summary}\n")
        for key, meaning in reader.options.items():
            sys.stdout.write(f"{'':{width}}--option {key}=…: {meaning}\n")


def _print_result(made: Imported, as_json: bool) -> None:
    import sys

    from warpsight.ui.render import numbers, terminal

    if as_json:
        sys.stdout.write(output.json_text(_json(made)))
    for file in made.files:
        terminal.note(f"{file.path}: {file.format}, {numbers.size(file.bytes)}")
    rows = ", ".join(f"{count:,} {table}" for table, count in sorted(made.rows.items(), key=lambda r: -r[1]))
    terminal.note(f"{made.path}: {rows or 'no rows'}")
    for row in made.losses:
        if row["severity"] == "note":
            terminal.note(row["cause"])
        else:
            terminal.warning(f"incomplete: {row['count']:,} lost: {row['cause']}")


def _json(made: Imported) -> dict[str, Any]:
    return {
        "path": str(made.path),
        "files": [
            {"path": f.path, "format": f.format, "bytes": f.bytes, "damage": f.damage or None}
            for f in made.files
        ],
        "rows": dict(made.rows),
        "losses": [
            {name: row[name] for name in ("count", "cause", "kind", "severity")} for row in made.losses
        ],
        "seconds": made.seconds,
    }

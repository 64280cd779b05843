"""`warpsight sass validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    trace: Annotated[
        Path, typer.Argument(help="NDJSON or text trace, or delay configuration.", metavar="FILE")
    ],
    form: Annotated[str, typer.Option("-f", "--format", help="json, text, delays or auto.")] = "auto",
    as_json: options.Json = False,
) -> None:
    """Check every record of a trace against its type; exit code 0 valid, 1 invalid, 2 unknown kind of file."""
    from warpsight.errors import UsageError
    from warpsight.sass.records.validate import validate
    from warpsight.ui.render import terminal

    if form not in ("json", "text", "delays", "auto"):
        raise UsageError(f"there is no format {form!r}; formats: json, text, delays, auto")
    found = validate(trace, form)
    if as_json or terminal.verbosity() >= 0:  # with --quiet there is only the exit code
        with output.text(None) as stream:
            if as_json:
                stream.write(output.json_text(found.to_json()))
            elif found.valid:
                kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.types.items())
                stream.write(f"valid: {found.record_count:,} records ({kinds})\n")
            else:
                stream.write(f"invalid: {found.error_count:,} errors in {found.record_count:,} records\n")
                stream.writelines(f"  {error}\n" for error in found.errors)
    if not found.valid:
        raise typer.Exit(1)

"""`warpsight sass compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    text: Annotated[Path, typer.Argument(help="Text trace (.log).", metavar="TEXT")],
    json: Annotated[Path, typer.Argument(help="NDJSON trace.", metavar="NDJSON")],
    as_json: options.Json = False,
) -> None:
    """Compare a text and an NDJSON trace of one run: counts, CTAs, warps, instructions; exit code 1 if they differ."""
    from warpsight.sass.records.validate import compare
    from warpsight.ui.render import terminal

    found = compare(text, json)
    if as_json or terminal.verbosity() >= 0:  # with --quiet there is only the exit code
        with output.text(None) as stream:
            if as_json:
                stream.write(output.json_text(found.to_json()))
            elif found.consistent:
                stream.write(f"consistent: {found.json.record_count:,} records\n")
            else:
                stream.write("not consistent:\n")
                stream.writelines(f"  {difference}\n" for difference in found.differences)
    if not found.consistent:
        raise typer.Exit(1)

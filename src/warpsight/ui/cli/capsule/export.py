"""`warpsight capsule export`: a stand-alone reproducer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from warpsight.ui.cli import options, output


def command(
    capsule: options.CapsulePath,
    to: Annotated[str, typer.Option("--to", help="cuda: CUDA C++, for nvcc; python: Python on the driver API; trace: the "
                                    "recorded operations as a trace.")] = "cuda",
    out: Annotated[Path | None, typer.Option("-o", "--output", help="New folder; NAME.cuda, NAME.python or NAME.warp.")] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Replace an existing reproducer.")] = False,
    as_json: options.ToldAsJson = False,
) -> None:  # fmt: skip
    """Write a folder with one program that runs the capsule's work again and compares, for people without warpsight.

    The folder holds the capsule's memory and code as plain files; share it with the same care.
    """
    from warpsight.replay.capsule.store import Capsule
    from warpsight.replay.reproducer import export

    if to == "trace":
        from warpsight.replay.schedules.prediction import recorded

        path = out or capsule.with_suffix(".warp")
        recorded(Capsule.open(capsule), path, force=force)
        with output.text(None) as stream:
            content = {
                "path": str(path),
                "program": "",
                "command": f"warpsight open {shlex.quote(str(path))}",
            }
            stream.write(
                output.json_text(content) if as_json else f"wrote {path}; to see it: {content['command']}\n"
            )
        return
    folder = out or capsule.with_suffix(f".{to}")
    written = export(Capsule.open(capsule), to, folder, force=force)
    with output.text(None) as stream:
        if as_json:
            stream.write(
                output.json_text(
                    {"path": str(written.folder), "program": written.program, "command": written.command}
                )
            )
        else:
            stream.write(f"wrote {written.folder}; run it with: {written.command}\n")

"""`warpsight record --backend …` through a vendor's recorder, whose recording is imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.recorder import backend_choice
from warpsight.recorder.backend_choice import BackendChoice
from warpsight.recorder.options.given import Given
from warpsight.recorder.options.types import CommandValues
from warpsight.ui.render import numbers, terminal

if TYPE_CHECKING:
    from warpsight.formats.importing import Imported


def record(
    choice: BackendChoice, path: Path, program: Sequence[str], given: Given, asked: CommandValues
) -> int:
    """Record and print a summary; returns the program's exit code, or 3 under `--strict` after losses."""
    from warpsight.recorder.external import running

    assert choice.backend is not None
    request = backend_choice.request(choice.backend, given)
    done = running.record(choice.backend, program, path, request, keep=asked.keep, force=asked.force)
    if done.kept is not None:
        terminal.note(f"{done.kept}: what {choice.backend.program} wrote")
    if done.imported is None:
        terminal.error(f"{path} was not made: {done.problem}")
        return done.exit_code or 1
    lost = _summarise(done.imported)
    if asked.export:
        from warpsight.ui.cli.record import record_export

        record_export.write(path, asked.export, force=asked.force)
    return 3 if asked.strict and lost and done.exit_code == 0 else done.exit_code


def _summarise(made: Imported) -> int:
    """Print a line for the trace and one for each thing that is missing; how many rows are lost."""
    kernels = made.rows.get("kernel", 0)
    rest = sum(made.rows.values()) - kernels
    size = numbers.size(sum(file.bytes for file in made.files))
    terminal.note(f"{made.path}: {kernels:,} kernels and {rest:,} other rows, imported from {size}")
    lost = 0
    for row in made.losses:
        if row["severity"] == "lost":
            lost += max(int(row["count"]), 1)
            terminal.warning(f"incomplete: {row['count']:,} lost: {row['cause']}")
        elif terminal.verbosity() > 0:
            terminal.note(row["cause"])
    return lost

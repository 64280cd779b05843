"""The input of a `sass` verb: a recording, or a program to record now."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from warpsight.errors import UsageError, WarpsightError
from warpsight.ui.cli import options

if TYPE_CHECKING:
    from warpsight.recorder.options.types import RunOptions


def split(words: Sequence[str], verb: str) -> tuple[str | None, list[str]]:
    """The recording that the arguments name, or the program after `--`.

    Raises:
        UsageError: when there is neither or both.
    """
    if options.SIDES not in words:
        if len(words) != 1:
            raise UsageError(
                f"name one recording, or a program after `--`: warpsight sass {verb} -- ./program"
            )
        return words[0], []
    place = words.index(options.SIDES)
    program = list(words[place + 1 :])
    if words[:place] or not program:
        raise UsageError("name a recording or, after `--`, a program; not both")
    return None, program


@contextmanager
def recording(
    words: Sequence[str], verb: str, keep: Path | None, force: bool, recorded: RunOptions
) -> Iterator[tuple[str, int]]:
    """The trace to read, and the program's exit code if one is recorded first.

    Args:
        words: as on the command line.
        verb: the calling verb of `sass`.
        keep: where to keep the recording of a program.
        force: whether it may replace a trace there.
        recorded: options for recording a program.
    """
    path, program = split(words, verb)
    if path is not None:
        if keep is not None:
            raise UsageError("--keep is for a program that is recorded now")
        yield path, 0
        return
    from warpsight.api.run import run

    with tempfile.TemporaryDirectory(prefix=f"warpsight-{verb}-") as folder:
        done = run(program, keep or Path(folder, "run.warp"), force=force, **recorded)
        if not Path(done.path).exists():  # why was printed
            raise typer.Exit(done.returncode or 1)
        try:
            yield str(done.path), done.returncode
        except WarpsightError as error:
            what = str(error).removeprefix(f"{done.path}: ").partition(";")[0]
            if keep is not None or what == str(error):
                raise
            if done.returncode:
                raise _ended(program, done.returncode, what) from error
            raise WarpsightError(
                f"{shlex.join(program)}: {what}: no kernel of it ran on an NVIDIA GPU whose counters are free; "
                "see what is missing with: warpsight doctor"
            ) from error


def _ended(program: Sequence[str], code: int, what: str) -> WarpsightError:
    """The error of a program that failed; the command line ends with the program's exit code."""
    error = WarpsightError(f"{shlex.join(program)} ended with exit code {code}: {what}")
    error.exit_code = code
    return error

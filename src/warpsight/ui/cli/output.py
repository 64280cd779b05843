"""Where results of reading verbs go: standard output, or a new private file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from warpsight.api import files
from warpsight.ui.render import terminal


@contextmanager
def binary(path: Path | None, force: bool = False) -> Iterator[IO[bytes]]:
    """A stream for bytes: standard output without a path or for `-`, else a new file (see `api.files.binary`)."""
    if path is None or str(path) == "-":
        stream = terminal.buffer()
        yield stream
        stream.flush()
        return
    with files.binary(path, force) as file:
        yield file


@contextmanager
def text(path: Path | None, force: bool = False) -> Iterator[IO[str]]:
    """The same for text."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    with files.binary(path, force) as raw, files.as_text(raw) as stream:
        yield stream


def target(path: Path | None) -> Path | IO[bytes] | None:
    """The same as methods of a trace take it: standard output for `-`, None for a name of their choice."""
    return terminal.buffer() if path is not None and str(path) == "-" else path


def plain(value: object) -> float | str:
    """A value JSON has, for one it has not: wide integers (sums) come from SQL as decimals."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def json_text(value: object) -> str:
    """JSON as every verb prints it: indented; numbers that JSON does not have become null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value, enc_hook=plain), indent=1).decode() + "\n"

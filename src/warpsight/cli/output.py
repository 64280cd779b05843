"""Where results of reading verbs go: standard output, or a new private file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from warpsight.errors import UsageError, WarpsightError

_TIME = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|h)?\s*$")
_SCALE = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}


@contextmanager
def binary(path: Path | None, force: bool = False) -> Iterator[IO[bytes]]:
    """A stream for bytes: standard output without a path or for `-`, else a new file of mode 0600.

    A file that was not finished is removed. Existing files need `force`; links are never followed.
    """
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if os.path.lexists(path) and not force:
        raise WarpsightError(f"{path} exists already; -f replaces it")
    if os.path.isdir(path):
        raise WarpsightError(f"{path} is a folder")
    # A short name of its own: that of the file may be as long as names can be.
    temporary = path.with_name(f".warpsight.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as file:
            yield file
        _place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def folder(path: Path, suffix: str, force: bool = False) -> Iterator[Path]:
    """A new folder of mode 0700 that takes its name when everything is in it.

    With `force` it replaces a folder that holds nothing but files whose names end with `suffix`; links are never followed.
    """
    import shutil
    import tempfile

    old = os.path.lexists(path)
    if old and not force:
        raise WarpsightError(f"{path} exists already; -f replaces it")
    if old and (path.is_symlink() or not path.is_dir()):
        raise WarpsightError(f"{path} is no folder; it is left alone")
    if old and any(not file.name.endswith(suffix) for file in path.iterdir()):
        raise WarpsightError(f"{path} holds other files than *{suffix}; it is left alone")
    try:
        made = Path(tempfile.mkdtemp(prefix=".warpsight.", dir=path.parent))
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield made
        if old:
            shutil.rmtree(path)
        _place(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _place(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:
        raise WarpsightError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def text(path: Path | None, force: bool = False) -> Iterator[IO[str]]:
    """The same for text."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    import io

    with binary(path, force) as raw:
        wrapper = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
        yield wrapper
        wrapper.flush()
        wrapper.detach()


def plain(value: Any) -> Any:
    """A value JSON has, for one it has not: wide integers (sums) come from SQL as decimals."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def json_text(value: Any) -> str:
    """JSON as every verb prints it: indented; numbers that JSON does not have become null."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value, enc_hook=plain), indent=1).decode() + "\n"


def nanoseconds(text_value: str | None, option: str) -> int | None:
    """A duration like `1.5s`, `200ms`, `12us`, `5` (seconds) as ns.

    Raises:
        UsageError: when it is none.
    """
    if text_value is None:
        return None
    match = _TIME.match(text_value)
    if match is None:
        raise UsageError(f"{option} {text_value!r} is not a time: write 1.5s, 200ms, 12us or 800ns")
    from decimal import Decimal

    return int(Decimal(match[1]) * _SCALE[match[2] or "s"])

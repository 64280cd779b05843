"""Where verbs write results: standard output, or a new private file. Secrets are removed from all text.

Traces hold none, but verbs also read capsules, core dumps, machine code and other tools' files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, cast

from warpsight.api import files
from warpsight.errors import UsageError
from warpsight.model.sharing import secrets
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
    _say(path)


@contextmanager
def text(path: Path | None, force: bool = False) -> Iterator[IO[str]]:
    """The same for text, without secrets.

    Raises:
        UsageError: on writing text to a name that browsers show as a page: names of kernels in it would be tags there.
    """
    if path is None or str(path) == "-":
        yield cast("IO[str]", _Secretless(sys.stdout))
        return
    with files.binary(path, force) as raw, files.as_text(raw) as stream:
        page = path if path.suffix.lower() in _PAGES else None
        yield cast("IO[str]", _Secretless(stream, page))
    _say(path)


def _say(path: Path) -> None:
    """Report what was written, and how to open a page."""
    from warpsight.ui.render import numbers

    page = "; open it in any browser" if path.suffix.lower() == ".html" else ""
    terminal.note(f"{path}: {numbers.size(path.stat().st_size)}{page}")


#: Names that browsers show as pages or pictures, and the beginnings of those.
_PAGES = (".html", ".htm", ".xhtml", ".xht", ".svg", ".xml")
_PAGE_BEGINS = ("<!doctype", "<html", "<svg", "<?xml")


class _Json(str):
    """JSON without secrets, removed before encoding: replacing them in the encoded text could break it."""


#: Texts in which secrets are looked for together.
_TOGETHER = 10_000


def _lines(text: str) -> list[str]:
    """The units that are searched for secrets: lines, but a multi-line key as a whole."""
    return [text] if "PRIVATE" in text or "Private-" in text else text.splitlines(keepends=True)


class _Secretless:
    """A text stream without secrets.

    JSON from :func:`json_text` is already clean, and code in pages is searched for tokens only.
    """

    def __init__(self, stream: IO[str], page: Path | None = None) -> None:
        self._stream = stream
        self._page = page
        self._begun = page is None

    def write(self, text: str) -> int:
        if not self._begun and text:
            if not text[:20].lstrip().lower().startswith(_PAGE_BEGINS):
                raise UsageError(f"{self._page}: this is text, not a page: choose a name that ends in .txt")
            self._begun = True
        if self._page:
            text = secrets.without_tokens(text)
        elif not isinstance(text, _Json):
            text = "".join(secrets.each(_lines(text)))
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write strings, searching several at once for secrets."""
        left = iter(lines)
        while some := list(islice(left, _TOGETHER)):
            if self._page or any(isinstance(text, _Json) for text in some):
                for text in some:
                    self.write(text)
            else:
                self._stream.writelines(secrets.each([line for text in some for line in _lines(text)]))

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def target(path: Path | None) -> Path | IO[bytes] | None:
    """The target in the form that a trace's methods accept: standard output for `-`, None for a default name."""
    return terminal.buffer() if path is not None and str(path) == "-" else path


def plain(value: object) -> float | str:
    """A JSON value for one that JSON lacks: wide integers (sums) come from SQL as decimals."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def json_text(value: object) -> str:
    """JSON as every verb prints it: indented, without secrets; numbers that JSON does not have become null."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=plain)
    if secrets.suspicious(encoded.decode()):
        encoded = msgspec.json.encode(secrets.plain(msgspec.json.decode(encoded)))
    return _Json(msgspec.json.format(encoded, indent=1).decode() + "\n")

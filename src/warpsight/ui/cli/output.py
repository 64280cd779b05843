"""Where verbs write results: standard output, or a new private file. Secrets are removed from all text.

Traces contain none, but verbs also read capsules, core dumps, machine code and other tools' files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, cast

from warpsight.api import files
from warpsight.errors import UsageError, choices
from warpsight.model.sharing import secrets
from warpsight.ui.render import terminal


@contextmanager
def binary(path: Path | None, force: bool = False) -> Iterator[IO[bytes]]:
    """A stream for bytes: standard output without a path or for `-`, otherwise a new file (see `api.files.binary`)."""
    if path is None or str(path) == "-":
        stream = terminal.buffer()
        yield stream
        stream.flush()
        return
    with files.binary(path, force) as file:
        yield file
    _report_written(path)


@contextmanager
def text(path: Path | None, force: bool = False, *, csv: bool | None = None) -> Iterator[IO[str]]:
    """A stream for text, without secrets; `csv` says whether it is CSV, None for a command that writes none.

    Raises:
        UsageError: when the name belongs to another kind of file, or when text would be written to a name for a page or JSON,
            because kernel names in text would be tags in a page.
    """
    if path is None or str(path) == "-":
        yield cast("IO[str]", _Secretless(sys.stdout))
        return
    suffix = path.suffix.lower()
    if suffix in _BINARY or (suffix == ".csv" and not csv):
        remedy = "add --csv, or choose" if suffix == ".csv" and csv is not None else "choose"
        raise UsageError(f"{path}: this is text, not a {suffix} file: {remedy} a name that ends in .txt")
    with files.binary(path, force) as raw, files.as_text(raw) as stream:
        yield cast("IO[str]", _Secretless(stream, path))
    _report_written(path)


#: Forms of tables by the suffix of a name, and compressions likewise.
_FORMS = {".txt": "table", ".csv": "csv", ".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet",
          ".arrow": "arrow", ".feather": "arrow"}  # fmt: skip
PACKED = {".gz": "gzip", ".zst": "zstd"}


def form_of(given: str | None, path: Path | None, forms: Sequence[str]) -> str:
    """The requested form, otherwise the one that the output's suffix implies, otherwise the first one.

    Raises:
        UsageError: for an unknown form, or a name that belongs to another form or another kind of file.
    """
    if given is not None and given not in forms:
        raise UsageError(f"there is no format {given!r}{choices(given, forms)}")
    if path is None or str(path) == "-":
        return given or forms[0]
    suffix = (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()
    named = _FORMS.get(suffix)
    if named is not None and given not in (None, named):
        raise UsageError(
            f"{path} is the name of a file of format {named}, and --format says {given}; leave one out"
        )
    if named not in forms if named else suffix in (*_PAGES, *_BINARY):
        ends = [end for end, form in _FORMS.items() if form in forms]
        raise UsageError(
            f"{path}: no format has such a name: end it with {', '.join(ends[:-1])} or {ends[-1]}"
        )
    return given or named or forms[0]


def _report_written(path: Path) -> None:
    """Report what was written, and how to open a page."""
    from warpsight.ui.render import numbers

    page = "; open it in any browser" if path.suffix.lower() == ".html" else ""
    terminal.note(f"{path}: {numbers.size(path.stat().st_size)}{page}")


#: Names that browsers show as pages or pictures, and the beginnings of those.
_PAGES = (".html", ".htm", ".xhtml", ".xht", ".svg", ".xml")
_PAGE_BEGINS = ("<!doctype", "<html", "<svg", "<?xml")
#: The same for JSON, and names of files that are no text.
_JSON, _JSON_BEGINS = (".json", ".ndjson", ".jsonl", ".sarif"), ("{", "[")
_BINARY = (".parquet", ".arrow", ".feather", ".xlsx", ".sqlite", ".png", ".pdf")


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

    def __init__(self, stream: IO[str], path: Path | None = None) -> None:
        suffix = path.suffix.lower() if path else ""
        self._stream = stream
        self._path = path
        self._page = suffix in _PAGES
        self._begins = _PAGE_BEGINS if self._page else _JSON_BEGINS if suffix in _JSON else ()

    def write(self, text: str) -> int:
        if self._begins and text:
            if not text[:20].lstrip().lower().startswith(self._begins):
                other, remedy = ("a page", "choose") if self._page else ("JSON", "add --json, or choose")
                raise UsageError(
                    f"{self._path}: this is text, not {other}: {remedy} a name that ends in .txt"
                )
            self._begins = ()
        if self._page:
            text = secrets.without_tokens(text)
        elif not isinstance(text, _Json):
            text = "".join(secrets.each(_lines(text)))
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write strings, searching several at once for secrets."""
        left = iter(lines)
        while some := list(islice(left, _TOGETHER)):
            if self._page or self._begins or any(isinstance(text, _Json) for text in some):
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
    """A JSON value in place of one that JSON lacks: wide integers (sums) come from SQL as decimals."""
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def json_text(value: object) -> str:
    """JSON as every verb prints it: indented, without secrets; numbers that JSON lacks become null."""
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=plain)
    if secrets.suspicious(encoded.decode()):
        encoded = msgspec.json.encode(secrets.plain(msgspec.json.decode(encoded)))
    return _Json(msgspec.json.format(encoded, indent=1).decode() + "\n")

"""Output streams: a console that knows whether to use colors, and notes and errors on standard error."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: Control characters and text-direction marks: characters that make a terminal do more than display them.
_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_ANY_CONTROL = re.compile(f"[{_CONTROL}\t\n]")
#: Of our own output colors, a carriage return and the erasing of a line pass.
_UNWANTED = re.compile(rf"(?!\x1b\[[0-9;]*[mK]|\r)[{_CONTROL}]")


@dataclass(frozen=True)
class _Terminal:
    """The user's choices: `color` None decides by the stream; `verbosity` -1 quiet, 0 normal, 1 verbose."""

    color: bool | None = None
    verbosity: int = 0


_TERMINAL: ContextVar[_Terminal] = ContextVar("terminal", default=_Terminal())  # noqa: B039 - frozen


def configure(*, color: bool | None = None, verbosity: int = 0) -> None:
    """Set the user's choices for everything that is printed from here on."""
    _TERMINAL.set(_Terminal(color, verbosity))


def verbosity() -> int:
    """The verbosity: -1 quiet, 0 normal, 1 verbose."""
    return _TERMINAL.get().verbosity


def colored(stream: IO[str]) -> bool:
    """Whether to write colors to a stream: never with NO_COLOR or --no-color, otherwise on a terminal only."""
    chosen = _TERMINAL.get().color
    if chosen is not None:
        return chosen
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """A string as one line that a terminal displays safely, with control characters escaped and spaces for line ends."""
    if text.isprintable():
        return text
    return _ANY_CONTROL.sub(lambda match: " " if match[0] in "\t\n" else _escape(match), text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def guard() -> None:
    """Let only color codes through to a terminal, whatever names the traces hold; pipes and files get everything."""
    if sys.stdout is not None and sys.stdout.isatty():
        sys.stdout = _Guarded(sys.stdout)
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr = _Guarded(sys.stderr)


class _Guarded:
    """A text stream on a terminal, without control characters."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text if text.isprintable() else _UNWANTED.sub(_escape, text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def buffer() -> IO[bytes]:
    """Standard output for bytes; on a terminal, these are decoded and filtered like text."""
    return cast("IO[bytes]", _GuardedBytes(sys.stdout)) if sys.stdout.isatty() else sys.stdout.buffer


class _GuardedBytes(io.RawIOBase):
    """The bytes of a text stream on a terminal, without control characters."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        written = bytes(data)
        self._stream.write(_UNWANTED.sub(_escape, written.decode("utf-8", "backslashreplace")))
        return len(written)

    def flush(self) -> None:
        self._stream.flush()


class _Losable:
    """A stream whose writes may fail, because the reader is gone or the disk is full."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


def let_messages_fail() -> None:
    """Ignore failures to write a message, for verbs whose outcome is that of a program."""
    if not isinstance(sys.stderr, _Losable):
        sys.stderr = cast("TextIO", _Losable(sys.stderr))


def wrapped(text: str, stream: IO[str], indent: str = "  ") -> str:
    """A line formatted for a stream: on a terminal it wraps between words, with continuation lines indented."""
    if not stream.isatty():
        return text
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    if len(text) <= width:
        return text
    return textwrap.fill(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def note(text: str, *, level: int = 0) -> None:
    """One line on standard error; `level` 1 needs -v, and -q hides both."""
    if verbosity() >= level:
        print(wrapped(_secretless(text), sys.stderr), file=sys.stderr)


def warning(*texts: str) -> None:
    """A line for each missing or lost item, in red, shown even with -q."""
    for text in texts:
        _red(text)


def error(text: str) -> None:
    """The single message of an error; file names with line breaks do not split it into several lines."""
    for word in sys.argv:
        for name in (word, os.path.basename(word)) if "\n" in word else ():
            text = text.replace(name, name.replace("\n", "\\n")) if "\n" in name else text
    _red(f"warpsight: {_UNWANTED.sub(_escape, text)}")


def _secretless(text: str) -> str:
    from warpsight.model.sharing import secrets  # compiles its rules

    return secrets.secretless(text)


def _red(text: str) -> None:
    text = _secretless(text)
    sys.stdout.flush()
    print(f"\033[31m{text}\033[0m" if colored(sys.stderr) else text, file=sys.stderr)

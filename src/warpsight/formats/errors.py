"""Errors of the readers: the file, the position, and the expected and actual contents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from warpsight.errors import WarpsightError

P = ParamSpec("P")
R = TypeVar("R")


class FormatError(WarpsightError):
    """A foreign file that cannot be read as its format.

    `file` is the name the user gave; `offset` counts uncompressed bytes from 0, `line` lines from 1; either may be
    unknown.
    """

    def __init__(
        self, file: str, problem: str, *, offset: int | None = None, line: int | None = None
    ) -> None:
        """`problem` says what is wrong, or what was expected, in one sentence without a full stop."""
        place = f", line {line}" if line is not None else f", byte {offset:,}" if offset is not None else ""
        super().__init__(f"{file}{place}: {problem}")
        self.file = file
        self.problem = problem
        self.offset = offset
        self.line = line


@contextmanager
def decoding(file: str) -> Iterator[None]:
    """Report any exception of a decoder as damage to the file.

    Decoders report known kinds of damage more precisely; this catches the rest. `-v` shows the origin.

    Raises:
        FormatError: in place of any error that is not meant for the user.
    """
    try:
        yield
    except (WarpsightError, OSError, MemoryError):
        raise
    except RecursionError as error:
        raise FormatError(file, "is nested too deeply to be read") from error
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0][:200]
        raise FormatError(
            file, f"is damaged or does not follow its format ({type(error).__name__}: {first})"
        ) from error


def decodes(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads the file named by its first argument to run inside :func:`decoding`."""

    @wraps(function)
    def read(*args: P.args, **kwargs: P.kwargs) -> R:
        with decoding(os.fspath(args[0])):  # type: ignore[call-overload]
            return function(*args, **kwargs)

    return read

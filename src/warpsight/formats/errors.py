"""Errors of the readers: which file is wrong, where, and what stood there instead of what."""

from __future__ import annotations

from warpsight.errors import WarpsightError


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

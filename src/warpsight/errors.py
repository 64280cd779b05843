"""Errors a user can act on: printed as one message without a traceback."""

from __future__ import annotations


class WarpsightError(Exception):
    """An error that the user can act on. The message says what happened, to which file or process, and what to do next."""

    #: Exit code of the command line when this error ends a verb.
    exit_code = 1


class UsageError(WarpsightError):
    """The command line or the arguments are wrong."""

    exit_code = 2


class TraceError(WarpsightError):
    """A trace is missing, damaged or of a newer schema."""


def out_of_memory(error: BaseException) -> bool:
    """Whether there was not enough memory: Python's own error, NumPy's, Arrow's or DuckDB's."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException"


#: What to say then, after what was being done.
NO_MEMORY = (
    "needs more memory than there is: choose a part (--from, --to, --device), or use a machine with more"
)

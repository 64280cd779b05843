"""Errors a user can act on: printed as one message without a traceback."""

from __future__ import annotations

from collections.abc import Iterable


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
    """Whether memory ran out, according to Python, NumPy, Arrow or DuckDB, or because a thread or library could not be loaded."""
    no_thread = isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    no_library = isinstance(error, ImportError) and "failed to map segment" in str(error)
    return (
        no_thread
        or no_library
        or isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryException"
    )


#: The message to add after the description of the failed action.
NO_MEMORY = (
    "needs more memory than there is: choose a part (--from, --to, --device), or use a machine with more"
)


def choices(value: str, known: Iterable[str], label: str = "") -> str:
    """The end of a message about an unknown value: similar values, or all values if none is similar.

    Args:
        value: What was given.
        known: The known values.
        label: Text before a list of all values: `formats: `.
    """
    from difflib import get_close_matches

    listed = list(known)
    near = get_close_matches(value, listed, n=2, cutoff=0.7)
    return (
        f"; did you mean {' or '.join(near)}?"
        if near
        else f"{'; ' + label if label else ': '}{', '.join(listed)}"
    )

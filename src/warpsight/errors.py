"""Errors a user can act on: printed as one message without a traceback."""

from __future__ import annotations


class WarpsightError(Exception):
    """Something the user can act on. The message says what happened, to which file or process, and what to do next."""

    #: Exit code of the command line when this error ends a verb.
    exit_code = 1


class UsageError(WarpsightError):
    """The command line or the arguments are wrong."""

    exit_code = 2


class TraceError(WarpsightError):
    """A trace is missing, damaged or of a newer schema."""

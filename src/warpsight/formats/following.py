"""A hook for front ends to show the progress of reading a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.formats.source import Source


def nobody(source: Source) -> AbstractContextManager[None]:
    """Do nothing: no front end follows the progress."""
    return nullcontext()


#: Surrounds the reading of each file; set once, by the program that runs.
shown: Callable[[Source], AbstractContextManager[None]] = nobody

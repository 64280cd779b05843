"""Finding and loading libwarpsight.so; nothing else in the package knows where it is.

A build without compiled parts still reads traces: only :func:`load` fails, with what to do about it.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path

from warpsight.errors import WarpsightError

ENVIRONMENT = "WARPSIGHT_LIBRARY"


class NativeMissingError(WarpsightError):
    """There is no libwarpsight.so for this installation."""


def library_path() -> Path | None:
    """Path of libwarpsight.so: WARPSIGHT_LIBRARY when set, else beside this module; None when there is none."""
    override = os.environ.get(ENVIRONMENT)
    path = Path(override) if override else Path(__file__).with_name("libwarpsight.so")
    return path.resolve() if path.is_file() else None


@lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """Load libwarpsight.so into this process and declare its functions.

    Raises:
        NativeMissingError: when this installation has no compiled parts.
    """
    path = library_path()
    if path is None:
        override = os.environ.get(ENVIRONMENT)
        where = f"{ENVIRONMENT}={override} is not a file" if override else "it reads traces but cannot record"
        raise NativeMissingError(
            f"this installation of warpsight has no compiled recorder ({where}); install a Linux wheel, or build with "
            "a C++ compiler: pip install --no-binary warpsight --force-reinstall warpsight"
        )
    library = ctypes.CDLL(str(path))
    declare(library)
    return library


def declare(library: ctypes.CDLL) -> None:
    """Set argument and result types of every exported function that Python calls."""
    from warpsight._native.functions import FUNCTIONS

    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments

"""Finds and loads libwarpsight.so. No other module knows where it is.

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
    """This installation has no libwarpsight.so."""


def library_path() -> Path | None:
    """Path of libwarpsight.so: WARPSIGHT_LIBRARY if set, otherwise next to this module, or None."""
    override = os.environ.get(ENVIRONMENT)
    path = Path(override) if override else Path(__file__).with_name("libwarpsight.so")
    return path.resolve() if path.is_file() else None


def installed_beside(name: str) -> Path | None:
    """A file of this name in libwarpsight.so's folder; None when it is not there."""
    library = library_path()
    path = library.with_name(name) if library else None
    return path if path is not None and path.is_file() else None


def needed_beside(name: str, why: str) -> Path:
    """A file of this name in libwarpsight.so's folder.

    Raises:
        NativeMissingError: when there is no such file; `why` completes the sentence "this installation …".
    """
    found = installed_beside(name)
    if found is None:
        raise NativeMissingError(f"this installation of warpsight {why}")
    return found


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

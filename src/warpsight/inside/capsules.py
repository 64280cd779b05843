"""Marks the begin and end of the work that `warpsight capsule record` or `record --capsule` cuts out of this program."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

#: The request for what to cut out of a program, and the library that does it.
REQUEST = "WARPSIGHT_CAPSULE"
INJECTION = "CUDA_INJECTION64_PATH"
#: The ranges that `step` and `capture_frame` are.
STEP, FRAME = "warpsight:step", "warpsight:frame"


@contextmanager
def capture_frame() -> Iterator[None]:
    """Mark a block as a frame, which `warpsight capsule record --frame N` cuts out."""
    _mark("begin", FRAME)
    try:
        yield
    finally:
        _mark("end", FRAME)


def step_ended() -> None:
    """Note that an iteration has ended and the next begins; costs nothing when nothing is cut out."""
    if REQUEST in os.environ:
        _mark("end", STEP)
        _mark("begin", STEP)


def _mark(what: str, name: str) -> None:
    library = _library() if REQUEST in os.environ else None
    if library is not None:
        library[f"warpsight_capsule_{what}"](ctypes.c_char_p(name.encode()))


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """The library that records capsules, loaded by the driver or by the recorder."""
    injected = os.environ.get(INJECTION, "")
    try:
        return ctypes.CDLL(os.path.join(os.path.dirname(injected), "libwarpsight_capsule.so"))
    except OSError:
        return None

"""Keeping freed memory in the process."""

from __future__ import annotations

import sys

#: Parameters of glibc's mallopt (malloc.h), and values: arrays of any size come from the heap, and its end stays.
#: All threads share one heap: a column that one of them freed serves the next.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_SETTINGS = {_MMAP_MAX: 0, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 64 << 20, _ARENA_MAX: 1}


def keep_freed_memory() -> None:
    """Keep freed memory for the next array; for programs of our own that end soon, never for a library's user.

    Columns of millions of rows live for a moment each. By default every one of them is mapped anew, and its pages are zeroed and
    faulted in one by one: a tenth of the time of `analyze`, a third of it with ten million kernels.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # musl has none
        for parameter, value in _SETTINGS.items():
            library.mallopt(parameter, value)

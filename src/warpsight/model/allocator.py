"""Keeping freed memory in the process."""

from __future__ import annotations

import sys
from collections.abc import Mapping

#: Parameters of glibc's mallopt (malloc.h).
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -2, -3, -4, -8
#: Arrays of any size come from the heap, and its end stays. All threads share one heap: a column that one of them freed serves
#: the next.
_ALL = {_MMAP_MAX: 0, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 64 << 20, _ARENA_MAX: 1}
#: For the converter, whose arrays of a few megabytes come and go by the hundred per segment. Larger blocks (windows of calls)
#: are mapped, and only as far as they are used; 32 MiB is the most glibc takes as threshold.
SMALL = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 256 << 20}


def keep_freed_memory(settings: Mapping[int, int] = _ALL) -> None:
    """Keep freed memory for the next array. Only for our own short-lived programs, never inside a user's process.

    Columns of millions of rows are short-lived. By default each is mapped anew, and its pages are zeroed and faulted in one by
    one, which takes a tenth of the time of `analyze`, and a third with ten million kernels.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # musl lacks it
        for parameter, value in settings.items():
            library.mallopt(parameter, value)

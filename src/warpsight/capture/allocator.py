"""Keeping freed memory in the converter: its arrays of a few megabytes come and go by the hundred per segment.

glibc gives such memory back to the kernel at once and gets it again as zeroed pages, which costs more than filling it.
"""

from __future__ import annotations

import contextlib
import ctypes

#: Parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The most glibc takes as threshold; larger blocks (windows of calls) are mapped, and only as far as they are used.
_LARGEST_KEPT = 32 << 20
_KEPT = 256 << 20


def keep_freed_memory() -> None:
    """Make the C allocator keep what is freed; does nothing where it is not glibc's."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)

"""Reporting allocations of your own allocator: `ws.memory.allocate(address, bytes, …)`, `ws.memory.free(address)`."""

from __future__ import annotations

from warpsight.errors import UsageError
from warpsight.session.events import library

CATEGORIES = ("unknown", "activation", "gradient", "parameter", "temporary", "cached")
_ALLOCATE, _FREE = 1, 2
_HOST = -1


def allocate(address: int, size: int, *, allocator: str = "user", tag: str = "", category: str = "unknown",
             device: int = _HOST) -> None:  # fmt: skip
    """Report an allocation of `size` bytes; `device` is the CUDA or OpenCL index, -1 the host.

    Raises:
        UsageError: for a category that is none of CATEGORIES.
    """
    _report(_ALLOCATE, address, size, allocator, tag, category, device)


def free(address: int, size: int = 0, *, allocator: str = "user", device: int = _HOST) -> None:
    """Report that an allocation was given back; `size` may be left out."""
    _report(_FREE, address, size, allocator, "", "unknown", device)


def _report(
    operation: int, address: int, size: int, allocator: str, tag: str, category: str, device: int
) -> None:
    if category not in CATEGORIES:
        raise UsageError(f"category is one of {', '.join(CATEGORIES)}, not {category!r}")
    if library.recording():
        library.use().ws_memory(
            operation,
            address,
            size,
            allocator.encode(),
            tag.encode() or None,
            CATEGORIES.index(category),
            device,
        )

"""Reporting allocations of your own allocator: `ws.memory.allocate(address, bytes, …)`, `ws.memory.free(address)`.

`ws.memory.read_torch_snapshot(path)` reads what PyTorch's allocator reported about itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from warpsight.errors import UsageError
from warpsight.session.events import library

if TYPE_CHECKING:
    from warpsight.formats.torch_memory import TorchSnapshot

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


def read_torch_snapshot(path: str | os.PathLike[str]) -> TorchSnapshot:
    """Read a memory snapshot of PyTorch (`torch.cuda.memory._dump_snapshot(path)`); its `write` makes it a trace.

    The file is a pickle, of which nothing is executed: it may hold plain data only, and torch is not needed.

    Raises:
        TraceError: when the file is no such snapshot, or refers to code.
    """
    from warpsight.formats import torch_memory

    return torch_memory.read(path)


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

"""Reports allocations of your own allocator: `ws.memory.allocate(address, bytes, …)`, `ws.memory.free(address)`.

`ws.memory.read_torch_snapshot(path)` reads what PyTorch's allocator reported about itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from warpsight.errors import UsageError
from warpsight.inside import values
from warpsight.inside.events import library

if TYPE_CHECKING:
    from warpsight.formats.snapshot.torch_memory import TorchSnapshot

CATEGORIES = ("unknown", "activation", "gradient", "parameter", "temporary", "cached")
_ALLOCATE, _FREE = 1, 2
_HOST, _MOST_DEVICE, _MOST_ADDRESS = -1, 0xFFFE, 2**64 - 1


def allocate(address: int, size: int, *, allocator: str = "user", tag: str = "", category: str = "unknown",
             device: int = _HOST) -> None:  # fmt: skip
    """Report an allocation of `size` bytes; `device` is the CUDA or OpenCL index, -1 for the host.

    Raises:
        UsageError: for a category that is not in CATEGORIES.
        TypeError: for a number that is not one, or an allocator or tag that is not text; also while nothing records.
        ValueError: for an impossible address, size or device.
    """
    _report(_ALLOCATE, address, size, allocator, tag, category, device)


def free(address: int, size: int = 0, *, allocator: str = "user", device: int = _HOST) -> None:
    """Report a free; `size` may be left out. Raises as :func:`allocate` does."""
    _report(_FREE, address, size, allocator, "", "unknown", device)


def read_torch_snapshot(path: str | os.PathLike[str]) -> TorchSnapshot:
    """Read a PyTorch memory snapshot (`torch.cuda.memory._dump_snapshot(path)`); its `write` makes a trace.

    The pickle is read as plain data: none of its code is executed, and torch is not needed.

    Raises:
        TraceError: when the file is not such a snapshot, or refers to code.
    """
    from warpsight.formats.snapshot import torch_memory

    return torch_memory.read(path)


def _report(
    operation: int, address: int, size: int, allocator: str, tag: str, category: str, device: int
) -> None:
    values.check_text(category, "category")
    if category not in CATEGORIES:
        raise UsageError(f"category must be one of {', '.join(CATEGORIES)}, not {category!r}")
    values.check_text(allocator, "allocator")
    values.check_text(tag, "tag")
    place = values.whole(address, "address", 0, _MOST_ADDRESS)
    length = values.whole(size, "size", 0, values.MOST_TIME, "bytes")
    index = values.whole(device, "device", _HOST, _MOST_DEVICE)
    if library.recording():
        library.use().ws_memory(
            operation,
            place,
            length,
            values.encoded(allocator),
            values.encoded(tag) or None,
            CATEGORIES.index(category),
            index,
        )

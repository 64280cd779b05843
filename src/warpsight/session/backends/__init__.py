"""Vendors' own recorders behind `record --backend`: one module each, found by this table.

warpsight records CUDA and OpenCL itself. Where a vendor's recorder can do what ours cannot (other hardware, hardware counters),
it is run with the program, and what it wrote is imported.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.session.backends.vendor import Vendor

VENDORS: dict[str, str] = {
    "nsys": "warpsight.session.backends.nsys",
    "rocm": "warpsight.session.backends.rocm",
    "metal": "warpsight.session.backends.metal",
    "maca": "warpsight.session.backends.maca",
    "ascend": "warpsight.session.backends.ascend",
    "uprobe": "warpsight.session.backends.uprobe",
}


def recorder(name: str) -> Vendor:
    """The recorder behind a backend's name."""
    found: Vendor = importlib.import_module(VENDORS[name]).VENDOR
    return found

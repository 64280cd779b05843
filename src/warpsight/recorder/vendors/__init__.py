"""Vendors' own recorders behind `record --backend`: one module each, found by this table.

warpsight records CUDA and OpenCL itself, and AMD's and MetaX' GPUs where their libraries for tools are. Where a vendor's recorder
can do what ours cannot (other hardware, hardware counters), it is run with the program, and what it wrote is imported.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warpsight.recorder.vendors.vendor import Vendor

VENDORS: dict[str, str] = {
    "nsys": "warpsight.recorder.vendors.nsys",
    "rocm": "warpsight.recorder.vendors.rocm",
    "metal": "warpsight.recorder.vendors.metal",
    "maca": "warpsight.recorder.vendors.maca",
    "ascend": "warpsight.recorder.vendors.ascend",
    "uprobe": "warpsight.recorder.vendors.uprobe",
}


@dataclass(frozen=True)
class OwnRecorder:
    """What warpsight's own recorder of a vendor's GPUs needs: the vendor's library for tools, and where it is here."""

    vendor: str
    library: Path | None
    needs: str


def own_recorder(name: str) -> OwnRecorder:
    """Our own recorder behind the name of a vendor's backend, `rocm` or `maca`."""
    if name == "maca":
        from warpsight.machine import mcpti

        return OwnRecorder(
            "MetaX",
            mcpti.usable(),
            f"{mcpti.LIBRARY} of API version {mcpti.OLDEST} or newer, and there is none in $MACA_PATH/lib, LD_LIBRARY_PATH or "
            "/opt/maca*/lib: install the package mcpti of MetaX' SDK, or set WARPSIGHT_MCPTI",
        )
    from warpsight.machine import rocprofiler

    found = rocprofiler.find()
    return OwnRecorder(
        "AMD",
        None if found is None else found.path,
        "librocprofiler-sdk, and there is none in LD_LIBRARY_PATH, $ROCM_PATH/lib, /opt/rocm/lib or this Python's ROCm "
        "wheels: install the package rocprofiler-sdk of ROCm 6.2 or newer",
    )


def recorder(name: str) -> Vendor:
    """The recorder behind a backend's name."""
    found: Vendor = importlib.import_module(VENDORS[name]).VENDOR
    return found

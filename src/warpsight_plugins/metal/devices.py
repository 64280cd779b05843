"""Apple's GPUs, on a Mac, by system_profiler."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from warpsight.machine import vendor_tools
from warpsight.machine.device import Device

VENDOR = "Apple"


def devices(root: Path) -> list[Device]:
    """GPUs of this Mac, including those of other vendors; empty on any other system."""
    del root
    if platform.system() != "Darwin":
        return []
    listed = vendor_tools.document("system_profiler", "SPDisplaysDataType", "-json")
    rows = listed.get("SPDisplaysDataType") if isinstance(listed, dict) else None
    return [_device(row) for row in rows or [] if isinstance(row, dict)]


def missing(there: bool, readable: bool) -> str | None:
    """Why no GPU is found on a Mac; on other systems there is nothing to look for."""
    del readable
    if platform.system() == "Darwin" and not there:
        return "system_profiler names no GPU"
    return None


def _device(row: dict[str, Any]) -> Device:
    name = str(row.get("sppci_model") or row.get("_name") or "GPU")
    cores = str(row.get("sppci_cores") or "")
    family = str(row.get("spdisplays_mtlgpufamilysupport") or "")
    return Device(
        0, "metal", str(row.get("_name") or name), name, VENDOR if name.startswith("Apple") else name.split()[0],
        multiprocessors=int(cores) if cores.isdigit() else None, driver=family or None,
    )  # fmt: skip

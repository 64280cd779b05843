"""MetaX GPUs, found on the PCI bus; names come from mx-smi."""

from __future__ import annotations

import re
from pathlib import Path

from warpsight.machine import pci, vendor_tools
from warpsight.machine.device import Device
from warpsight_plugins.maca import library

VENDOR = "MetaX"
_VENDOR_ID = 0x9999
#: A row of mx-smi that names a card: a name, and the address it sits at.
_ROW = re.compile(
    r"(?P<name>\bMX[A-Z]\w*(?: \w+)?)\b.*?(?P<pci>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)


def devices(root: Path) -> list[Device]:
    """Every MetaX GPU on the bus."""
    found = list(pci.devices(_VENDOR_ID, root=root / "bus/pci/devices"))
    names = _names() if found else {}
    return [
        Device(
            0, "maca", one.address, names.get(one.address) or f"MetaX GPU {one.device:#06x}", VENDOR, one.address,
            pci.numa_node(one.address, root / "bus/pci/devices"), driver=one.driver, runtime=_recording(),
        )
        for one in found
    ]  # fmt: skip


def missing(there: bool, readable: bool) -> str | None:
    """Why names, or the devices themselves, are unknown."""
    return vendor_tools.missing(there, readable, "names and memory", "mx-smi")


def _recording() -> str | None:
    """The library that records programs on these GPUs in-process."""
    found = library.find()
    return None if found is None else f"MCPTI ({found}); recording in process is {library.UNTESTED}"


def _names() -> dict[str, str]:
    text = vendor_tools.output("mx-smi") or ""
    return {found["pci"].lower(): found["name"] for found in map(_ROW.search, text.splitlines()) if found}

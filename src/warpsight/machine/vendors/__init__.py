"""Devices of other vendors: one module each. What the kernel tells is read; vendors' tools add names where they are installed.

A vendor's hardware is never left out because its tool is absent: the PCI bus tells that it is there. :func:`missing` says what
could not be asked.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from warpsight.machine import pci
from warpsight.machine.device import Device
from warpsight.machine.vendors import amd, apple, ascend, intel, metax

_ALL = (amd, intel, metax, ascend, apple)


def devices(first: int = 0, root: Path = Path("/sys")) -> list[Device]:
    """Devices of all vendors beside NVIDIA, numbered from `first`. `root` is where sysfs is mounted."""
    found = [device for module in _ALL for device in module.devices(root)]
    return [replace(device, index=first + number) for number, device in enumerate(found)]


def missing(found: list[Device], root: Path = Path("/sys")) -> list[str]:
    """What could not be asked, one clause a vendor: nobody should take an absent tool for absent hardware."""
    said = []
    for module in _ALL:
        there = any(device.vendor == module.VENDOR for device in found)
        reason = module.missing(there, pci.readable(root / "bus/pci/devices"))
        if reason:
            said.append(f"{module.VENDOR}: {reason}")
    return said

"""Devices from vendors other than NVIDIA, from the kernel's data; installed vendor tools add names.

A vendor's hardware is never left out because its tool is absent: the PCI bus shows that it is there. :func:`missing` says what
could not be queried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from warpsight.machine import pci
from warpsight.machine.backends import backend, registry
from warpsight.machine.device import Device


def devices(first: int = 0, root: Path = Path("/sys")) -> list[Device]:
    """Devices of all vendors except NVIDIA, numbered from `first`. `root` is where sysfs is mounted."""
    found = [device for _, module in _describers() for device in module.devices(root)]
    return [replace(device, index=first + number) for number, device in enumerate(found)]


def missing(found: list[Device], root: Path = Path("/sys")) -> list[str]:
    """Why a vendor's tool could not be queried, one clause each: a missing tool must not look like missing hardware."""
    clauses = []
    readable = pci.readable(root / "bus/pci/devices")
    for vendor, module in _describers():
        reason = module.missing(any(device.vendor == vendor for device in found), readable)
        if reason:
            clauses.append(f"{vendor}: {reason}")
    return clauses


def vendor_of(spelled: str) -> str | None:
    """The short name of a vendor as its driver spells it; None if no backend knows it."""
    for one in registry.with_part("devices"):
        if any(name in spelled for name in (one.vendor, *one.spellings)):
            return one.vendor
    return None


def _describers() -> Iterator[tuple[str, backend.Devices]]:
    for one in registry.with_part("devices"):
        yield one.vendor, one.part("devices")

"""Intel GPUs, found on the PCI bus and in the DRM files of i915 and xe; names come from xpu-smi."""

from __future__ import annotations

from pathlib import Path

from warpsight.machine import pci, vendor_tools
from warpsight.machine.device import Device

VENDOR = "Intel"
_VENDOR_ID = 0x8086


def devices(root: Path) -> list[Device]:
    """Every Intel GPU on the bus, including graphics integrated into the processor."""
    found = list(pci.devices(_VENDOR_ID, root=root / "bus/pci/devices"))
    known = _discovered() if found else {}
    return [_device(one, known.get(one.address, {}), root) for one in found]


def missing(there: bool, readable: bool) -> str | None:
    """Why names, or the devices themselves, are unknown."""
    return vendor_tools.missing(there, readable, "marketing names", "xpu-smi")


def _device(one: pci.PciDevice, known: dict[str, str], root: Path) -> Device:
    cards = sorted((one.folder / "drm").glob("card*")) if (one.folder / "drm").is_dir() else []
    card = (
        pci.PciDevice(one.address, one.vendor, one.device, one.kind, one.driver, cards[0]) if cards else None
    )
    # i915 reports local memory and the highest clock at the card, xe the clock below a tile's engine group.
    memory = card.number("lmem_total_bytes") if card else None
    clock = (card.number("gt_RP0_freq_mhz") if card else None) or one.number("tile0/gt0/freq0/rp0_freq")
    return Device(
        0, "level zero", known.get("uuid") or one.address, known.get("device_name") or f"Intel GPU {one.device:#06x}",
        VENDOR, one.address, pci.numa_node(one.address, root / "bus/pci/devices"), memory_bytes=memory,
        clock_khz=clock * 1000 if clock else None, driver=one.driver,
    )  # fmt: skip


def _discovered() -> dict[str, dict[str, str]]:
    """What xpu-smi reports, by PCI address."""
    listed = vendor_tools.document("xpu-smi", "discovery", "-j")
    rows = listed.get("device_list") if isinstance(listed, dict) else None
    return {
        str(row["pci_bdf_address"]).lower(): {key: str(value) for key, value in row.items()}
        for row in rows or []
        if isinstance(row, dict) and "pci_bdf_address" in row
    }

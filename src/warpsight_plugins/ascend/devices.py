"""Huawei's Ascend NPUs: accelerators on the bus; names and memory from npu-smi."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from warpsight.machine import pci, vendor_tools
from warpsight.machine.device import Device

VENDOR = "Huawei"
_VENDOR_ID = 0x19E5
#: `npu-smi info` prints two rows a chip: `| 0     910B3 | OK | 93.6 …` and `| 0 | 0000:C1:00.0 | 0   0 / 0   3342 / 65536 |`.
_NAME = re.compile(r"^\|\s*\d+\s+(?P<name>[0-9A-Za-z]+)\s*\|\s*\w+\s*\|")
_CHIP = re.compile(
    r"^\|[^|]*\|\s*(?P<pci>[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*\|(?P<rest>.*)$"
)
_MEMORY = re.compile(r"(\d+)\s*/\s*(\d+)\s*\|?\s*$")


def devices(root: Path) -> list[Device]:
    """Every Ascend NPU on the bus, without Huawei's display controllers of servers."""
    found = list(pci.devices(_VENDOR_ID, (pci.ACCELERATOR,), root / "bus/pci/devices"))
    known = _listed() if found else {}
    return [
        Device(
            0, "cann", one.address, known.get(one.address, {}).get("name") or f"Ascend NPU {one.device:#06x}", VENDOR,
            one.address, pci.numa_node(one.address, root / "bus/pci/devices"),
            memory_bytes=known.get(one.address, {}).get("memory"), driver=one.driver, kind="accelerator",
        )
        for one in found
    ]  # fmt: skip


def missing(there: bool, readable: bool) -> str | None:
    """Why names, or the devices themselves, are unknown."""
    return vendor_tools.missing(there, readable, "names and memory", "npu-smi")


def _listed() -> dict[str, dict[str, Any]]:
    """Name and memory by PCI address."""
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for line in (vendor_tools.output("npu-smi", "info") or "").splitlines():
        if chip := _CHIP.match(line):
            memory = _MEMORY.search(chip["rest"])
            found[chip["pci"].lower()] = {
                "name": f"Ascend {name}" if name else "",
                "memory": int(memory[2]) << 20
                if memory and int(memory[2])
                else None,  # MB as the tool prints it
            }
        elif row := _NAME.match(line):
            name = row["name"]
    return found

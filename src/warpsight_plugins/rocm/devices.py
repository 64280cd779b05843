"""AMD GPUs: the compute topology of the amdgpu driver (KFD), memory and clocks of sysfs; names from amd-smi or rocm-smi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.machine import pci, vendor_tools
from warpsight.machine.device import Device

VENDOR = "AMD"
_VENDOR_ID = 0x1002


def devices(root: Path) -> list[Device]:
    """Every AMD GPU on the bus; details of those that the compute driver runs."""
    nodes = _nodes(root)
    names = _names() if any(True for _ in pci.devices(_VENDOR_ID, root=root / "bus/pci/devices")) else {}
    return [
        _device(one, nodes.get(one.address, {}), names, root)
        for one in pci.devices(_VENDOR_ID, root=root / "bus/pci/devices")
    ]


def missing(there: bool, readable: bool) -> str | None:
    """Why names, or the devices themselves, are unknown."""
    return vendor_tools.missing(there, readable, "marketing names", "amd-smi", "rocm-smi")


def _device(one: pci.PciDevice, node: dict[str, int], names: dict[str, str], root: Path) -> Device:
    target = node.get("gfx_target_version", 0)
    arch = f"gfx{target // 10000}{target // 100 % 100:x}{target % 100:x}" if target else None
    simds, per_unit = node.get("simd_count", 0), node.get("simd_per_cu", 0)
    unique = node.get("unique_id") or 0
    name = names.get(one.address) or one.text("product_name") or f"AMD GPU {one.device:#06x}"
    waves = node.get("max_waves_per_simd", 0) * per_unit * node.get("wave_front_size", 0)
    return Device(
        0, "rocm", f"GPU-{unique:x}" if unique else one.address, f"{name} ({arch})" if arch else name, VENDOR, one.address,
        pci.numa_node(one.address, root / "bus/pci/devices"),
        memory_bytes=one.number("mem_info_vram_total"),
        multiprocessors=simds // per_unit if per_unit else None,
        clock_khz=node["max_engine_clk_fcompute"] * 1000 if node.get("max_engine_clk_fcompute") else None,
        warp_size=node.get("wave_front_size") or None,
        shared_per_multiprocessor=node["lds_size_in_kb"] * 1024 if node.get("lds_size_in_kb") else None,
        threads_per_multiprocessor=waves or None,
        driver=one.driver,
    )  # fmt: skip


def _nodes(root: Path) -> dict[str, dict[str, int]]:
    """Properties of the topology's GPU nodes by PCI address."""
    found: dict[str, dict[str, int]] = {}
    for file in sorted((root / "class/kfd/kfd/topology/nodes").glob("*/properties")):
        try:
            pairs = [line.split() for line in file.read_text().splitlines()]
        except OSError:
            continue
        values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if not values.get("simd_count"):  # a CPU
            continue
        place = values.get("location_id", 0)
        address = f"{values.get('domain', 0):04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7:x}"
        found[address] = values
    return found


def _names() -> dict[str, str]:
    """Marketing names by PCI address: of amd-smi (ROCm 6 and newer), else of rocm-smi."""
    found: dict[str, str] = {}
    static = vendor_tools.document("amd-smi", "static", "--asic", "--bus", "--json")
    rows = static.get("gpu_data", []) if isinstance(static, dict) else static
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            _add(found, _inner(row, "bus", "bdf"), _inner(row, "asic", "market_name"))
    if found:
        return found
    smi = vendor_tools.document("rocm-smi", "--showproductname", "--showbus", "--json")
    for row in smi.values() if isinstance(smi, dict) else []:
        if isinstance(row, dict):
            name = row.get("Card Series") or row.get("Card series") or row.get("Card Model")
            _add(found, row.get("PCI Bus"), name)
    return found


def _inner(row: dict[str, Any], *path: str) -> object:
    value: Any = row
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _add(found: dict[str, str], address: object, name: object) -> None:
    if isinstance(address, str) and isinstance(name, str) and name and name != "N/A":
        found[address.lower()] = name

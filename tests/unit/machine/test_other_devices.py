"""Devices of other vendors: a made-up sysfs and stand-ins for the vendors' tools, whose output is as they print it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from warpsight.machine import discovery, opencl, other_devices
from warpsight.machine.device import Device

AMD_PROPERTIES = """cpu_cores_count 0
simd_count 1216
simd_per_cu 4
lds_size_in_kb 64
wave_front_size 64
max_waves_per_simd 8
gfx_target_version 90402
location_id 1280
domain 0
unique_id 6896193574214432439
max_engine_clk_fcompute 2100
"""


class Machine:
    def __init__(self, folder: Path) -> None:
        self.sys = folder / "sys"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.sys / "bus/pci/devices").mkdir(parents=True)

    def card(self, address: str, vendor: int, device: int, kind: int, driver: str = "", **files: str) -> Path:
        folder = self.sys / "bus/pci/devices" / address
        folder.mkdir(parents=True)
        for name, text in {
            "vendor": f"{vendor:#06x}",
            "device": f"{device:#06x}",
            "class": f"{kind:#08x}",
            **files,
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text + "\n")
        if driver:
            (self.sys / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(self.sys / "bus/pci/drivers" / driver)
        return folder

    def tool(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/bin:/bin")
    return made


def amd(machine: Machine) -> None:
    machine.card(
        "0000:05:00.0", 0x1002, 0x74A1, 0x120000, "amdgpu", mem_info_vram_total="205822885888", numa_node="1"
    )
    node = machine.sys / "class/kfd/kfd/topology/nodes/1"
    node.mkdir(parents=True)
    (node / "properties").write_text(AMD_PROPERTIES)


def test_amd_comes_from_the_kernel_and_its_name_from_amd_smi(machine: Machine) -> None:
    amd(machine)
    found = other_devices.devices(2, machine.sys)
    assert [d.name for d in found] == ["AMD GPU 0x74a1 (gfx942)"]
    device = found[0]
    assert (device.index, device.vendor, device.platform, device.pci) == (2, "AMD", "rocm", "0000:05:00.0")
    assert (device.uuid, device.numa_node, device.memory_bytes) == (
        "GPU-5fb43384a561f6b7",
        1,
        205_822_885_888,
    )
    assert (device.multiprocessors, device.warp_size, device.clock_khz) == (304, 64, 2_100_000)
    assert (device.shared_per_multiprocessor, device.threads_per_multiprocessor, device.driver) == (
        65536,
        2048,
        "amdgpu",
    )
    assert other_devices.missing(found, machine.sys) == [
        "AMD: marketing names are not known: neither amd-smi nor rocm-smi is installed"
    ]
    row = {"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}, "bus": {"bdf": "0000:05:00.0"}}
    machine.tool("amd-smi", json.dumps([row]))
    found = other_devices.devices(0, machine.sys)
    assert found[0].name == "AMD Instinct MI300X (gfx942)"
    assert other_devices.missing(found, machine.sys) == []


def test_metax_devices_say_that_recording_them_in_process_is_untested(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.card("0000:0e:00.0", 0x9999, 0x4000, 0x030200, "metax")
    monkeypatch.delenv("WARPSIGHT_MCPTI", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    monkeypatch.setenv("MACA_PATH", str(tmp_path / "maca"))
    assert other_devices.devices(0, machine.sys)[0].runtime is None
    library = tmp_path / "maca/lib/libmcpti.so"
    library.parent.mkdir(parents=True)
    library.write_text("")
    (found,) = other_devices.devices(0, machine.sys)
    assert found.runtime == f"MCPTI ({library}); recording in process is untested on hardware"


def test_amd_names_of_rocm_smi_with_its_warnings(machine: Machine) -> None:
    amd(machine)
    machine.tool("rocm-smi", 'WARNING: AMD GPU device(s) is/are in a low-power state.\n'
                 '{"card0": {"Card Series": "AMD Instinct MI300X", "PCI Bus": "0000:05:00.0"}}')  # fmt: skip
    assert other_devices.devices(0, machine.sys)[0].name == "AMD Instinct MI300X (gfx942)"


def test_intel_metax_and_ascend(machine: Machine) -> None:
    machine.card("0000:29:00.0", 0x8086, 0x0BD5, 0x038000, "i915", **{"drm/card0/lmem_total_bytes": "137438953472",
                 "drm/card0/gt_RP0_freq_mhz": "1600"})  # fmt: skip
    machine.card("0000:0e:00.0", 0x9999, 0x4000, 0x030200, "metax")
    machine.card("0000:c1:00.0", 0x19E5, 0xD802, 0x120000, "devdrv_device_driver")
    machine.card("0000:03:00.0", 0x19E5, 0x1711, 0x030000, "hibmc-drm")  # the server's own display, no NPU
    found = other_devices.devices(0, machine.sys)
    assert [(d.vendor, d.name, d.memory_bytes, d.clock_khz, d.kind) for d in found] == [
        ("Intel", "Intel GPU 0x0bd5", 137_438_953_472, 1_600_000, "gpu"),
        ("MetaX", "MetaX GPU 0x4000", None, None, "gpu"),
        ("Huawei", "Ascend NPU 0xd802", None, None, "accelerator"),
    ]
    assert [d.index for d in found] == [0, 1, 2]
    assert len(other_devices.missing(found, machine.sys)) == 3
    card = {
        "device_name": "Intel(R) Data Center GPU Max 1550",
        "pci_bdf_address": "0000:29:00.0",
        "uuid": "0000-1",
    }
    machine.tool("xpu-smi", json.dumps({"device_list": [card]}))
    machine.tool("mx-smi", "| 0        MXC500             | 0000:0e:00.0        | 0%       |")
    chip = [
        "| 0     910B3               | OK            | 93.6        41                0    / 0     |",
        "| 0                         | 0000:C1:00.0  | 0           0    / 0          3342 / 65536         |",
    ]
    machine.tool("npu-smi", "\n".join(chip))
    found = other_devices.devices(0, machine.sys)
    assert [(d.name, d.uuid, d.memory_bytes) for d in found] == [
        ("Intel(R) Data Center GPU Max 1550", "0000-1", 137_438_953_472),
        ("MXC500", "0000:0e:00.0", None),
        ("Ascend 910B3", "0000:c1:00.0", 65536 << 20),
    ]
    assert other_devices.missing(found, machine.sys) == []


def test_without_sysfs_absent_tools_are_not_taken_for_absent_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert other_devices.devices(0, tmp_path) == []
    said = other_devices.missing([], tmp_path)
    assert said[0] == "AMD: not looked for: no sysfs here, and neither amd-smi nor rocm-smi is installed"
    assert len(said) == 4


def test_a_tool_that_hangs_or_prints_rubbish_costs_nothing_but_the_name(machine: Machine) -> None:
    amd(machine)
    machine.tool("amd-smi", "{not json")
    machine.tool("rocm-smi", "[1, 2]")
    assert other_devices.devices(0, machine.sys)[0].name == "AMD GPU 0x74a1 (gfx942)"


def test_an_opencl_gpu_of_a_known_vendor_is_not_listed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Device(0, "rocm", "GPU-1", "MI300X", "AMD", "0000:05:00.0")

    def one(name: str, pci: str | None, kind: str = "gpu") -> opencl.OpenclDevice:
        return opencl.OpenclDevice(
            handle=1, platform="P", platform_version="OpenCL 3.0", name=name, vendor="Advanced Micro Devices, Inc.",
            nvidia=False, kind=kind, uuid=None, pci=pci, memory_bytes=1, units=1, clock_khz=1, local_bytes=1, driver="1",
            compute_capability=None, warp_size=64,
        )  # fmt: skip

    monkeypatch.setattr(discovery.other_devices, "devices", lambda first: [card])
    monkeypatch.setattr(discovery, "_cuda_devices", list)
    listed = [
        one("same, no address", None),
        one("same", "0000:05:00.0"),
        one("other", "0000:06:00.0"),
        one("cpu", None, "cpu"),
    ]
    monkeypatch.setattr(opencl, "devices", lambda: listed)
    assert [device.name for device in discovery.devices()] == ["MI300X", "other", "cpu"]

"""What is made of NVML's answers, on a stand-in for the module that refuses what old cards refuse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from warpsight.machine import discovery, nvml, opencl
from warpsight.machine.cuda import cuda_driver


class FakeNvml:
    """Two GPUs: one with everything and MIG on, one that cannot tell its clocks or processes."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    class NVMLError(Exception):
        """NVML's error."""

    def nvmlShutdown(self) -> None:
        pass

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu{index}"

    def nvmlDeviceGetMigMode(self, handle: str) -> tuple[int, int]:
        if handle == "gpu1":
            raise self.NVMLError("Not Supported")
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:
        return 2

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, number: int) -> str:
        if number:
            raise self.NVMLError("Not Found")
        return "mig0"

    def nvmlDeviceGetPciInfo(self, handle: str) -> Any:
        return SimpleNamespace(busId=b"00000000:65:00.0" if handle != "gpu1" else b"00000000:66:00.0")

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=80 << 30)

    def nvmlDeviceGetMaxClockInfo(self, handle: str, kind: int) -> int:
        if handle == "gpu1":
            raise self.NVMLError("Not Supported")
        return 1980 if kind == 1 else 2619

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:
        return 9, 0

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetProcessUtilization(self, handle: str, since: int) -> list[Any]:
        if handle == "gpu1":
            raise self.NVMLError("Not Found")
        return [SimpleNamespace(pid=10, smUtil=55)]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [SimpleNamespace(pid=10, usedGpuMemory=1 << 20), SimpleNamespace(pid=11, usedGpuMemory=None)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:
        return []


def test_devices_and_mig_instances() -> None:
    found = nvml.devices(FakeNvml())
    assert [(d.index, d.uuid, d.mig) for d in found] == [
        (0, "GPU-gpu0", "on"),
        (0, "GPU-mig0", "instance 0"),
        (1, "GPU-gpu1", None),
    ]
    assert found[0].pci == "0000:65:00.0"
    assert (found[0].clock_khz, found[0].memory_clock_khz) == (1_980_000, 2_619_000)
    assert found[2].clock_khz is None


def test_processes_keep_what_is_unknown_as_none() -> None:
    found = {(p.pid, p.device): p for p in nvml.processes(FakeNvml())}
    assert found[10, "GPU-gpu0"].utilisation == 55
    assert found[11, "GPU-gpu0"].memory_bytes is None
    assert found[10, "GPU-gpu1"].utilisation is None


def test_opencl_device_of_a_known_gpu_is_not_listed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def device(uuid: str | None, pci: str | None, name: str) -> opencl.OpenclDevice:
        return opencl.OpenclDevice(
            1, "P", "OpenCL 3.0", name, "V", False, "gpu", uuid, pci, 1, 1, 1, 1, "1", None, None
        )

    monkeypatch.setattr(nvml, "load", lambda: (FakeNvml(), None))
    monkeypatch.setattr(cuda_driver, "devices", list)
    monkeypatch.setattr(
        opencl,
        "devices",
        lambda: [device("GPU-gpu0", None, "a"), device(None, "0000:66:00.0", "b"), device("CL-9", None, "c")],
    )
    found = discovery.devices()
    assert [d.name for d in found if d.platform == "opencl"] == ["c"]
    assert len(found) == 4


def test_no_device_at_all_is_an_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "load", lambda: (None, "no NVML"))
    monkeypatch.setattr(cuda_driver, "devices", list)
    monkeypatch.setattr(opencl, "devices", list)
    assert discovery.devices() == []
    assert discovery.detect_platform() == "cpu"

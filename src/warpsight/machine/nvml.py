"""Devices and their processes according to NVML (nvidia-ml-py), including devices that this process may not use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class _NvmlDevice:
    """One GPU, or one MIG instance of a GPU."""

    index: int
    uuid: str
    name: str
    pci: str | None
    memory_bytes: int | None
    clock_khz: int | None
    memory_clock_khz: int | None
    compute_capability: str | None
    driver: str | None
    mig: str | None
    handle: Any


@dataclass(frozen=True)
class GpuProcess:
    """A process NVML sees on a device; utilization is the SMs' share in percent over NVML's last sample."""

    pid: int
    device: str
    memory_bytes: int | None
    utilisation: int | None


def load() -> tuple[Any | None, str | None]:
    """(pynvml, None), or (None, why NVML cannot be used). The caller shuts NVML down; see :func:`session`."""
    try:
        import pynvml
    except ImportError:
        return None, "the package nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, f"NVML: {error}"
    return pynvml, None


@contextmanager
def session() -> Iterator[Any | None]:
    """Context manager that loads NVML and shuts it down; None if it cannot be used."""
    nvml, _ = load()
    try:
        yield nvml
    finally:
        if nvml is not None:
            nvml.nvmlShutdown()


def ask(nvml: ModuleType, function: Callable[..., _Answer], *arguments: object) -> _Answer | None:
    """Call an NVML function; None if this device or driver lacks the value."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _handles(nvml: ModuleType) -> Iterator[tuple[int, Any, str | None]]:
    """(index, handle, MIG state): a GPU in MIG mode is followed by its instances."""
    for index in range(ask(nvml, nvml.nvmlDeviceGetCount) or 0):
        handle = ask(nvml, nvml.nvmlDeviceGetHandleByIndex, index)
        if handle is None:
            continue
        mode = ask(nvml, nvml.nvmlDeviceGetMigMode, handle)
        yield index, handle, None if mode is None else "on" if mode[0] else "off"
        if not mode or not mode[0]:
            continue
        for number in range(ask(nvml, nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            instance = ask(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
            if instance is not None:
                yield index, instance, f"instance {number}"


def devices(nvml: ModuleType) -> list[_NvmlDevice]:
    """All GPUs and MIG instances."""
    driver = _text(ask(nvml, nvml.nvmlSystemGetDriverVersion)) or None
    return [_device(nvml, index, handle, mig, driver) for index, handle, mig in _handles(nvml)]


def _device(nvml: ModuleType, index: int, handle: object, mig: str | None, driver: str | None) -> _NvmlDevice:
    pci = ask(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    memory = ask(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    clock = ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM)
    memory_clock = ask(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM)
    capability = ask(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return _NvmlDevice(
        index=index,
        uuid=_text(ask(nvml, nvml.nvmlDeviceGetUUID, handle)),
        name=_text(ask(nvml, nvml.nvmlDeviceGetName, handle)),
        pci=short_pci(_text(pci.busId)) if pci is not None else None,
        memory_bytes=int(memory.total) if memory is not None else None,
        clock_khz=clock * 1000 if clock else None,
        memory_clock_khz=memory_clock * 1000 if memory_clock else None,
        compute_capability=".".join(map(str, capability)) if capability else None,
        driver=driver,
        mig=mig,
        handle=handle,
    )


def short_pci(text: str) -> str:
    """NVML's 00000000:65:00.0 as the kernel spells it: 0000:65:00.0."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else text.lower()


def processes(nvml: ModuleType) -> list[GpuProcess]:
    """Processes with a context on a device, compute and graphics, one row per process and device."""
    found: dict[tuple[int, str], GpuProcess] = {}
    for device in devices(nvml):
        shares = {
            int(s.pid): int(s.smUtil)
            for s in ask(nvml, nvml.nvmlDeviceGetProcessUtilization, device.handle, 0) or []
        }
        for list_of in (
            nvml.nvmlDeviceGetComputeRunningProcesses,
            nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for process in ask(nvml, list_of, device.handle) or []:
                pid, used = int(process.pid), process.usedGpuMemory
                found[pid, device.uuid] = GpuProcess(
                    pid, device.uuid, None if used is None else int(used), shares.get(pid)
                )
    return list(found.values())

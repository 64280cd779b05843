"""All devices of this machine, each once, from every available source: NVML, the CUDA driver, the kernel, OpenCL."""

from __future__ import annotations

from dataclasses import replace

from warpsight.machine import nvml, opencl, other_devices
from warpsight.machine.cuda import cuda_driver
from warpsight.machine.device import Device
from warpsight.machine.pci import numa_node


def devices() -> list[Device]:
    """List CUDA devices, then those of other vendors, then OpenCL devices that are not the same hardware.

    An OpenCL device is the same hardware if its UUID or PCI address agrees, or if it has neither and its vendor's GPUs are known.
    """
    found = _cuda_devices()
    found += other_devices.devices(len(found))
    known = {d.uuid for d in found} | {d.pci for d in found if d.pci}
    for one in opencl.devices():
        if one.uuid in known or one.pci in known or _vendor_known(one, found):
            continue
        found.append(_from_opencl(one, len(found)))
    return found


def detect_platform() -> str:
    """Return the best platform on this machine: `cuda`, `opencl`, or `cpu` if nothing can be recorded."""
    if cuda_driver.devices():
        return "cuda"
    return "opencl" if opencl.devices() else "cpu"


def not_asked(found: list[Device]) -> list[str]:
    """Why devices of other vendors could not be queried, one clause each."""
    return other_devices.missing(found)


def _vendor_known(one: opencl.OpenclDevice, found: list[Device]) -> bool:
    """Whether an OpenCL device without an address is assumed to be one of those already found."""
    if one.nvidia:
        return any(device.vendor == "NVIDIA" for device in found)
    if one.pci is not None or one.kind != "gpu":
        return False
    vendor = other_devices.vendor_of(one.vendor)
    return any(device.vendor == vendor for device in found)


def _cuda_devices() -> list[Device]:
    """Every GPU as NVML knows it, joined by UUID with what the driver says of those that this process may use."""
    by_uuid = {d.uuid: d for d in cuda_driver.devices()}
    version = cuda_driver.version()
    runtime = f"CUDA {version[0]}.{version[1]}" if version else None
    found: list[Device] = []
    with nvml.session() as session:
        for one in nvml.devices(session) if session is not None else []:
            base = Device(
                one.index,
                "cuda",
                one.uuid,
                one.name,
                "NVIDIA",
                one.pci,
                numa_node(one.pci),
                one.compute_capability,
                one.memory_bytes,
                clock_khz=one.clock_khz,
                memory_clock_khz=one.memory_clock_khz,
                driver=one.driver,
                runtime=runtime,
                mig=one.mig,
            )
            found.append(_detailed(base, by_uuid.pop(one.uuid, None)))
    for rest in by_uuid.values():  # no NVML, or a MIG instance it would not show
        base = Device(
            rest.ordinal,
            "cuda",
            rest.uuid,
            rest.name,
            "NVIDIA",
            rest.pci,
            numa_node(rest.pci),
            runtime=runtime,
        )
        found.append(_detailed(base, rest))
    return found


def _detailed(device: Device, cuda: cuda_driver.CudaDevice | None) -> Device:
    if cuda is None:
        return device
    a = cuda.attributes
    capability = f"{a['compute_major']}.{a['compute_minor']}" if "compute_major" in a else None
    return replace(
        device,
        memory_bytes=device.memory_bytes or cuda.memory_bytes,
        memory_bandwidth=cuda.memory_bandwidth,
        compute_capability=device.compute_capability or capability,
        multiprocessors=a.get("multiprocessors"),
        clock_khz=device.clock_khz or a.get("clock_khz"),
        memory_clock_khz=device.memory_clock_khz or a.get("memory_clock_khz"),
        warp_size=a.get("warp_size"),
        registers_per_multiprocessor=a.get("registers_per_multiprocessor"),
        shared_per_multiprocessor=a.get("shared_per_multiprocessor"),
        threads_per_multiprocessor=a.get("threads_per_multiprocessor"),
        blocks_per_multiprocessor=a.get("blocks_per_multiprocessor"),
    )


def _from_opencl(one: opencl.OpenclDevice, index: int) -> Device:
    return Device(
        index,
        "opencl",
        one.uuid or f"{one.platform}/{one.name}",
        one.name,
        one.vendor,
        one.pci,
        numa_node(one.pci),
        one.compute_capability,
        one.memory_bytes or None,
        multiprocessors=one.units or None,
        clock_khz=one.clock_khz or None,
        warp_size=one.warp_size,
        shared_per_multiprocessor=one.local_bytes or None,
        driver=one.driver,
        runtime=one.platform_version,
        kind=one.kind,
    )

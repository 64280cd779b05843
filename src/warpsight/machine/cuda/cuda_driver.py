"""Devices as the CUDA driver describes them: libcuda through ctypes, no context is made."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

from warpsight.errors import WarpsightError

#: CUdevice_attribute of cuda.h
_ATTRIBUTES = {
    "warp_size": 10,
    "clock_khz": 13,
    "multiprocessors": 16,
    "pci_bus": 33,
    "pci_device": 34,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "threads_per_multiprocessor": 39,
    "pci_domain": 50,
    "compute_major": 75,
    "compute_minor": 76,
    "shared_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "blocks_per_multiprocessor": 106,
}


@dataclass(frozen=True)
class CudaDevice:
    """One device of the driver: ordinal, identity and the attributes above, if known."""

    ordinal: int
    uuid: str
    name: str
    memory_bytes: int
    attributes: dict[str, int]

    @property
    def pci(self) -> str:
        """domain:bus:device.function in lower-case hex, as in /sys/bus/pci/devices."""
        a = self.attributes
        return f"{a.get('pci_domain', 0):04x}:{a.get('pci_bus', 0):02x}:{a.get('pci_device', 0):02x}.0"

    @property
    def memory_bandwidth(self) -> int | None:
        """Peak bytes per second: two transfers per memory clock over the bus width."""
        clock, bits = self.attributes.get("memory_clock_khz"), self.attributes.get("memory_bus_bits")
        return clock * 1000 * 2 * bits // 8 if clock and bits else None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """libcuda, or None without a driver."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def error_name(driver: ctypes.CDLL, code: int) -> str:
    """The name of an error code: CUDA_ERROR_…."""
    text = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(text))
    return text.value.decode() if text.value else f"CUDA error {code}"


def problem() -> str | None:
    """Why the driver cannot be used, or None."""
    driver = library()
    if driver is None:
        return "libcuda.so.1 is not installed"
    code = driver.cuInit(0)
    return None if code == 0 else f"cuInit: {error_name(driver, code)}"


def require() -> ctypes.CDLL:
    """Load the driver; WarpsightError if no CUDA device can be used."""
    driver, why = library(), problem()
    if driver is None or why:
        raise WarpsightError(f"no CUDA device here: {why}; `warpsight doctor` says what to do")
    return driver


def version() -> tuple[int, int] | None:
    """The CUDA version the driver supports, as (major, minor)."""
    driver, number = library(), ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(number)):
        return None
    return number.value // 1000, number.value % 1000 // 10


def format_uuid(raw: bytes, prefix: str = "GPU") -> str:
    """Format 16 bytes as a UUID: GPU-8-4-4-4-12."""
    text = raw.hex()
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def devices() -> list[CudaDevice]:
    """The devices visible to this process (CUDA_VISIBLE_DEVICES applies); empty without a usable driver."""
    driver, count = library(), ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return []
    try:
        return [_device(driver, ordinal) for ordinal in range(count.value)]
    except AttributeError:  # a library of this name that lacks functions
        return []


def _device(driver: ctypes.CDLL, ordinal: int) -> CudaDevice:
    handle, uuid, name, total = (
        ctypes.c_int(),
        (ctypes.c_ubyte * 16)(),
        ctypes.create_string_buffer(256),
        ctypes.c_size_t(),
    )
    driver.cuDeviceGet(ctypes.byref(handle), ordinal)
    (getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid)(uuid, handle)
    driver.cuDeviceGetName(name, 256, handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), handle)
    attributes = {}
    for key, number in _ATTRIBUTES.items():
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle) == 0:
            attributes[key] = value.value
    return CudaDevice(
        ordinal, format_uuid(bytes(uuid)), name.value.decode("utf-8", "replace"), total.value, attributes
    )

"""Devices as OpenCL describes them: the installed loader through ctypes."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from warpsight.errors import WarpsightError
from warpsight.machine.cuda.cuda_driver import format_uuid

_TYPE, _VENDOR_ID, _UNITS, _CLOCK = 0x1000, 0x1001, 0x1002, 0x100C
_MEMORY, _LOCAL = 0x101F, 0x1023
_NAME, _VENDOR, _DRIVER, _VERSION = 0x102B, 0x102C, 0x102D, 0x102F
_UUID, _PCI, _NV_MAJOR, _NV_MINOR, _NV_WARP, _AMD_WAVEFRONT = 0x106A, 0x410F, 0x4000, 0x4001, 0x4003, 0x4043
_PLATFORM_VERSION, _PLATFORM_NAME = 0x0901, 0x0902
_NVIDIA_VENDOR = 0x10DE


@dataclass(frozen=True)
class OpenclDevice:
    """One OpenCL device. `handle` is its cl_device_id in this process."""

    handle: int
    platform: str
    platform_version: str
    name: str
    vendor: str
    nvidia: bool
    kind: str
    uuid: str | None
    pci: str | None
    memory_bytes: int
    units: int
    clock_khz: int
    local_bytes: int
    driver: str
    compute_capability: str | None
    warp_size: int | None


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The OpenCL loader, or None."""
    return _open("libOpenCL.so.1") or _open(ctypes.util.find_library("OpenCL"))


def _open(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name) if name else None
    except OSError:
        return None


def problem() -> str | None:
    """Why no OpenCL device can be used, or None."""
    loader, count = library(), ctypes.c_uint()
    if loader is None:
        return "no OpenCL loader (libOpenCL.so.1)"
    code = loader.clGetPlatformIDs(0, None, ctypes.byref(count))
    if code or not count.value:
        return "the OpenCL loader finds no platform"
    return None if devices() else "no OpenCL platform has a device"


def require() -> None:
    """Raise WarpsightError where no OpenCL device can be used."""
    why = problem()
    if why:
        raise WarpsightError(f"no OpenCL device here: {why}; apt install pocl-opencl-icd makes the CPU one")


def _text(query: Callable[..., int], handle: ctypes.c_void_p, what: int) -> str:
    buffer = ctypes.create_string_buffer(1024)
    return (
        buffer.value.decode("utf-8", "replace").strip()
        if not query(handle, what, ctypes.c_size_t(1023), buffer, None)
        else ""
    )


def _number(
    query: Callable[..., int],
    handle: ctypes.c_void_p,
    what: int,
    kind: type[ctypes.c_uint] | type[ctypes.c_ulong] = ctypes.c_uint,
) -> int | None:
    value = kind()
    return (
        int(value.value)
        if not query(handle, what, ctypes.c_size_t(ctypes.sizeof(kind)), ctypes.byref(value), None)
        else None
    )


def _bytes(query: Callable[..., int], handle: ctypes.c_void_p, what: int, size: int) -> bytes | None:
    raw = (ctypes.c_ubyte * size)()
    return bytes(raw) if not query(handle, what, ctypes.c_size_t(size), raw, None) else None


def devices() -> list[OpenclDevice]:
    """Every device of every platform; empty without a loader."""
    loader, count = library(), ctypes.c_uint()
    if loader is None or loader.clGetPlatformIDs(0, None, ctypes.byref(count)) or not count.value:
        return []
    platforms = (ctypes.c_void_p * count.value)()
    loader.clGetPlatformIDs(count.value, platforms, None)
    found: list[OpenclDevice] = []
    for platform in platforms:
        handle = ctypes.c_void_p(platform)
        if (
            loader.clGetDeviceIDs(handle, ctypes.c_ulong(0xFFFFFFFF), 0, None, ctypes.byref(count))
            or not count.value
        ):
            continue
        ids = (ctypes.c_void_p * count.value)()
        loader.clGetDeviceIDs(handle, ctypes.c_ulong(0xFFFFFFFF), count.value, ids, None)
        found += [_device(loader, handle, ctypes.c_void_p(one)) for one in ids]
    return found


def _device(loader: ctypes.CDLL, platform: ctypes.c_void_p, handle: ctypes.c_void_p) -> OpenclDevice:
    info = loader.clGetDeviceInfo
    nvidia = _number(info, handle, _VENDOR_ID) == _NVIDIA_VENDOR
    kinds = _number(info, handle, _TYPE, ctypes.c_ulong) or 0
    uuid, pci, major = (
        _bytes(info, handle, _UUID, 16),
        _bytes(info, handle, _PCI, 16),
        _number(info, handle, _NV_MAJOR),
    )
    place = [int.from_bytes(pci[i : i + 4], "little") for i in range(0, 16, 4)] if pci else None
    return OpenclDevice(
        handle=handle.value or 0,
        platform=_text(loader.clGetPlatformInfo, platform, _PLATFORM_NAME),
        platform_version=_text(loader.clGetPlatformInfo, platform, _PLATFORM_VERSION),
        name=_text(info, handle, _NAME),
        vendor=_text(info, handle, _VENDOR),
        nvidia=nvidia,
        kind="gpu" if kinds & 4 else "cpu" if kinds & 2 else "accelerator",
        uuid=format_uuid(uuid, "GPU" if nvidia else "CL") if uuid else None,
        pci=f"{place[0]:04x}:{place[1]:02x}:{place[2]:02x}.{place[3]:x}" if place else None,
        memory_bytes=_number(info, handle, _MEMORY, ctypes.c_ulong) or 0,
        units=_number(info, handle, _UNITS) or 0,
        clock_khz=(_number(info, handle, _CLOCK) or 0) * 1000,
        local_bytes=_number(info, handle, _LOCAL, ctypes.c_ulong) or 0,
        driver=_text(info, handle, _DRIVER),
        compute_capability=f"{major}.{_number(info, handle, _NV_MINOR)}" if major else None,
        warp_size=_number(info, handle, _NV_WARP) or _number(info, handle, _AMD_WAVEFRONT),
    )

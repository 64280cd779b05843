"""The few OpenCL calls a small program needs, through ctypes: no package besides the loader libOpenCL.so.1."""

from __future__ import annotations

import ctypes
from array import array
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

_DEVICE_TYPE_ALL = 0xFFFFFFFF
_DEVICE_NAME = 0x102B
_READ_WRITE = 1
_BUILD_LOG = 0x1183
_HANDLE, _STATUS = c_void_p, POINTER(c_int32)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "clGetPlatformIDs": (c_int32, c_uint32, POINTER(_HANDLE), POINTER(c_uint32)),
    "clGetDeviceIDs": (c_int32, _HANDLE, c_uint64, c_uint32, POINTER(_HANDLE), POINTER(c_uint32)),
    "clGetDeviceInfo": (c_int32, _HANDLE, c_uint32, c_size_t, c_void_p, POINTER(c_size_t)),
    "clCreateContext": (_HANDLE, c_void_p, c_uint32, POINTER(_HANDLE), c_void_p, c_void_p, _STATUS),
    "clCreateCommandQueue": (_HANDLE, _HANDLE, _HANDLE, c_uint64, _STATUS),
    "clCreateProgramWithSource": (_HANDLE, _HANDLE, c_uint32, POINTER(c_char_p), c_void_p, _STATUS),
    "clBuildProgram": (c_int32, _HANDLE, c_uint32, POINTER(_HANDLE), c_char_p, c_void_p, c_void_p),
    "clGetProgramBuildInfo": (c_int32, _HANDLE, _HANDLE, c_uint32, c_size_t, c_void_p, c_void_p),
    "clCreateKernel": (_HANDLE, _HANDLE, c_char_p, _STATUS),
    "clSetKernelArg": (c_int32, _HANDLE, c_uint32, c_size_t, c_void_p),
    "clCreateBuffer": (_HANDLE, _HANDLE, c_uint64, c_size_t, c_void_p, _STATUS),
    "clEnqueueNDRangeKernel": (
        c_int32, _HANDLE, _HANDLE, c_uint32, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_uint32, c_void_p, c_void_p,
    ),
    "clEnqueueWriteBuffer": (
        c_int32, _HANDLE, _HANDLE, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, c_void_p, c_void_p,
    ),
    "clEnqueueReadBuffer": (
        c_int32, _HANDLE, _HANDLE, c_uint32, c_size_t, c_size_t, c_void_p, c_uint32, c_void_p, c_void_p,
    ),
    "clEnqueueCopyBuffer": (
        c_int32, _HANDLE, _HANDLE, _HANDLE, c_size_t, c_size_t, c_size_t, c_uint32, c_void_p, c_void_p,
    ),
    "clFinish": (c_int32, _HANDLE),
}  # fmt: skip


class OpenClError(RuntimeError):
    """A call failed, or there is no device."""


class OpenclQueue:
    """A queue on the first OpenCL device."""

    def __init__(self) -> None:
        try:
            self._cl = ctypes.CDLL("libOpenCL.so.1")
        except OSError:
            raise OpenClError("libOpenCL.so.1 is not installed") from None
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(self._cl, name)
            function.restype, function.argtypes = result, arguments
        self._device = self._first_device()
        devices = (c_void_p * 1)(self._device)
        self._context = self._make("clCreateContext", None, 1, devices, None, None)
        self._queue = self._make("clCreateCommandQueue", self._context, self._device, 0)

    @property
    def device_name(self) -> str:
        """What the device calls itself."""
        text = ctypes.create_string_buffer(256)
        self._call("clGetDeviceInfo", self._device, _DEVICE_NAME, len(text), text, None)
        return text.value.decode(errors="replace")

    def build(self, source: str, *names: str) -> list[int]:
        """Compile a program and return its kernels."""
        text = (c_char_p * 1)(source.encode())
        program = self._make("clCreateProgramWithSource", self._context, 1, text, None)
        devices = (c_void_p * 1)(self._device)
        if self._cl.clBuildProgram(program, 1, devices, b"", None, None):
            log = ctypes.create_string_buffer(1 << 14)
            self._cl.clGetProgramBuildInfo(program, self._device, _BUILD_LOG, len(log), log, None)
            raise OpenClError(log.value.decode(errors="replace"))
        return [self._make("clCreateKernel", program, name.encode()) for name in names]

    def buffer(self, size: int) -> int:
        """Device memory of `size` bytes."""
        return self._make("clCreateBuffer", self._context, _READ_WRITE, size, None)

    def launch(
        self, kernel: int, shape: tuple[int, ...], group: tuple[int, ...], *arguments: int | float
    ) -> None:
        """Run a kernel; integers are buffers, floats are floats."""
        for place, value in enumerate(arguments):
            data: Any = ctypes.c_float(value) if isinstance(value, float) else c_void_p(value)
            self._call("clSetKernelArg", kernel, place, ctypes.sizeof(data), byref(data))
        count = len(shape)
        self._call("clEnqueueNDRangeKernel", self._queue, kernel, count, None, (c_size_t * count)(*shape),
                   (c_size_t * count)(*group), 0, None, None)  # fmt: skip

    def write(self, buffer: int, values: array[float]) -> None:
        """Copy values to the device."""
        address, count = values.buffer_info()
        self._call(
            "clEnqueueWriteBuffer", self._queue, buffer, 1, 0, count * values.itemsize, address, 0, None, None
        )

    def read(self, buffer: int, values: array[float]) -> None:
        """Copy values back; waits."""
        address, count = values.buffer_info()
        self._call(
            "clEnqueueReadBuffer", self._queue, buffer, 1, 0, count * values.itemsize, address, 0, None, None
        )

    def copy(self, source: int, destination: int, size: int) -> None:
        """Copy on the device."""
        self._call("clEnqueueCopyBuffer", self._queue, source, destination, 0, 0, size, 0, None, None)

    def finish(self) -> None:
        """Wait until all is done."""
        self._call("clFinish", self._queue)

    def _first_device(self) -> int:
        count = c_uint32()
        platforms = (c_void_p * 16)()
        if self._cl.clGetPlatformIDs(16, platforms, byref(count)):
            raise OpenClError("no OpenCL platform is installed")
        for platform in platforms[: count.value]:
            device = c_void_p()
            if (
                not self._cl.clGetDeviceIDs(platform, _DEVICE_TYPE_ALL, 1, byref(device), None)
                and device.value
            ):
                return device.value
        raise OpenClError("no OpenCL device is installed")

    def _make(self, name: str, *arguments: Any) -> int:
        status = c_int32()
        handle = getattr(self._cl, name)(*arguments, byref(status))
        if status.value or not handle:
            raise OpenClError(f"{name}: {status.value}")
        return int(handle)

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cl, name)(*arguments)
        if status:
            raise OpenClError(f"{name}: {status}")

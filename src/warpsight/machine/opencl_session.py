"""A context and a queue on one OpenCL device through ctypes: enough for self-tests, `bench` and `demo`."""

from __future__ import annotations

import ctypes

from warpsight.errors import WarpsightError
from warpsight.machine import opencl

_READ_WRITE = 1
_RETURNING_HANDLES = (
    "clCreateContext",
    "clCreateCommandQueue",
    "clCreateProgramWithSource",
    "clCreateKernel",
    "clCreateBuffer",
)


class OpenclSession:
    """An in-order queue on the first GPU, else the first device.

    Raises:
        WarpsightError: when there is no device or a call fails.
    """

    def __init__(self) -> None:
        opencl.require()
        found = sorted(opencl.devices(), key=lambda d: d.kind != "gpu")
        self.device, self._cl = found[0], opencl.library()
        for name in _RETURNING_HANDLES:
            getattr(self._cl, name).restype = ctypes.c_void_p
        handle = ctypes.c_void_p(self.device.handle)
        self._context = self._made("clCreateContext", None, 1, ctypes.byref(handle), None, None)
        self._queue = self._made("clCreateCommandQueue", self._context, handle, ctypes.c_ulong(0))

    def _made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        code = ctypes.c_int()
        handle = getattr(self._cl, function)(*arguments, ctypes.byref(code))
        if code.value:
            raise WarpsightError(f"{function} failed with OpenCL error {code.value}")
        return ctypes.c_void_p(handle)

    def _do(self, function: str, *arguments: object) -> None:
        code = getattr(self._cl, function)(*arguments)
        if code:
            raise WarpsightError(f"{function} failed with OpenCL error {code}")

    def kernel(self, source: str, name: str) -> ctypes.c_void_p:
        """Build a program and get one kernel from it."""
        text = ctypes.c_char_p(source.encode())
        program = self._made("clCreateProgramWithSource", self._context, 1, ctypes.byref(text), None)
        self._do("clBuildProgram", program, 0, None, None, None, None)
        return self._made("clCreateKernel", program, name.encode())

    def buffer(self, size: int) -> ctypes.c_void_p:
        """A device buffer of `size` bytes."""
        return self._made(
            "clCreateBuffer", self._context, ctypes.c_ulong(_READ_WRITE), ctypes.c_size_t(size), None
        )

    def set_arguments(self, kernel: ctypes.c_void_p, *arguments: ctypes.c_void_p | float) -> None:
        """Pass buffers, and numbers as 32-bit floats."""
        for place, value in enumerate(arguments):
            data = ctypes.c_float(value) if isinstance(value, float) else value
            self._do(
                "clSetKernelArg", kernel, place, ctypes.c_size_t(ctypes.sizeof(data)), ctypes.byref(data)
            )

    def launch(self, kernel: ctypes.c_void_p, items: tuple[int, ...], group: tuple[int, ...]) -> None:
        """Enqueue a launch of one to three dimensions."""
        shape = ctypes.c_size_t * len(items)
        self._do(
            "clEnqueueNDRangeKernel",
            self._queue,
            kernel,
            len(items),
            None,
            shape(*items),
            shape(*group),
            0,
            None,
            None,
        )

    def write(self, buffer: ctypes.c_void_p, host: object, size: int) -> None:
        """Copy to the device and wait."""
        sizes = ctypes.c_size_t(0), ctypes.c_size_t(size)
        self._do("clEnqueueWriteBuffer", self._queue, buffer, 1, *sizes, host, 0, None, None)

    def read(self, buffer: ctypes.c_void_p, host: object, size: int) -> None:
        """Copy from the device and wait."""
        sizes = ctypes.c_size_t(0), ctypes.c_size_t(size)
        self._do("clEnqueueReadBuffer", self._queue, buffer, 1, *sizes, host, 0, None, None)

    def copy(self, source: ctypes.c_void_p, destination: ctypes.c_void_p, size: int) -> None:
        """Copy between two buffers."""
        sizes = ctypes.c_size_t(0), ctypes.c_size_t(0), ctypes.c_size_t(size)
        self._do("clEnqueueCopyBuffer", self._queue, source, destination, *sizes, 0, None, None)

    def finish(self) -> None:
        """Wait for everything enqueued."""
        self._do("clFinish", self._queue)

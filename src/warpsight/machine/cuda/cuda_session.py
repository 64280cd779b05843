"""A context on one CUDA device through the driver API and ctypes: enough for self-tests and `bench`."""

from __future__ import annotations

import ctypes

from warpsight.errors import WarpsightError
from warpsight.machine.cuda import cuda_driver

#: Stores 1 to the first element; every driver since CUDA 11 compiles it for its device.
_TOUCH_PTX = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry touch(.param .u64 out)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 1;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""


class CudaSession:
    """The primary context of one device, current on the calling thread.

    Raises:
        WarpsightError: when there is no driver or a call fails.
    """

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal, self._driver = ordinal, cuda_driver.require()
        self._device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.do("cuDeviceGet", ctypes.byref(self._device), ordinal)
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self._device)
        self.enter()

    def enter(self) -> None:
        """Make the context current on this thread."""
        self.do("cuCtxSetCurrent", self.context)

    def close(self) -> None:
        """Release the context."""
        self.do("cuDevicePrimaryCtxRelease_v2", self._device)

    def do(self, function: str, *arguments: object) -> None:
        """Call a driver function; an error names it."""
        code = getattr(self._driver, function)(*arguments)
        if code:
            raise WarpsightError(f"{function} failed: {cuda_driver.error_name(self._driver, code)}")

    def kernel(self, ptx: bytes = _TOUCH_PTX, name: str = "touch") -> ctypes.c_void_p:
        """Compile PTX and get one kernel from it."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.do("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        self.do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Allocate device memory and return its address."""
        pointer = ctypes.c_uint64()
        self.do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer: ctypes.c_uint64) -> None:
        """Free device memory."""
        self.do("cuMemFree_v2", pointer)

    def pinned(self, size: int) -> ctypes.c_void_p:
        """Allocate page-locked host memory."""
        pointer = ctypes.c_void_p()
        self.do("cuMemAllocHost_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(self, function: ctypes.c_void_p, grid: int, block: int, parameters: object) -> None:
        """Launch on the default stream; `parameters` is an array of pointers to the arguments."""
        self.do("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, parameters, None)

    def synchronize(self) -> None:
        """Wait for the device."""
        self.do("cuCtxSynchronize")

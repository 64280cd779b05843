"""Loads the cubin given as argument with one instruction overwritten, and runs it: an illegal instruction.

Standard library only: the driver is called through ctypes.
"""

import ctypes
import sys

#: The constant in the source: it is at byte 4 of the 16-byte instruction that makes it.
CONSTANT = (0x5EED1E55).to_bytes(4, "little")
cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    status = getattr(cuda, name)(*arguments)
    if status:
        sys.exit(f"{name}: CUDA error {status}")


def patched(code: bytes) -> bytes:
    at = code.index(CONSTANT) - 4
    if at % 16:
        sys.exit("the constant is not an operand")
    return code[:at] + b"\xff\x0f" + code[at + 2 :]


call("cuInit", 0)
context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
with open(sys.argv[1], "rb") as file:
    image = patched(file.read())
call("cuModuleLoadData", ctypes.byref(module), image)
call("cuModuleGetFunction", ctypes.byref(function), module, b"illegal_instruction")
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4096))
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
print("launched", flush=True)
call("cuCtxSynchronize")

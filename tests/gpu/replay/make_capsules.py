"""Runs the kernels of kernels.cu on a GPU and makes a capsule of each, by hand: `make_capsules.py KERNELS.cubin FOLDER`.

The recorder is not used: what is tested is that a replay in another process leaves the bytes that a known program left.
"""

from __future__ import annotations

import ctypes as c
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.device_code.cubin import Cubin
from warpsight.device_code.kernel_info import parameters
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Writer

COUNT = 100_000
POINTER = struct.Struct("<QQfi")
LAYOUT = [m.Parameter(0, 8), m.Parameter(8, 8), m.Parameter(16, 4), m.Parameter(20, 4)]
driver = c.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    result = getattr(driver, name)(*arguments)
    assert result == 0, (name, result)


class Attribute(c.Structure):
    _fields_ = (("id", c.c_uint), ("pad", c.c_uint), ("value", c.c_ubyte * 64))


class Config(c.Structure):
    _fields_ = (("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint), ("stream", c.c_void_p),
                ("attributes", c.POINTER(Attribute)), ("count", c.c_uint))  # fmt: skip


class Gpu:
    """A context with the kernels' module, and two arrays."""

    def __init__(self, cubin: bytes) -> None:
        call("cuInit", 0)
        context, self.module = c.c_void_p(), c.c_void_p()
        call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
        call("cuCtxSetCurrent", context)
        call("cuModuleLoadData", c.byref(self.module), cubin)
        self.cubin = cubin
        self.y, self.x = self.allocate(4 * COUNT), self.allocate(4 * COUNT)
        rng = np.random.default_rng(1)
        self.contents = {
            address: rng.standard_normal(COUNT, np.float32).tobytes() for address in (self.y, self.x)
        }

    def allocate(self, size: int) -> int:
        address = c.c_uint64()
        call("cuMemAlloc_v2", c.byref(address), c.c_size_t(size))
        return address.value

    def read(self, address: int, size: int) -> bytes:
        data = c.create_string_buffer(size)
        call("cuMemcpyDtoH_v2", data, c.c_uint64(address), c.c_size_t(size))
        return data.raw

    def write(self, address: int, data: bytes) -> None:
        call("cuMemcpyHtoD_v2", c.c_uint64(address), data, c.c_size_t(len(data)))

    def variable(self, name: str) -> tuple[int, int]:
        address, size = c.c_uint64(), c.c_size_t()
        call("cuModuleGetGlobal_v2", c.byref(address), c.byref(size), self.module, name.encode())
        return address.value, size.value

    def launch(self, work: m.Launch, function: m.Function) -> None:
        handle = c.c_void_p()
        call("cuModuleGetFunction", c.byref(handle), self.module, function.name.encode())
        attributes = (Attribute * 4)()
        for slot, one in zip(attributes, work.attributes, strict=False):
            slot.id, slot.value[:] = one.id, one.value
        config = Config(work.grid, work.block, work.shared_bytes, None, attributes, len(work.attributes))
        buffer, size = (
            c.create_string_buffer(work.parameters, len(work.parameters)),
            c.c_size_t(len(work.parameters)),
        )
        extra = (c.c_void_p * 5)(1, c.addressof(buffer), 2, c.addressof(size), None)
        call("cuLaunchKernelEx", c.byref(config), handle, None, extra)

    def capsule(self, path: Path, function: m.Function, works: list[m.Launch], globals_: list[m.Global] | None = None,
                relocations: list[m.Relocation] | None = None) -> None:  # fmt: skip
        """Run the launches and write what was there before and after; `relocations`: of x."""
        writer = Writer(path, chunk_bytes=1 << 20)
        for address, data in self.contents.items():
            self.write(address, data)
        if relocations:
            self.write(self.x, struct.pack("<Q", self.variable("factor")[0]))
        before = [(address, self.read(address, 4 * COUNT)) for address in sorted(self.contents)]
        held = [
            m.Global(g.module, g.name, g.address, g.size, before=writer.put(self.read(g.address, g.size)))
            for g in globals_ or ()
        ]  # fmt: skip
        for work in works:
            self.launch(work, function)
        call("cuCtxSynchronize")
        writer.finish(
            m.Manifest(
                format="warpsight capsule", version=1, chunk_bytes=1 << 20,
                device=m.RecordedDevice("GPU", (9, 0), 132, 80 << 30, 13000),
                modules=[m.LoadedModule("cubin", len(self.cubin), writer.put(self.cubin))],
                functions=[function], globals=held,
                allocations=[
                    m.Allocation(a, len(old), "malloc", before=writer.put(old), after=writer.put(self.read(a, len(old))),
                                 relocations=(relocations or []) if a == self.x else [])
                    for a, old in before
                ],
                streams=[m.Stream(default=True)], operations=list(works),
            )
        )  # fmt: skip


def cluster(size: int) -> m.LaunchAttribute:
    return m.LaunchAttribute(4, struct.pack("<III", size, 1, 1).ljust(64, b"\0"))


def tensor_map(gpu: Gpu) -> bytes:
    data = (c.c_ubyte * 192)()
    place = (c.addressof(data) + 63) // 64 * 64
    dims, strides = (c.c_uint64 * 2)(320, 8), (c.c_uint64 * 1)(320 * 4)
    box, steps = (c.c_uint32 * 2)(32, 8), (c.c_uint32 * 2)(1, 1)
    call(
        "cuTensorMapEncodeTiled",
        c.c_void_p(place),
        7,
        2,
        c.c_void_p(gpu.x),
        dims,
        strides,
        box,
        steps,
        0,
        0,
        0,
        0,
    )
    return c.string_at(place, 128)


def main(cubin: Path, folder: Path) -> None:
    gpu = Gpu(cubin.read_bytes())
    folder.mkdir(exist_ok=True)
    plain = POINTER.pack(gpu.y, gpu.x, 2.5, COUNT)
    blocks = ((COUNT + 255) // 256, 1, 1)

    def simple(name: str, count: int = 1, grid: tuple[int, int, int] = blocks, **more: Any) -> None:
        works = [m.Launch(0, 0, grid, (256, 1, 1), plain, **more)] * count
        gpu.capsule(folder / f"{name}.capsule", m.Function(0, name, LAYOUT), works)

    simple("saxpy", 20)
    simple("atomic_sum")
    simple("clusters", grid=((COUNT // 512) * 2, 1, 1), cluster=(2, 1, 1), attributes=[cluster(2)])
    simple("cooperative", attributes=[m.LaunchAttribute(2, struct.pack("<I", 1).ljust(64, b"\0"))])
    simple("reads_beyond")
    places = parameters(
        Cubin(gpu.cubin, "kernels"), "tensor"
    )  # alignment counts from where the architecture puts them
    padded = struct.pack("<Q", gpu.y).ljust(places[1][0], b"\0") + tensor_map(gpu)
    gpu.capsule(
        folder / "tensor.capsule", m.Function(0, "tensor", [m.Parameter(*place) for place in places]),
        [m.Launch(0, 0, (10, 1, 1), (256, 1, 1), padded)],
    )  # fmt: skip
    (kept, kept_size), (factor, factor_size) = gpu.variable("kept"), gpu.variable("factor")
    gpu.write(kept, struct.pack("<Q", gpu.x + 64))
    variables = [
        m.Global(0, "kept", kept, kept_size),
        m.Global(0, "factor", factor, factor_size, constant=True),
    ]
    gpu.capsule(
        folder / "through_globals.capsule", m.Function(0, "through_globals", LAYOUT),
        [m.Launch(0, 0, (100, 1, 1), (256, 1, 1), POINTER.pack(gpu.y, gpu.x, 2.5, 25_000))], variables, [m.Relocation(0, 1)],
    )  # fmt: skip
    print("addresses", hex(gpu.y), hex(gpu.x), hex(kept), hex(factor))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Three small programs whose kernels can be made slower by a known factor, for benchmarks/diff_trust.py.

    python benchmarks/diff_programs.py stencil --device opencl
    python benchmarks/diff_programs.py layers --device cuda --slower 1.05

Every kernel is a loop of multiply-adds, so its time follows its number of rounds; `--slower` multiplies the rounds of one
kernel, the one named in `PLANTED`. OpenCL and the CUDA driver are called through ctypes: no framework is needed.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import warpsight as ws

KERNELS = (
    "exchange",
    "sweep",
    "residual",
    "project",
    "attend",
    "blend",
    "update",
    "prepare",
    "decode",
    "sample",
)
#: The kernel of each program that `--slower` makes slower.
PLANTED = {"stencil": "sweep", "layers": "attend", "serving": "decode"}
OPENCL = """
__kernel void {name}(__global float *values, const float rounds) {{
  const int at = get_global_id(0);
  float value = values[at];
  for (int round = 0; round < (int)rounds; ++round) value = value * 0.999f + 0.001f;
  values[at] = value;
}}
"""
PTX = """
.version 7.0
.target sm_52
.address_size 64
.visible .entry {name}(.param .u64 values, .param .u32 rounds)
{{
    .reg .pred %p<2>; .reg .f32 %f<4>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [values];
    ld.param.u32 %r1, [rounds];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    mov.f32 %f2, 0f3F7FBE77;
    mov.f32 %f3, 0f3A83126F;
    mov.u32 %r6, 0;
$again_{name}:
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra $done_{name};
    fma.rn.f32 %f1, %f1, %f2, %f3;
    add.u32 %r6, %r6, 1;
    bra $again_{name};
$done_{name}:
    st.global.f32 [%rd4], %f1;
    ret;
}}
"""


class Device(Protocol):
    """What the programs ask of a device; rounds are multiples of a unit, some tens or hundreds of microseconds."""

    def launch(self, kernel: str, rounds: float) -> None: ...

    def write(self) -> None: ...

    def read(self) -> None: ...

    def finish(self) -> None: ...


class OpenclDevice:
    """The first OpenCL device; with PoCL that is the CPU."""

    ITEMS, GROUP, UNIT = 4096, 64, 100

    def __init__(self) -> None:
        from warpsight.machine.opencl_session import OpenclSession

        self.session = OpenclSession()
        source = "".join(OPENCL.format(name=name) for name in KERNELS)
        self.size = 4 * self.ITEMS
        self.values = ctypes.create_string_buffer(self.size)
        self.buffer = self.session.buffer(self.size)
        self.kernels = {name: self.session.kernel(source, name) for name in KERNELS}
        self.write()

    def launch(self, kernel: str, rounds: float) -> None:
        count = float(round(rounds * self.UNIT))
        self.session.set_arguments(self.kernels[kernel], self.buffer, count)
        self.session.launch(self.kernels[kernel], (self.ITEMS,), (self.GROUP,))

    def write(self) -> None:
        self.session.write(self.buffer, self.values, self.size)

    def read(self) -> None:
        self.session.read(self.buffer, self.values, self.size)

    def finish(self) -> None:
        self.session.finish()


class CudaDevice:
    """The first CUDA device, through the driver API."""

    BLOCKS, THREADS, UNIT = 528, 256, 4000

    def __init__(self) -> None:
        from warpsight.machine.cuda.cuda_session import CudaSession

        self.session = CudaSession()
        self.kernels = {name: self.session.kernel(PTX.format(name=name).encode(), name) for name in KERNELS}
        self.size = 4 * self.BLOCKS * self.THREADS
        self.memory = self.session.allocate(self.size)
        self.host = self.session.pinned(self.size)

    def launch(self, kernel: str, rounds: float) -> None:
        count = ctypes.c_uint32(round(rounds * self.UNIT))
        arguments: Any = (ctypes.c_void_p * 2)(ctypes.addressof(self.memory), ctypes.addressof(count))
        self.session.launch(self.kernels[kernel], self.BLOCKS, self.THREADS, arguments)

    def write(self) -> None:
        self.session.do("cuMemcpyHtoD_v2", self.memory, self.host, ctypes.c_size_t(self.size))

    def read(self) -> None:
        self.session.do("cuMemcpyDtoH_v2", self.host, self.memory, ctypes.c_size_t(self.size))

    def finish(self) -> None:
        self.session.synchronize()


DEVICES: dict[str, Callable[[], Device]] = {"opencl": OpenclDevice, "cuda": CudaDevice}


@dataclass(frozen=True)
class Job:
    """A device, the factor of the planted kernel, and how many turns the loop takes."""

    device: Device
    slower: float
    turns: int


def stencil(job: Job) -> None:
    """A flat loop of three kernels; every turn is a range `step N`."""
    for turn in range(job.turns):
        with ws.annotate(f"step {turn}"):
            job.device.launch("exchange", 1)
            job.device.launch("sweep", 4 * job.slower)
            job.device.launch("residual", 1)
            job.device.finish()


def layers(job: Job) -> None:
    """Four blocks of three kernels, forward and back, then an update; every turn is a range `batch N`."""
    for number in range(job.turns):
        with ws.annotate(f"batch {number}"):
            forward(job)
            backward(job)
            job.device.launch("update", 1)
            job.device.finish()


def forward(job: Job) -> None:
    """The way through `layers`."""
    with ws.annotate("forward"):
        for number in range(4):
            block(job, number)


def backward(job: Job) -> None:
    """The way back through it."""
    with ws.annotate("backward"):
        for number in reversed(range(4)):
            block_backward(job, number)


def block(job: Job, number: int) -> None:
    """One block of `layers`."""
    with ws.annotate(f"block {number}"):
        job.device.launch("project", 0.3)
        job.device.launch("attend", 0.5 * job.slower)
        job.device.launch("blend", 0.2)


def block_backward(job: Job, number: int) -> None:
    """The way back through one block."""
    with ws.annotate(f"block {number}"):
        job.device.launch("blend", 0.3)
        job.device.launch("project", 0.4)


def serving(job: Job) -> None:
    """Requests that are copied in and out with host work between; every fourth takes more launches. Nothing is announced."""
    for turn in range(job.turns):
        job.device.write()
        job.device.launch("prepare", 1)
        for _ in range(12 if turn % 4 == 3 else 4):
            job.device.launch("decode", 0.8 * job.slower)
            job.device.launch("sample", 0.2)
        job.device.read()
        until = time.perf_counter() + 0.0003
        while time.perf_counter() < until:
            pass


PROGRAMS = {"stencil": stencil, "layers": layers, "serving": serving}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--device", choices=DEVICES, default="opencl")
    parser.add_argument("--slower", type=float, default=1.0, help="Factor of the planted kernel's time.")
    parser.add_argument("--turns", type=int, default=150)
    options = parser.parse_args()
    PROGRAMS[options.program](Job(DEVICES[options.device](), options.slower, options.turns))


if __name__ == "__main__":
    main()

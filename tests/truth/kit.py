"""What a generated program is made with: chance, names, the machine, and the names of the calls of one programming interface."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.truth.program import Machine, Recorder, Scope, Step, Stream
from tests.truth.words import Names


@dataclass(frozen=True)
class Calls:
    """How an interface spells its functions."""

    launch: str
    graph: str
    copy_async: str
    copy: str
    fill: str
    device: str
    stream: str
    event: str
    record: str
    wait: str
    query: str
    attributes: str
    allocate: tuple[str, ...]
    free: str
    register: str
    module: str


CUDA = Calls(
    launch="cudaLaunchKernel",
    graph="cudaGraphLaunch",
    copy_async="cudaMemcpyAsync",
    copy="cudaMemcpy",
    fill="cudaMemsetAsync",
    device="cudaDeviceSynchronize",
    stream="cudaStreamSynchronize",
    event="cudaEventSynchronize",
    record="cudaEventRecord",
    wait="cudaStreamWaitEvent",
    query="cudaEventQuery",
    attributes="cudaFuncSetAttribute",
    allocate=("cudaMalloc", "cudaMallocHost", "cudaHostAlloc"),
    free="cudaFree",
    register="cudaHostRegister",
    module="cuModuleLoadData",
)
DRIVER = Calls(
    launch="cuLaunchKernel",
    graph="cuGraphLaunch",
    copy_async="cuMemcpyHtoDAsync_v2",
    copy="cuMemcpyDtoH_v2",
    fill="cuMemsetD8Async",
    device="cuCtxSynchronize",
    stream="cuStreamSynchronize",
    event="cuEventSynchronize",
    record="cuEventRecord",
    wait="cuStreamWaitEvent",
    query="cuEventQuery",
    attributes="cuFuncSetAttribute",
    allocate=("cuMemAlloc_v2", "cuMemAllocHost_v2"),
    free="cuMemFree_v2",
    register="cuMemHostRegister_v2",
    module="cuModuleLoadDataEx",
)
HIP = Calls(
    launch="hipLaunchKernel",
    graph="hipGraphLaunch",
    copy_async="hipMemcpyAsync",
    copy="hipMemcpyWithStream",
    fill="hipMemsetAsync",
    device="hipDeviceSynchronize",
    stream="hipStreamSynchronize",
    event="hipEventSynchronize",
    record="hipEventRecord",
    wait="hipStreamWaitEvent",
    query="hipEventQuery",
    attributes="hipFuncGetAttributes",
    allocate=("hipMalloc", "hipHostMalloc"),
    free="hipFree",
    register="hipHostRegister",
    module="hipModuleLoadData",
)


@dataclass(frozen=True)
class Phase:
    """A part of an iteration: what it does in the iteration of a number, and what it costs about."""

    make: Callable[[int], list[Step]]
    device_ns: int = 0
    host_ns: int = 0
    launches: int = 0


@dataclass
class Kit:
    """Everything phases are made with.

    draw: decides what there is; the same for all ranks of a program.
    noise: decides how long each thing takes.
    """

    draw: random.Random
    noise: random.Random
    names: Names
    machine: Machine
    recorder: Recorder
    calls: Calls
    stream: Stream
    side: Stream
    operators: bool = False
    annotating: bool = True
    early: float = 0.0
    meetings: int = 0

    def about(self, ns: float, spread: float = 0.04) -> int:
        """Near a usual time; at least 500 ns."""
        return max(500, round(ns * self.noise.uniform(1 - spread, 1 + spread)))

    def between(self, low: float, high: float) -> int:
        """A number from a range, small ones as often as large ones."""
        return round(low * math.pow(high / low, self.draw.random()))

    def chance(self, part: float) -> bool:
        """True so often."""
        return self.draw.random() < part

    def annotation(self, name: str | None = None) -> Scope:
        """A range that the program announces, where it does at all; else a function of the same name."""
        source = "framework" if self.recorder.file == "kineto" else self.draw.choice(("nvtx", "annotate"))
        if self.annotating:
            return Scope(name or self.names.annotation(), "annotation", source=source)
        return self.function()

    def function(self) -> Scope:
        """A function of the user's code."""
        return Scope(self.names.function(), "frame", self.names.file(), self.draw.randint(1, 900))

    def library(self) -> Scope:
        """A function of a library."""
        name, file = self.names.library()
        return Scope(name, "library", file, self.draw.randint(1, 900))

    def operator(self) -> Scope:
        """A framework operator."""
        return Scope(self.names.operator(), "op")

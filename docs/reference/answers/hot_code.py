"""Answers: where kernels spend their time, and how often instructions ran."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from answers.described import described


class SourceFrame(TypedDict):
    function: str
    file: described(str, "empty for a function without line information")
    line: int


class StallCount(TypedDict):
    samples: int
    not_issued: described(int, "those of them in cycles in which the scheduler issued nothing")


class HotPlace(TypedDict):
    frames: described(list[SourceFrame], "innermost first; empty without line information")
    ptx_line: NotRequired[int]
    ptx: NotRequired[str]
    pc: NotRequired[described(int, "offset in the function, in bytes")]
    sass: NotRequired[str]
    samples: int
    not_issued: int
    reasons: dict[str, StallCount]


class HotKernel(TypedDict):
    share: described(float, "of all samples")
    name: str
    mangled: str
    launches: int
    device_ns: int
    has_lines: bool
    has_code: bool
    samples: int
    not_issued: int
    reasons: dict[str, StallCount]
    lines: NotRequired[list[HotPlace]]
    ptx_lines: NotRequired[list[HotPlace]]
    instructions: NotRequired[list[HotPlace]]


class HotLines(TypedDict):
    samples: int
    dropped: int
    unattributed: described(int, "samples of code that CUPTI does not show")
    windows: int
    sampled_ns: int
    cost_ns: described(int, "processor time of the recorder's thread")
    period: described(int | None, "cycles between two samples of a multiprocessor")
    notes: list[str]
    kernels: list[HotKernel]


class ExactCount(TypedDict):
    executions: described(int, "by warps")
    threads: NotRequired[described(int, "with those that a predicate switched off")]
    predicated_off: NotRequired[int]
    lanes: NotRequired[described(float, "threads of an execution, on average")]
    metrics: described(dict[str, int], "as CUPTI names them, without smsp__sass_")


class CountedOperation(ExactCount):
    operation: str


class CountedPlace(ExactCount):
    frames: described(list[SourceFrame], "innermost first; empty without line information")
    ptx_line: NotRequired[int]
    ptx: NotRequired[str]
    pc: NotRequired[described(int, "offset in the function, in bytes")]
    sass: NotRequired[str]


class Arithmetic(TypedDict):
    type: described(str, "fp32, bf16, int8, …")
    matrix: described(bool, "whether matrix units did it")
    operations: float


class CountedKernel(ExactCount):
    name: str
    mangled: str
    launches: described(int, "0 where none is known, as for kernels of CUDA graphs")
    has_lines: bool
    has_code: bool
    operations: described(list[CountedOperation], "most executions first")
    pipes: dict[str, int]
    arithmetic: list[Arithmetic]
    requested_bytes: described(dict[str, int], "memory → bytes that threads asked for")
    l1_bytes: described(int | None, "of all sectors of global and local memory")
    unknown: described(dict[str, int], "operations whose sizes are in descriptors, and their executions")
    lines: NotRequired[list[CountedPlace]]
    ptx_lines: NotRequired[list[CountedPlace]]
    instructions: NotRequired[list[CountedPlace]]


class Roof(TypedDict):
    name: described(str, "dram, l2, l1, or a type of arithmetic")
    amount: described(float, "bytes or operations of a launch")
    peak: described(float, "the most per second")
    seconds: described(float, "the least time")
    achieved: described(float, "share of the peak")


class KernelRoofline(TypedDict):
    name: str
    launches: int
    seconds: described(float, "of a launch, without counting")
    operations: float
    rate: described(float, "operations per second")
    bytes: dict[str, float]
    intensity: described(dict[str, float], "memory → operations per byte")
    share_of_roof: float | None
    roofs: list[Roof]


class ExactCounts(TypedDict):
    kernels: list[CountedKernel]
    rooflines: list[KernelRoofline]


class ListedMetric(TypedDict):
    name: str
    kind: Literal["counter", "ratio", "throughput", "instruction"]
    description: str
    unit: str
    suffixes: list[str]
    passes: int


class MeasuredMetric(TypedDict):
    kind: NotRequired[Literal["kernel", "range"]]
    name: NotRequired[str]
    times: NotRequired[described(int, "launches or ranges")]
    passes: NotRequired[int]
    device: NotRequired[int | None]
    unit: NotRequired[str]
    samples: NotRequired[int]
    metric: str
    mean: float | None
    min: float | None
    max: float | None

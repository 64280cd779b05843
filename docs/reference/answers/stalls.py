"""Answers: stalls and their causes."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from answers.hot_code import ExactCount


class CodeLine(TypedDict):
    function: str
    file: str
    line: int


class CodePlace(TypedDict):
    offset: int
    instruction: str
    lines: list[CodeLine]


class BlamedStall(CodePlace):
    reason: str
    detail: str
    hazard: Literal["", "RAW", "WAW", "WAR", "order"]
    registers: list[str]
    samples: float
    cycles: int


class StallCause(CodePlace):
    samples: float
    not_issued: float
    stalls: list[BlamedStall]


class AdvicePlace(TypedDict):
    cause: CodePlace
    stalled: CodePlace
    samples: float


class KernelAdvice(TypedDict):
    name: str
    title: str
    why: str
    speedup: float
    saved: float
    samples: float
    places: list[AdvicePlace]
    more_places: int


class SampleCounts(TypedDict):
    total: int
    stalled: int
    issued: int


class ReasonCount(TypedDict):
    reason: str
    samples: int
    text: str


class LineCount(TypedDict):
    file: str
    line: int
    samples: float


class SingleProducer(TypedDict):
    before: float | None
    after: float | None


class SampledLaunch(TypedDict):
    blocks: int
    threads: int
    registers: int
    shared: int
    capability: str
    multiprocessors: int
    busy: float | None
    width: int
    bytes_per_cycle: float
    cycles: float


class StallReport(TypedDict):
    kernel: str
    name: str
    checksum: str
    architecture: str
    registers: int
    launch: SampledLaunch | None
    samples: SampleCounts
    reasons: list[ReasonCount]
    lines: list[LineCount]
    causes: list[StallCause]
    advice: list[KernelAdvice]
    single_producer: SingleProducer
    unexplained: int
    notes: list[str]


class CodeLoop(TypedDict):
    head: int
    blocks: list[int]
    parent: int | None
    depth: int


class CodeBlock(TypedDict):
    block: int
    first: int
    last: int
    successors: list[int]


class ListedInstruction(CodePlace):
    operation: str
    block: int
    loop_depth: int
    target: int | None
    reads: list[str]
    writes: list[str]
    pipe: str
    memory: str | None
    stall: int
    write_barrier: int | None
    read_barrier: int | None
    waits: list[int]
    live_registers: int
    live_predicates: int
    live_uniform: int
    ptx_line: int | None
    samples: dict[str, int]
    counts: NotRequired[ExactCount]
    yields: bool


class CodeListing(TypedDict):
    kernel: str
    name: str
    checksum: str
    architecture: str
    registers: int
    most_live_registers: int
    samples: int
    loops: list[CodeLoop]
    blocks: list[CodeBlock]
    instructions: list[ListedInstruction]

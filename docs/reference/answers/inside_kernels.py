"""Answers: what instructions of kernels did."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from warpsight.device_code.tma.tensor_map import TensorMap
from warpsight.sass.events.dataflow import Flow
from warpsight.sass.events.pipelines import PipelineEvent
from warpsight.sass.events.reuse import MemoryUse
from warpsight.sass.events.tensor_copies import CopySummary
from warpsight.sass.events.trace import TracedInstruction
from warpsight.sass.events.value_patterns import ValuePatterns
from warpsight.sass.matrix_products import MatrixProduct
from warpsight.sass.tensor_memory import TensorMemoryUse


class MemoryAccess(TypedDict):
    kernel: str
    place: TracedInstruction
    where: str
    sass: str
    space: str
    operation: str
    bytes: int
    requests: int
    lanes: int
    distinct_bytes: int
    parts: int
    ideal: int
    per_request: float
    excess: int


class SassMemory(TypedDict):
    accesses: list[MemoryAccess]
    uses: list[MemoryUse]
    notes: list[str]


class SassValues(TypedDict):
    values: list[ValuePatterns]
    notes: list[str]


class BlockFlow(TypedDict):
    kernel: str
    writer: int
    reader: int
    bytes: int


class SassDataflow(TypedDict):
    flows: list[Flow]
    inputs: dict[str, int]
    unread: dict[str, int]
    blocks: list[BlockFlow]
    notes: list[str]


class Pipeline(TypedDict):
    kernel: str
    launch: int
    block: int
    events: list[PipelineEvent]
    waited: int
    copied: int
    phases: dict[str, int]


class SassTma(TypedDict):
    blocks: list[Pipeline]
    copies: list[CopySummary]
    maps: dict[str, TensorMap | str]
    notes: list[str]


class SassMma(TypedDict):
    kernel: str
    products: list[MatrixProduct]
    tensor_memory: list[TensorMemoryUse]
    operations: int | None


class SassProbe(TypedDict):
    launches: int
    tables: dict[str, list[dict[str, int | float | str | None]]]
    notes: list[str]


class RaceFrame(TypedDict):
    function: str
    file: str
    line: int


class RaceSide(TypedDict):
    block: int
    thread: int
    operation: Literal["load", "store", "atomic"]
    where: str
    sass: str
    frames: list[RaceFrame]


class FoundRace(TypedDict):
    kernel: str
    launch: int
    space: Literal["global", "shared"]
    address: int
    count: int
    reason: str
    first: RaceSide
    second: RaceSide


class SassRaces(TypedDict):
    races: list[FoundRace]
    launches: int
    accesses: int | None
    notes: list[str]


class WarpWait(TypedDict):
    kernel: str
    launch: int
    block: int
    warps: list[int]
    what: str
    where: str
    missing: list[list[int]]
    detail: str


class SassWaits(TypedDict):
    waits: list[WarpWait]
    roots: list[list[int]]
    notes: list[str]


class RaceAccess(TypedDict):
    operation: str
    who: str
    sass: str
    frames: list[RaceFrame]


class RaceSuspect(TypedDict):
    kernel: str
    space: Literal["global", "shared"]
    reason: str
    found_by: list[Literal["event trace", "on the device", "racecheck"]]
    repair: str
    first: RaceAccess
    second: RaceAccess | None


class RaceArm(TypedDict):
    name: Literal["event trace", "on the device", "racecheck"]
    findings: int | None
    notes: list[str]


class RaceDelays(TypedDict):
    verdict: str
    failures: int
    runs: int
    control_failures: int
    control_runs: int
    summary: str


class RaceVerdict(TypedDict):
    racy: bool
    suspects: list[RaceSuspect]
    arms: list[RaceArm]
    provoked: RaceDelays | None
    disagreements: list[str]


class SassEvent(TypedDict):
    launch: int
    kernel: str | None
    kind: str | None
    time: int
    block: int
    warp: int
    lanes: str
    sm: int
    flags: int
    bytes: int
    sequence: int
    operands: dict[str, list[int]]
    where: NotRequired[str]
    sass: NotRequired[str]
    guard: NotRequired[str]
    registers: NotRequired[dict[str, list[int]]]
    values: NotRequired[list[int]]


class Part(TypedDict):
    count: int
    percentage: float
    ranges: list[tuple[int, int]]


class Warps(TypedDict):
    total_observed: int
    warp_id_range: tuple[int, int] | None
    completed: Part
    in_progress: Part
    missing: Part


class Validation(TypedDict):
    valid: bool
    record_count: int
    file_size: int
    compression: Literal["none", "zstd", "gzip"]
    message_type: str | None
    types: dict[str, int]
    error_count: int
    errors: list[str]


class Comparison(TypedDict):
    consistent: bool
    record_count_match: bool
    content_match: bool
    text_records: int
    json_records: int
    unique_ctas_count: int
    unique_warps_count: int
    unique_sass_count: int
    differences: list[str]

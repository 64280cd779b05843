"""Writes the JSON Schemas that follow from types, and docs/reference/schemas.md: `python docs/reference/generate_schemas.py`.

Schemas of `src/warpsight/ui/cli/schemas` that are not made here are written by hand. Outputs that are a dataclass as JSON take
their schema from the dataclass, so the two cannot differ.
"""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from typing_extensions import NotRequired, TypedDict

from warpsight.analysis.flame.graph import FlameAccount
from warpsight.machine.checks import Check
from warpsight.machine.device import Device
from warpsight.machine.links import Link
from warpsight.machine.processes import Process
from warpsight.machine.topology import Topology
from warpsight.race.reduction import ReduceResult
from warpsight.race.stressing import StressResult
from warpsight.recorder.live.recording import Snapshot
from warpsight.recorder.trial.bench import Bench
from warpsight.recorder.trial.selftest import Trial
from warpsight.replay.capsule.browsing import Memory, Overview
from warpsight.replay.outcome import Changed, Version, Write
from warpsight.replay.schedules.validation import OrderCheck
from warpsight.sass.events.trace import TracedInstruction
from warpsight_plugins.cutracer import delays, records

PAGE = Path(__file__).with_name("schemas.md")
FOLDER = Path(__file__).parents[2] / "src" / "warpsight" / "ui" / "cli" / "schemas"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _told(kind: Any, description: str) -> Any:
    return Annotated[kind, msgspec.Meta(description=description)]


class Devices(TypedDict):
    platform: str
    devices: list[Device]
    not_asked: list[str]
    processes: NotRequired[list[Process]]


class RankPair(TypedDict):
    source: int
    destination: int
    bytes: _told(int, "by the algorithm that moved them")
    count: _told(int, "operations")
    latency: _told(float, "median transfer time, waiting aside, ns")
    bandwidth: _told(float | None, "median of large messages, B/s")


class Traffic(TypedDict):
    traffic: _told(list[RankPair], "most bytes first")


class Doctor(TypedDict, total=False):
    checks: list[Check]
    selftest: list[Trial]


class SourceFrame(TypedDict):
    function: str
    file: _told(str, "empty for a function without line information")
    line: int


class StallCount(TypedDict):
    samples: int
    not_issued: _told(int, "those of them in cycles in which the scheduler issued nothing")


class HotPlace(TypedDict):
    frames: _told(list[SourceFrame], "innermost first; empty without line information")
    ptx_line: NotRequired[int]
    ptx: NotRequired[str]
    pc: NotRequired[_told(int, "offset in the function, in bytes")]
    sass: NotRequired[str]
    samples: int
    not_issued: int
    reasons: dict[str, StallCount]


class HotKernel(TypedDict):
    share: _told(float, "of all samples")
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
    unattributed: _told(int, "samples of code that CUPTI does not show")
    windows: int
    sampled_ns: int
    cost_ns: _told(int, "processor time of the recorder's thread")
    period: _told(int | None, "cycles between two samples of a multiprocessor")
    notes: list[str]
    kernels: list[HotKernel]


class ExactCount(TypedDict):
    executions: _told(int, "by warps")
    threads: NotRequired[_told(int, "with those that a predicate switched off")]
    predicated_off: NotRequired[int]
    lanes: NotRequired[_told(float, "threads of an execution, on average")]
    metrics: _told(dict[str, int], "as CUPTI names them, without smsp__sass_")


class CountedOperation(ExactCount):
    operation: str


class CountedPlace(ExactCount):
    frames: _told(list[SourceFrame], "innermost first; empty without line information")
    ptx_line: NotRequired[int]
    ptx: NotRequired[str]
    pc: NotRequired[_told(int, "offset in the function, in bytes")]
    sass: NotRequired[str]


class Arithmetic(TypedDict):
    type: _told(str, "fp32, bf16, int8, …")
    matrix: _told(bool, "whether matrix units did it")
    operations: float


class CountedKernel(ExactCount):
    name: str
    mangled: str
    launches: _told(int, "0 where none is known, as for kernels of CUDA graphs")
    has_lines: bool
    has_code: bool
    operations: _told(list[CountedOperation], "most executions first")
    pipes: dict[str, int]
    arithmetic: list[Arithmetic]
    requested_bytes: _told(dict[str, int], "memory → bytes that threads asked for")
    l1_bytes: _told(int | None, "of all sectors of global and local memory")
    unknown: _told(dict[str, int], "operations whose sizes stand in descriptors, and their executions")
    lines: NotRequired[list[CountedPlace]]
    ptx_lines: NotRequired[list[CountedPlace]]
    instructions: NotRequired[list[CountedPlace]]


class Roof(TypedDict):
    name: _told(str, "dram, l2, l1, or a type of arithmetic")
    amount: _told(float, "bytes or operations of a launch")
    peak: _told(float, "the most per second")
    seconds: _told(float, "the least time")
    achieved: _told(float, "share of the peak")


class KernelRoofline(TypedDict):
    name: str
    launches: int
    seconds: _told(float, "of a launch, without counting")
    operations: float
    rate: _told(float, "operations per second")
    bytes: dict[str, float]
    intensity: _told(dict[str, float], "memory → operations per byte")
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
    times: NotRequired[_told(int, "launches or ranges")]
    passes: NotRequired[int]
    device: NotRequired[int | None]
    unit: NotRequired[str]
    samples: NotRequired[int]
    metric: str
    mean: float | None
    min: float | None
    max: float | None


class Links(TypedDict):
    kept: str
    links: list[Link]


class Flame(TypedDict):
    path: str
    form: str
    bytes: int | None
    weight: str
    unit: str
    nodes: int
    accounts: list[FlameAccount]


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
    notes: list[str]


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


class Replay(TypedDict):
    capsule: str
    verdict: Literal[
        "bit-exact",
        "repeatable",
        "different",
        "non-deterministic",
        "left the capsule",
        "failed",
        "not executed",
        "out of order",
    ]
    device: str
    versions: _told(list[Version], "as recorded; with --swap also with the kernels replaced")
    failure: _told(str | None, "what the GPU or its driver reported")
    notes: list[str]
    changes: _told(list[Changed], "with --what: each schedule, measured beside its prediction")
    writes: _told(list[Write], "with --writes")
    validation: _told(OrderCheck | None, "with --validate")
    executed: _told(bool, "false: --mode dry-run")


class CapsuleExport(TypedDict):
    path: str
    program: str
    command: _told(str, "builds and runs it")


class Report(TypedDict):
    path: str
    bytes: int | None


# Written as a call: `class` is a word that Python keeps for itself.
Finding = TypedDict(
    "Finding",
    {
        "severity": str,
        "class": str,
        "text": str,
        "values": dict[str, Any],
        "rule": NotRequired[str],
        "name": NotRequired[str],
        "share_ns": NotRequired[int],
        "saves_ns": NotRequired[int],
        "evidence": NotRequired[list[Any]],
        "advice": NotRequired[Any],
    },
)


class Table(TypedDict):
    units: dict[str, str]
    rows: list[dict[str, Any]]


class View(TypedDict):
    trace: str
    tables: dict[str, Table]
    findings: list[Finding]


class Merge(TypedDict):
    cpu: str
    gpu: str
    output: str
    counts: dict[str, int]
    tables: dict[str, Table]
    findings: list[Finding]


class Change(TypedDict):
    """Times are ns per iteration, the mean over the runs of a side; intervals hold 1 exactly where no change is called."""

    before: float
    after: float
    change: _told(float, "after - before")
    ratio: _told(float | None, "after / before; null where before is 0")
    low: _told(float | None, "lower end of the ratio's interval; null where it was not tested")
    high: float | None
    beside: _told(
        float | None,
        "the same ratio of the row's time to that of the rest of the same run's device work; null where there is no rest",
    )
    beside_low: float | None
    beside_high: float | None
    count_before: _told(float, "kernels, copies and fills per iteration")
    count_after: float
    p: _told(float | None, "the largest p of the tests that must agree; null where it was not tested")
    verdict: Literal["slower", "faster", "grew", "shrank", "new", "gone", "not shown", "untested"]


class ChangedRow(Change):
    name: str


class ChangedNode(Change):
    """A node of the common call tree; rows are in depth-first order."""

    node: _told(int, "number of the node, its place in the table")
    parent: _told(int, "number of its parent, -1 for the root")
    depth: int
    kind: _told(str, "root, python, native, marker, range, op, kernel, copy, …")
    name: _told(str, "one name, or `before → after` of two that were matched")
    match: _told(
        Literal["both", "added", "removed", "replaced"],
        "replaced: the sides have different names at the same place, matched by role and order or by what they launch",
    )


class Stretch(TypedDict):
    change: Literal["added", "removed", "replaced"]
    place: int
    kernels_before: int
    kernels_after: int
    before: int
    after: int
    what_before: str | None
    what_after: str | None


class ComparedRun(TypedDict):
    side: Literal["before", "after"]
    path: str
    began: _told(int | None, "ns since 1970")
    order: _told(int | None, "rank by time among all runs")
    iterations: int | None
    kinds: _told(int | None, "kinds of iterations, by the kernels they launch")
    time: _told(float, "ns per iteration, or of the whole recording")
    machine: str


class ChangedTable(TypedDict):
    units: dict[str, str]
    rows: list[ChangedRow]


class ChangedTree(TypedDict):
    units: dict[str, str]
    rows: list[ChangedNode]


class Stretches(TypedDict):
    units: dict[str, str]
    rows: list[Stretch]


class ComparedRuns(TypedDict):
    units: dict[str, str]
    rows: list[ComparedRun]


class ChangedTables(TypedDict, total=False):
    summary: ChangedTable
    kernel: ChangedTable
    role: ChangedTable
    stack: ChangedTable
    range: ChangedTable
    operator: ChangedTable
    tree: ChangedTree
    sequence: Stretches
    runs: ComparedRuns


class Diff(TypedDict):
    before: _told(list[str], "paths of the first side")
    after: _told(list[str], "paths of the second side")
    headline: str
    verdict: Literal["slower", "faster", "changed", "not shown", "untested"]
    change: _told(float | None, "relative change of the time of an iteration: 0.05 is 5 % slower")
    low: _told(float | None, "lower end of its 99 % interval; null where it was not tested")
    high: float | None
    could_see: _told(
        float | None, "the smallest change that would have been called in four of five such comparisons"
    )
    iteration: _told(str, "what the program calls an iteration; else `iteration`, or `recording`")
    in_turn: _told(bool, "the sides were taken in turn")
    runs: _told(tuple[int, int], "number of runs of each side")
    tables: ChangedTables
    findings: list[Finding]


class Trigger(TypedDict):
    path: str
    rows: dict[str, int]
    reason: str


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


class Suspect(TypedDict):
    pid: int
    quiet_s: float
    completions: int
    outstanding: int | None
    oldest_launch: int | None


class PythonFrame(TypedDict):
    function: str
    file: str
    line: int


class NativeFrame(TypedDict):
    module: str
    function: str
    address: int


class Thread(TypedDict):
    thread: int
    name: str
    state: str
    cpu_ticks: int
    kernel: str
    python: list[PythonFrame]
    gil: bool
    native: list[NativeFrame]
    problem: NotRequired[str]


class Looked(TypedDict):
    pid: int
    command: str
    no_python: str
    threads: list[Thread]


class HostFrame(TypedDict):
    function: str
    file: str | None
    line: int | None
    kind: str | None


Dimensions = tuple[int, int, int]


class Launch(TypedDict):
    pid: int
    thread: int
    launched: int
    call: str
    kernel: str
    demangled: str
    grid: Dimensions | None
    block: Dimensions | None
    correlation: int | None
    frames: list[HostFrame]
    before_s: NotRequired[float]


class Completed(TypedDict):
    kernel: str | None
    pid: int
    ended_before_s: float
    duration: int


class OpenRange(TypedDict):
    range: str | None
    pid: int
    thread: int
    began_before_s: float


class DeviceError(TypedDict):
    time: int
    function: str
    code: int
    meaning: str
    thread: int
    pid: int
    frames: list[HostFrame]


class Bar(TypedDict):
    start_s: float
    duration_s: float
    kind: Literal["kernel", "copy", "set", "launch"]
    what: str
    share: float


class Lane(TypedDict):
    kind: Literal["device", "launches"]
    pid: int
    device: NotRequired[int | None]
    stream: NotRequired[int | None]
    bars: list[Bar]


class Timeline(TypedDict):
    seconds: float
    lanes: list[Lane]
    lanes_left_out: NotRequired[int]


class CoreKernel(TypedDict):
    kernel: str | None
    demangled: str | None
    grid_id: int
    grid: Dimensions | None
    block: Dimensions | None
    host_thread: int | None


class CoreSummary(TypedDict):
    """Stands for the schema `core`."""


class Core(TypedDict):
    verdict: str
    summary: CoreSummary
    kernels: list[CoreKernel]


class Join(TypedDict):
    kernel: str | None
    demangled: str | None
    grid_id: int
    unique: bool
    candidates: int
    by: str
    launch: Launch | None


class Dump(TypedDict):
    pid: int
    path: str | None
    problem: str | None
    seconds: float
    unreadable: NotRequired[str]
    core: NotRequired[Core]
    joins: NotRequired[list[Join]]


class HangReport(TypedDict):
    kind: Literal["hang", "crash", "kernel-timeout", "no-data-timeout", "interrupt", "asked"]
    reason: str
    verdict: str
    program: list[str]
    when: str
    monotonic: int
    exit: str | None
    suspects: list[Suspect]
    evidence: list[str]
    processes: list[Looked]
    trace: str | None
    launches: list[Launch]
    launches_total: int
    last_work: list[Completed]
    open_ranges: list[OpenRange]
    errors: list[DeviceError]
    dumps: list[Dump]
    timeline: Timeline | None
    notes: list[str]
    gathered_s: float
    device_recorded: NotRequired[bool]


def _found_records() -> dict[str, Any]:
    """Records as `sass query` writes them: any fields of any record, null for a chosen one that is absent; what readers add."""
    schema = records.json_schema()
    kinds: dict[str, list[Any]] = {
        "type": [{"type": "string"}], "caller": [{"type": "string"}], "kernel": [{"type": "string"}]
    }  # fmt: skip
    for described in schema["$defs"].values():
        for name, kind in described["properties"].items():
            listed = kinds.setdefault(name, [])
            plain = {key: value for key, value in kind.items() if key != "default"}
            if name != "type" and plain not in listed:
                listed.append(plain)
    properties = {name: {"anyOf": [*listed, {"type": "null"}]} for name, listed in sorted(kinds.items())}
    return {
        "description": "Without groups an array of records, with groups an object of arrays by the text of the group's value. "
        "A line of NDJSON is a record; with groups its `_group` is the group's value.",
        "oneOf": [
            {"$ref": "#/$defs/records"},
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/records"}},
        ],
        "$defs": {
            "records": {"type": "array", "items": {"$ref": "#/$defs/record"}},
            "record": {
                "type": "object",
                "properties": {"_group": {}, **properties},
                "additionalProperties": True,
            },
        },
    }


#: Name → what writes it, and the schema or the type it follows from.
MADE: dict[str, tuple[str, Any]] = {
    "bench": ("`bench --json`", Bench),
    "bench_links": ("`bench --links --json`", Links),
    "capsule": ("`capsule show --json`", Overview),
    "capsule_memory": ("`capsule show --json` with an allocation", Memory),
    "cluster_topology": ("`cluster topology --json`", Topology),
    "cluster_traffic": ("`cluster traffic --json`", Traffic),
    "devices": ("`devices --json`", Devices),
    "diff": ("`diff --json`", Diff),
    "doctor": ("`doctor --json`, `doctor --selftest --json`", Doctor),
    "flame": ("`flame --json`", Flame),
    "report": ("`report --json`", Report),
    "view": ("`view --list --json`", View),
    "merge": ("`merge --json`", Merge),
    "top": ("`top --once --json`", Snapshot),
    "trigger": ("`trigger --json`", Trigger),
    "hang_report": ("`report.json` of `watch` and `dump`, `dump --json`", HangReport),
    "race_check": ("`race check --json`", RaceVerdict),
    "replay": ("`replay --json`", Replay),
    "capsule_export": ("`capsule export --json`", CapsuleExport),
    "race_reduce": ("`race reduce --json`", ReduceResult),
    "race_stress": ("`race stress --json`", StressResult),
    "sass_hotspots": ("`sass hotspots --json`", HotLines),
    "sass_exact_counts": ("`sass counts --json`", ExactCounts),
    "sass_metrics": ("`sass metrics --json`", list[MeasuredMetric]),
    "sass_metrics_list": ("`sass metrics --list --json`", list[ListedMetric]),
    "sass_memory": ("`sass memory --json`", SassMemory),
    "sass_probe": ("`sass probe --json`", SassProbe),
    "sass_races": ("`sass races --json`", SassRaces),
    "sass_waits": ("`sass waits --json`", SassWaits),
    "sass_event": ("a line of `sass events --json`", SassEvent),
    "sass_warps": ("`sass warps --json`", Warps),
    "sass_validate": ("`sass validate --json`", Validation),
    "sass_compare": ("`sass compare --json`", Comparison),
    "sass_counts": ("`sass query --count --format json`", dict[str, int]),
    "sass_records": ("`sass query --format json`; `$defs/record` a line of `--format ndjson`", _found_records()),
    "sass_why": ("`sass why --json`", StallReport),
    "sass_list": ("`sass list --json`", CodeListing),
    "instruction_trace": ("a line of `export --to cutracer` and `--to kernel-events`", records.json_schema()),
    "delays": ("`sass delays`", delays.json_schema()),
}  # fmt: skip
BY_HAND = {
    "analyze": "`analyze --json`", "cluster_analyze": "`cluster analyze --json`", "core": "`core --json`",
    "export": "`export --json`", "import": "`import --json`", "info": "`info --json`",
    "kernel_log": "a line of `record --kernel-log`",
    "query": "`query --json`; with `--format ndjson` a line is an element of `rows`", "sanitize": "`sanitize --json`",
    "simulate": "`simulate --json`",
    "stats": "`stats --json`", "version": "`version --json`",
}  # fmt: skip


def schema(name: str) -> dict[str, Any]:
    """The schema of one generated name."""
    title, kind = MADE[name]
    made = kind if isinstance(kind, dict) else _closed(msgspec.json.schema(kind))
    if name == "bench":  # a property of the class, and a field of its document
        fields = made["$defs"]["Bench"]
        fields["properties"]["ok"] = {"type": "boolean"}
        fields["required"] = [*fields["required"], "ok"]
    if name == "cluster_topology":  # likewise
        fields = made["$defs"]["GpuLinks"]
        fields["properties"]["speed"] = {"type": ["number", "null"]}
        fields["required"] = [*fields["required"], "speed"]
    if name == "hang_report":  # with the schema of core dumps inside, so that it stands alone
        core = json.loads((FOLDER / "core.json").read_text(encoding="utf-8"))
        made["$defs"]["CoreSummary"] = {"$ref": core["$id"]}
        made["$defs"]["core"] = core
    head = {
        "$schema": DRAFT,
        "$id": f"https://warpsight.dev/schemas/{name}.json",
        "title": title.replace("`", ""),
    }
    return {**head, **{key: value for key, value in made.items() if key != "$schema"}}


def _closed(node: Any) -> Any:
    """Every object of a schema with all its properties required as declared, and no others."""
    if isinstance(node, list):
        return [_closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    out = {key: _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        out["additionalProperties"] = False
    return out


def text(name: str) -> str:
    """The file of one generated schema."""
    return json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n"


def page() -> str:
    """The page that lists all schemas."""
    lines = [
        "# JSON Schemas",
        "",
        "<!-- Generated by docs/reference/generate_schemas.py; a test keeps it current. -->",
        "",
        "The shape of everything warpsight writes as JSON or JSON lines, as JSON Schemas (draft 2020-12). They are",
        "installed with the package as `warpsight/ui/cli/schemas/NAME.json`; in Python",
        '`importlib.resources.files("warpsight.ui.cli") / "schemas"`. Tests hold real output to them.',
        "",
        "| schema | what has this shape |",
        "|---|---|",
    ]
    told = {**BY_HAND, **{name: what for name, (what, _) in MADE.items()}}
    lines += [
        f"| [{name}](../../src/warpsight/ui/cli/schemas/{name}.json) | {what} |"
        for name, what in sorted(told.items())
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write everything."""
    for name in MADE:
        (FOLDER / f"{name}.json").write_text(text(name), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

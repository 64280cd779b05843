"""Answers: what a process was doing."""

# ruff: noqa: D101 (the names of the documents say what they are)
from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict


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

"""Types of the options of a recording, generated from options/table.py by scripts/generate_option_types.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict


@dataclass(frozen=True)
class RecordingValues:
    """Options of a recording; the defaults are those of `warpsight record`."""

    duration: float = 0.0
    delay: float = 0.0
    on_trigger: bool = False
    stacks: str = "python"
    kernels: tuple[str, ...] = ()
    backend: str = "auto"
    api: str = "default"
    trace: tuple[str, ...] = ()
    graph: str = "auto"
    sample: float = 100.0
    counters: str = "10"
    capture_range: str = "off"
    ranges: tuple[str, ...] = ()
    nccl: str = "auto"
    cubins: bool = False
    pc_sampling: int = 0
    sass_counts: str = "off"
    metrics: tuple[str, ...] = ()
    metrics_per: str = "kernel"
    metrics_every: int = 0
    metrics_passes: str = ""
    leave_cupti: bool = False
    opencl_profiling: str = "on"
    max_size: int = 0
    stack_depth: int = 128
    on_full: str = "drop-newest"
    flush: int = 200
    buffer_size: int = 131072
    device_buffers: int = 0
    wait: float = 10.0
    ring: str = ""
    triggers: tuple[str, ...] = ()
    after: float = 0.0
    kernel_log: str = ""
    log_stacks: str = "dedup"


@dataclass(frozen=True)
class CommandValues:
    """Options of `warpsight record` itself, and of vendors' recorders."""

    path: Path | None = None
    force: bool = False
    open: bool = False
    quiet: bool = False
    verbose: bool = False
    export: str = ""
    capsule: str = ""
    strict: bool = False
    print_env: bool = False
    recorder: str = "auto"
    backend_args: str = ""
    keep: bool = False
    template: str = ""
    pid: int = 0


class RecordingOptions(TypedDict, total=False):
    """Keyword arguments of `ws.record`."""

    duration: float
    delay: float
    on_trigger: bool
    stacks: Literal["python", "native", "both", "off"]
    kernels: str | Sequence[str]
    backend: str
    api: str | Sequence[str]
    trace: str | Sequence[str]
    graph: Literal["auto", "node", "graph"]
    sample: float | Literal["off"]
    counters: str | float | Sequence[str]
    capture_range: Literal["off", "profiler-api"]
    ranges: str | Sequence[str]
    nccl: Literal["auto", "on", "off"]
    cubins: bool
    pc_sampling: int | Literal["on", "off"]
    sass_counts: str | Sequence[str]
    metrics: str | Sequence[str]
    metrics_per: Literal["kernel", "range"]
    metrics_every: int
    metrics_passes: str
    leave_cupti: bool
    opencl_profiling: Literal["on", "off"]
    max_size: int
    stack_depth: int
    on_full: Literal["drop-newest", "drop-oldest", "wait"]
    flush: int
    buffer_size: int
    device_buffers: int
    wait: float
    ring: str
    triggers: str | Sequence[str]
    after: float
    kernel_log: str | os.PathLike[str]
    log_stacks: Literal["dedup", "full", "none"]


class RunOptions(RecordingOptions, total=False):
    """Keyword arguments of `ws.run`."""

    recorder: Literal["auto", "own", "vendor"]
    backend_args: str | Sequence[str | os.PathLike[str]]
    keep: bool
    template: str

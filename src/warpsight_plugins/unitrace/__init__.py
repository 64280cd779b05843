"""Intel's unitrace and onetrace: Chrome JSON of `--chrome-kernel-logging` and `--chrome-call-logging`.

The formats follow pti-gpu's `unitrace/src/chromelogger.h` and `onetrace/unified_tracer.h`. Kernels carry their launch in the name
(`gemm[SIMD32 {64; 1; 1} {256; 1; 1}]`: groups, then work-items of a group), and copies their size. A call is joined to its
kernels by the flow that starts inside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target


def sniff(source: Source) -> bool:
    """JSON whose first events name `HOST<…>`, or onetrace's start point."""
    if source.is_directory or source.head.lstrip()[:1] not in (b"{", b"["):
        return False
    head = source.head[:4096]
    return (b"HOST<" in head and b"process_name" in head) or (
        b'"start_time"' in head and (b"CLOCK_MONOTONIC_RAW" in head or b"QueryPerformanceCounter" in head)
    )


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file (of `unitrace --chrome-…`, one per process, or merged)."""
    from warpsight_plugins.unitrace.reader import UnitraceReader

    del options
    UnitraceReader(source, target).read()


COVERAGE = Coverage(
    kept=(
        "kernels with group count and size, copies, fills, waits; Level Zero, OpenCL and Unified Runtime "
        "calls",
        "ITT, XPTI and MPI events as ranges; devices, hosts, MPI ranks",
    ),
    lost=("SIMD width; links to metrics; files of counters",),
    tested=("files written after the loggers of unitrace 2.x and onetrace",),
)

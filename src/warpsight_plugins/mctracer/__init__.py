"""MetaX' mcTracer: Chrome JSON of device work, `mc…` API calls and mcTX ranges.

MetaX publishes no description of the file. The reader relies on what other tools that read it expect: trace events in
microseconds, device work with a stream among its arguments, CUDA's names of copies and fills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target


def sniff(source: Source) -> bool:
    """JSON of trace events with MetaX' names, or mcTracer's file name."""
    if source.is_directory or source.head.lstrip()[:1] not in (b"{", b"["):
        return False
    head = source.head
    return b"traceEvents" in head and any(
        mark in head
        for mark in (b"mcTracer", b'"mcLaunchKernel', b'"mcMalloc', b'"mcMemcpy', b'"mcInit', b'"mcStream')
    )


def read(source: Source, target: Target, options: Options) -> None:
    """Read one file."""
    from warpsight_plugins.mctracer.reader import read_events

    del options
    read_events(source, target)


COVERAGE = Coverage(
    kept=("kernels with grid and block, copies, fills; MACA calls; mcTX ranges",),
    lost=("kernel fields without a column, except as attributes",),
    tested=("files written after what readers of mcTracer's output rely on; no real file",),
)

r"""The text listings of CUPTI's own samples (`activity_trace`, …), in the form of CUDA 8 to 11 and the one since 12.

The forms follow `helper_cupti_activity.h` and the samples before it:

    CONCURRENT_KERNEL [ 100, 160 ] duration 60, "_Z3addPi", correlationId 7
    \tgrid [ 8, 1, 1 ], block [ 128, 1, 1 ], cluster [ 0, 0, 0 ], sharedMemory (static 0, dynamic 16)
    \tdeviceId 0, contextId 1, streamId 7, graphId 0, graphNodeId 0, channelId 8, channelType COMPUTE

    CONC KERNEL "_Z3addPi" [ 100 - 160 ] device 0, context 1, stream 7, correlation 7
        grid [8,1,1], block [128,1,1], shared memory (static 0, dynamic 16)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from warpsight.formats.registry import Coverage

if TYPE_CHECKING:
    from warpsight.formats.registry import Options
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_LINE = re.compile(
    rb"^(CONC KERNEL|CONCURRENT_KERNEL|KERNEL|RUNTIME|DRIVER|MEMCPY|MEMSET)\b[^\n]*\[ \d+ ?[-,] \d+ \][^\n]*correlation",
    re.MULTILINE,
)


def sniff(source: Source) -> bool:
    """Recognize text with at least one line of an activity."""
    return not source.is_directory and b"\0" not in source.head[:4096] and bool(_LINE.search(source.head))


def read(source: Source, target: Target, options: Options) -> None:
    """Read one listing."""
    from warpsight_plugins.cupti_listing.reader import read_listing

    del options
    read_listing(source, target)


COVERAGE = Coverage(
    kept=("kernels, copies, fills, calls, overhead; dropped records as loss; devices; contexts",),
    lost=(
        "sizes of copies and fills before CUDA 12; names of calls given only by number, except launches",
        "activities that fit no table, counted in a note",
    ),
    tested=("listings written after the samples of CUDA 11 and 12.9",),
)

"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module here with a `command`.
BELOW = (
    "hotspots", "why", "counts", "metrics", "list", "mma", "trace", "probe", "events", "memory", "values", "dataflow", "tma",
    "races", "waits",
    "query", "warps", "validate", "compare", "disasm", "histogram", "ipc", "delays",
)  # fmt: skip


def command() -> None:
    """Look inside kernels: hot lines, why warps stall, every access and barrier, races, instruction traces.

    `hotspots` and `why` read recordings made with --pc-sampling; `counts` and `metrics` record a program or read recordings;
    `list` and `mma` also read cubins. `trace` records single instructions on an NVIDIA GPU; `events`, `memory`, `values`,
    `dataflow`, `tma`, `races` and `waits` read its files. The others read CUTracer's files (NDJSON or text).
    """

"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module here with a `command`.
BELOW = (
    "trace",
    "events",
    "memory",
    "races",
    "query",
    "warps",
    "validate",
    "compare",
    "disasm",
    "histogram",
    "ipc",
    "delays",
)


def command() -> None:
    """Trace what single instructions of a kernel do, and ask such traces: accesses, races, records, warps.

    `trace` records on an NVIDIA GPU; `events`, `memory` and `races` read what it wrote. The other verbs read CUTracer's files
    (NDJSON, compressed or not, and text). Only `trace` needs a GPU.
    """

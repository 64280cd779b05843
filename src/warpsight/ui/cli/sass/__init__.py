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
    """Ask instruction traces: records, warps, validity, disassembly, instructions per cycle.

    The traces are CUTracer's (NDJSON, compressed or not, and text); none of the verbs needs a GPU.
    """

"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module here with a `command`.
BELOW = ("query", "warps", "validate", "compare", "disasm", "histogram", "ipc", "delays", "hotspots")


def command() -> None:
    """Ask about single instructions: hot lines with their stalls, instruction traces, warps, disassembly.

    `hotspots` reads recordings made with --pc-sampling. The other traces are CUTracer's (NDJSON, compressed or not, and
    text). Nothing but recording needs a GPU.
    """

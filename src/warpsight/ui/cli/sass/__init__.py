"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module here with a `command`.
BELOW = ("why", "list", "query", "warps", "validate", "compare", "disasm", "histogram", "ipc", "delays")


def command() -> None:
    """Look inside kernels: why warps stall, instructions beside their source, instruction traces.

    `why` and `list` read samples of program counters and cubins, the others CUTracer's traces (NDJSON, compressed or not, and
    text). None of the verbs needs a GPU.
    """

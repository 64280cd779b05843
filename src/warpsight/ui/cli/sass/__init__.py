"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module here with a `command`.
BELOW = (
    "why", "list", "query", "warps", "validate", "compare", "disasm", "histogram", "ipc", "delays", "hotspots",
)  # fmt: skip


def command() -> None:
    """Look inside kernels: hot lines, why warps stall, instructions beside their source, instruction traces.

    `hotspots` and `why` read recordings made with --pc-sampling, `list` those and cubins. The other traces are CUTracer's
    (NDJSON, compressed or not, and text). Nothing but recording needs a GPU.
    """

"""`warpsight sass`: a folder of verbs about instruction traces and device code."""

from __future__ import annotations

#: Verbs below `sass`, each a module with a `command`, and the heading that its help lists each under.
BELOW = {
    **dict.fromkeys(("hotspots", "why", "counts", "metrics", "list", "mma", "disasm"), "Time, counts and code"),
    **dict.fromkeys(
        ("trace", "probe", "events", "memory", "values", "dataflow", "tma", "races", "waits"), "Single instructions"
    ),
    **dict.fromkeys(
        ("query", "warps", "validate", "compare", "histogram", "ipc", "delays"), "Files of CUTracer"
    ),
}  # fmt: skip


#: The folder of the verbs under each heading.
FOLDERS = {
    "Time, counts and code": "kernels",
    "Single instructions": "events",
    "Files of CUTracer": "records",
}


def command() -> None:
    """Look inside kernels: hot lines, why warps stall, every access and barrier, races, instruction traces.

    `hotspots` and `why` read recordings made with --pc-sampling; `counts` and `metrics` record a program or read recordings;
    `list` and `mma` also read cubins. `trace` records single instructions on an NVIDIA GPU; the verbs below it read its files.
    """

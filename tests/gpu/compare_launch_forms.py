"""Records all_launch_forms and compares the rows with what the program says it did; exit 1 when they differ.

usage: compare_launch_forms.py PROGRAM [ARGUMENTS…]    (WARPSIGHT_LIBRARY names libwarpsight.so)
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from tests.standin import recording
from warpsight import _native


def recorded(arena: recording.Arena) -> Counter[str]:
    """How often each kernel, copy, set and event was recorded, under the names the program uses."""
    found: Counter[str] = Counter()
    for name, count in Counter(arena.names(arena.rows("Kernel"))).items():
        plain = re.search(r"(by_\w+?)E?Pi$", name)
        found[plain[1] if plain else name] += count
    found["memcpy"] = len(arena.rows("Memcpy"))
    found["memset"] = len(arena.rows("Memset"))
    found["event"] = sum(name.startswith("cudaEventRecord") for name in arena.functions())
    return found


def unjoined(arena: recording.Arena) -> int:
    """Kernels without a launch of the same correlation id and session."""
    launches = {(s, c) for s, c, f in zip(arena.sessions["Api"], arena.rows("Api")["correlation"], arena.rows("Api")["flags"],
                                          strict=True) if f & 1}  # fmt: skip
    kernels = zip(arena.sessions["Kernel"], arena.rows("Kernel")["correlation"], strict=True)
    return sum(key not in launches for key in kernels)


def main(command: list[str]) -> int:
    """Run, compare, print."""
    environment = {name: value for name, value in os.environ.items() if name.startswith("WARPSIGHT_")}
    environment["CUDA_INJECTION64_PATH"] = str(_native.library_path())
    with tempfile.TemporaryDirectory() as folder:
        done = recording.run(command, Path(folder), environment)
    said = {name: int(count) for name, count in (line.split() for line in done.output.splitlines())}
    print(f"exit {done.code}", done.errors.strip())
    arena = done.only
    found = recorded(arena)
    wrong = [name for name, count in said.items() if found[name] != count]
    for name in sorted(said):
        print(
            f"{name:28} program {said[name]:6} recorded {found[name]:6} {'DIFFERENT' if name in wrong else ''}"
        )
    calls = Counter(arena.functions())
    print("calls:", dict(calls.most_common()))
    print("rows:", {kind: len(rows) for kind, rows in arena.tables.items()})
    nodes = arena.rows("GraphNode")
    with_stack = {int(n) for n in nodes["node"][nodes["flags"] == 0]}
    in_graph = arena.rows("Kernel")["graph_node"]
    print(
        "graph kernels:",
        int((in_graph != 0).sum()),
        "of known nodes:",
        sum(int(n) in with_stack for n in in_graph if n),
    )
    kernels = arena.rows("Kernel")
    print("unjoined kernels:", unjoined(arena), "zero timestamps:", int((kernels["start"] == 0).sum()))
    early = np.sort(kernels["start"])[:1], np.sort(arena.rows("Api")["start"])[:1]
    print("first kernel, first call (ns):", early)
    for cause, count in arena.losses():
        print("loss:", count, cause)
    return 1 if wrong or done.code or unjoined(arena) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A stand-in for the launcher's sampling thread: samples processes and writes segments.

    python stack_sampling.py LIBRARY FOLDER PID TIMES PAUSE

Prints "sampling" after the first sample, then one JSON object: whether the process could be opened, what each
call returned, the statistics.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path

from warpsight import _native


def main() -> None:
    folder, pid, times, pause = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    library = ctypes.CDLL(sys.argv[1])
    _native.declare(library)
    raw = folder / "raw"
    raw.mkdir()
    drain = library.ws_drain_open(library.ws_arena_create(None), str(raw).encode(), 1 << 26)
    sampler = library.ws_sampler_open(pid)
    results, statistics = [], []
    if sampler:
        for _ in range(times):
            results.append(library.ws_sampler_sample(sampler))
            if len(results) == 1:
                print("sampling", flush=True)
            library.ws_drain_poll(drain, 0)
            time.sleep(pause)
        statistics = [library.ws_sampler_statistic(sampler, which) for which in range(4)]
        library.ws_sampler_close(sampler)
    library.ws_drain_poll(drain, 1)
    library.ws_drain_close(drain)
    print(json.dumps({"opened": bool(sampler), "results": results, "statistics": statistics}))


if __name__ == "__main__":
    main()

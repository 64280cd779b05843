"""Speed and size of SBT: coding alone, and a whole import and export.

    PYTHONPATH=src:. python benchmarks/sbt.py [--events 1000000]

Launch shapes on 80% of the events, addresses and sizes on 20%, eight streams, fifty names, 200 shapes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.formats import varint
from warpsight.formats.importing import import_files
from warpsight.formats.selection import Selection
from warpsight.model import open as open_trace
from warpsight_plugins.sbt import events, layout, sections, writer


def made(count: int, seed: int = 1) -> events.SbtEvents:
    """Events of random times, shapes and addresses."""
    rng = np.random.default_rng(seed)
    shaped = rng.random(count) < 0.8
    kernels, copies = np.flatnonzero(shaped), np.flatnonzero(~shaped)
    flags = np.where(shaped, layout.DURATION | layout.KERNEL, layout.DURATION | layout.MEMORY).astype(
        np.uint8
    )
    known = np.ones((200, 8), np.uint64)
    known[:, 0], known[:, 3] = rng.integers(1, 1024, 200), 256
    known[:, 6], known[:, 7] = rng.integers(0, 48, 200) * 1024, rng.integers(16, 128, 200)
    shapes = known[rng.integers(0, 200, len(kernels))]
    memory = rng.integers(1 << 40, 1 << 46, (len(copies), 3)).astype(np.uint64)
    memory[:, 2] = rng.integers(1, 1 << 20, len(copies))

    def column(low: int, high: int) -> Any:
        return rng.integers(low, high, count).astype(np.uint64)

    time_of = np.uint64(1_700_000_000_000_000_000) + np.cumsum(column(100, 20_000))
    none = np.empty(0, np.int64)
    return events.SbtEvents(
        np.where(shaped, 1, 3).astype(np.uint8), flags, time_of, column(1_000, 100_000), np.zeros(count, np.uint64),
        column(0, 8), np.arange(1, count + 1).astype(np.uint64), column(0, 50), kernels, shapes, copies, memory, none,
        np.empty(0, np.uint64), none,
    )  # fmt: skip


def timed(what: str, function: Callable[[], Any], repeat: int = 3) -> Any:
    best = processor = float("inf")
    for _ in range(repeat):
        clock, used = time.perf_counter(), time.process_time()
        result = function()
        best, processor = min(best, time.perf_counter() - clock), min(processor, time.process_time() - used)
    print(f"{what}: {best:.2f} s ({processor:.2f} s of processor time)")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    count = parser.parse_args().events
    rows = made(count)
    pieces = timed("encode", lambda: writer.event_pieces(rows))
    strings = sections.pack_strings([b"kernel %d" % i for i in range(50)])
    data = b"".join(sections.assemble(layout.SbtHeader(flags=3, count=count), b"", b"", pieces, strings))
    print(f"{len(data) / count:.1f} bytes per event")
    array = np.frombuffer(data, np.uint8)
    begin = layout.HEADER.size + 1
    base, at = varint.decode_one(data, begin)
    timed("decode", lambda: [len(part) for part, _ in events.read(array, at, len(data), base, count)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.sbt"
        path.write_bytes(data)
        timed("import into a trace", lambda: import_files([path], Path(folder) / "one.warp", force=True))
        with open_trace(Path(folder) / "one.warp") as trace, (Path(folder) / "two.sbt").open("wb") as file:

            def export() -> None:
                file.seek(0)
                writer.write(trace, file, Selection())

            timed("export from the trace", export)
        print("same bytes:", (Path(folder) / "two.sbt").read_bytes() == data)


if __name__ == "__main__":
    main()

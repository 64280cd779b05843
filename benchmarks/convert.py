"""Speed, memory and size of the conversion from segments to a trace, on generated recordings.

    python benchmarks/convert.py [--mix loop|decode] [--kernels 10000000] [--keep DIR]

Prints kernels per second (each with its launch row and stack), peak memory of the converter process, bytes
per kernel with its launch, the time to finish after the last segment, and how long a `stats`-like query
takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.unit.capture.segment_writer import SegmentWriter

ARENA = 0x5EED
PID = 4242
SEGMENT_ROWS = 400_000  # kernels of a segment of 64 MiB, with their launches
PREFIX = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi"


def definitions(folder: Path, names: int, stacks: int) -> None:
    """Names, shapes, frames, stacks, one process and one device."""
    strings = {i: f"{PREFIX}{i}EEEEviT0_T1_" for i in range(1, names + 1)}
    strings |= {
        1000: "python\0train.py",
        1001: "/usr/bin/python3",
        1002: "node7",
        1003: "GPU-5eed",
        1004: "H200",
        1005: "NVIDIA",
        2000: "/app/train.py",
    }
    strings |= {3000 + i: f"Module{i}.forward" for i in range(40)}
    with SegmentWriter(folder / "definitions-000000.seg", pid=PID, arena=ARENA) as out:
        out.write_strings(strings)
        number = np.arange(1, 41)
        out.write(
            "Shape",
            {
                "id": number,
                "grid_x": number * 7,
                "grid_y": 1,
                "grid_z": 1,
                "block_x": 128,
                "block_y": 1,
                "block_z": 1,
                "registers": 40,
            },
        )
        frames = np.arange(1, 41)
        out.write(
            "Frame", {"id": frames, "function": 2999 + frames, "file": 2000, "line": frames * 10, "kind": 1}
        )
        depth = 20
        ids = np.arange(1, depth + stacks + 1)
        out.write(
            "Stack",
            {"id": ids, "parent": np.minimum(ids - 1, depth), "frame": (ids - 1) % 40 + 1, "method": 1},
        )
        out.write(
            "Process",
            {
                "pid": PID,
                "time": 1,
                "command": 1000,
                "executable": 1001,
                "host": 1002,
                "rank": -1,
                "local_rank": -1,
                "world_size": -1,
            },
        )
        out.write("Device", {"device": 0, "name": 1004, "uuid": 1003, "vendor": 1005, "platform": 1})


def rows(
    mix: str, first: int, count: int, clock: int, random: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Launches and kernels `first`… in order: columns of kinds Api and Kernel, and the clock after them."""
    i = np.arange(first, first + count)
    if mix == "loop":
        spacing = 2300 + random.exponential(150, count)
        took = 1900 + random.exponential(100, count)
        work = random.normal(1300, 40, count)
        name, shape, stack, step = np.ones(count, int), np.ones(count, int), np.full(count, 21), 1
    else:
        pattern = np.random.default_rng(7)
        place = i % 390  # one token: 24 layers of 16 kernels and a few more
        names, shapes, stacks = (
            pattern.integers(1, 61, 390),
            pattern.integers(1, 41, 390),
            pattern.integers(0, 16, 390),
        )
        name, shape, stack, step = names[place], shapes[place], 21 + stacks[place], 3
        spacing = 4500 + random.exponential(900, count) + 30000 * (random.random(count) < 0.004)
        took = 3000 + random.exponential(400, count)
        work = pattern.lognormal(8, 1, 390)[place] * random.normal(1, 0.015, count)
    start = clock + np.cumsum(spacing.astype(np.int64))
    duration = np.maximum(work.astype(np.int64), 400)
    # in one stream a kernel begins when it has arrived and the one before it is done
    arrived = start + 4000 + random.integers(0, 120, count)
    before = np.cumsum(duration) - duration
    begin = np.maximum.accumulate(arrived - before) + before
    correlation = (i * step + 1).astype(np.uint32)
    api = {
        "start": start,
        "duration": took.astype(np.int64),
        "correlation": correlation,
        "stack": stack,
        "name": name,
        "function": 211,
        "domain": 1,
        "flags": 1,
        "shape": shape,
    }
    kernel = {
        "start": begin,
        "end": begin + duration,
        "correlation": correlation,
        "name": name,
        "shape": shape,
        "context": 1,
        "stream": 7,
    }
    return api, kernel, int(start[-1])


def generate(root: Path, mix: str, kernels: int) -> None:
    """A recording of `kernels` launches in one process."""
    folder = root / "raw" / f"{ARENA:016x}"
    folder.mkdir(parents=True)
    definitions(folder, 60, 16)
    random = np.random.default_rng(1)
    sequences: dict[int, int] = {}
    clock = 1_000_000_000_000
    for number, first in enumerate(range(0, kernels, SEGMENT_ROWS), 1):
        api, kernel, clock = rows(mix, first, min(SEGMENT_ROWS, kernels - first), clock, random)
        with SegmentWriter(
            folder / f"data-{number:06d}.seg", pid=PID, arena=ARENA, sequences=sequences
        ) as out:
            out.write("Api", api, thread=PID)
            out.write("Kernel", kernel, thread=PID + 1)


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def convert(root: Path) -> tuple[float, float, float, int]:
    """Seconds and processor seconds to convert, seconds to finish, peak resident bytes of the converter process."""
    child = subprocess.Popen(
        [sys.executable, "-m", "warpsight.capture.converter", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    child.stdin.write(
        '{"do": "ready"}\n'
    )  # wait until it has started: an unknown request is answered at once
    child.stdin.flush()
    child.stdout.readline()
    used = processor_seconds(child.pid)
    begin = time.perf_counter()
    child.stdin.write('{"do": "convert"}\n')
    child.stdin.flush()
    answer = json.loads(child.stdout.readline())
    middle = time.perf_counter()
    assert "error" not in answer, answer
    used = processor_seconds(child.pid) - used
    peak = next(
        line
        for line in (Path(f"/proc/{child.pid}/status")).read_text().splitlines()
        if line.startswith("VmHWM")
    )
    child.stdin.write('{"do": "finish"}\n')
    child.stdin.flush()
    answer = json.loads(child.stdout.readline())
    end = time.perf_counter()
    assert "error" not in answer, answer
    child.stdin.close()
    child.wait()
    return middle - begin, used, end - middle, int(peak.split()[1]) * 1024


def main() -> None:
    """Generate, convert, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mix", choices=["loop", "decode"], default="decode")
    parser.add_argument("--kernels", type=int, default=10_000_000)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.keep or Path(scratch) / "bench.warp"
        generate(root, options.mix, options.kernels)
        took, used, finish, peak = convert(root)
        size = {
            t: sum(f.stat().st_size for f in root.glob(f"table={t}/**/*.parquet"))
            for t in ("kernel", "launch")
        }
        print(
            f"{options.mix}: {options.kernels / took / 1e6:.2f} M kernels/s, "
            f"{used / options.kernels * 1e6:.2f} s of processor time per million, finish {finish:.3f} s, peak {peak / 1e6:.0f} MB"
        )
        print(
            f"bytes per kernel: {size['kernel'] / options.kernels:.2f}"
            f" + {size['launch'] / options.kernels:.2f} for its launch"
        )
        query(root)


def query(root: Path) -> None:
    """Time of an aggregate over every kernel, on the raw relation and on the joined view."""
    import warpsight.model

    with warpsight.model.open(root) as trace:
        for text in (
            "SELECT n.short, s.* FROM (SELECT name_id, count(*) c, sum(duration) d, min(duration),"
            " max(duration)"
            " FROM kernel_ids GROUP BY name_id) s JOIN name n ON n.id = s.name_id ORDER BY d DESC",
            "SELECT demangled, count(*), sum(duration) d FROM kernel GROUP BY 1 ORDER BY d DESC",
        ):
            begin = time.perf_counter()
            found = trace.sql(text).fetchall()
            print(f"{time.perf_counter() - begin:.3f} s for {len(found)} groups: {text[:60]}…")


if __name__ == "__main__":
    main()

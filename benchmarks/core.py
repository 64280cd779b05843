"""How long `warpsight core` takes, and how much memory, on a dump of a fully occupied GPU and on real ones.

usage: core.py [--sms 132] [--runs 5] [DUMP …]

The synthetic dump has 132 multiprocessors x 64 warps x 32 lanes, each lane with its registers and predicates: 549,000
sections. Every run is a process of its own; the best and the median are printed, with the peak of its resident memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def run(path: Path, *options: str) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and peak resident bytes of one run of the command."""
    command = [sys.executable, "-m", "warpsight.ui.cli.app", "core", str(path), *options]
    environment = dict(os.environ, PYTHONPATH=f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}")
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: exit {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def measure(title: str, path: Path, runs: int, *options: str) -> None:
    results = [run(path, *options) for _ in range(runs)]
    walls, cpus = [r[0] for r in results], [r[1] for r in results]
    print(
        f"{title}: best {min(walls):.2f} s, median {statistics.median(walls):.2f} s, CPU {min(cpus):.2f} s, "
        f"{max(r[2] for r in results) / 1e6:.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dumps", nargs="*", type=Path)
    parser.add_argument("--sms", type=int, default=132)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    from tests.golden.cores.golden_cores import unpack
    from tests.unit.debug.synthetic_core import Shape, write

    with tempfile.TemporaryDirectory() as folder:
        shape = Shape(sms=options.sms, blocks_per_sm=8, warps_per_block=8, places=24)
        path = Path(folder, "full.gpucore")
        # In a process of its own: the peak of a child begins with that of its parent.
        maker = multiprocessing.get_context("spawn").Process(target=write, args=(path, shape))
        maker.start()
        maker.join()
        print(f"synthetic dump: {path.stat().st_size / 1e6:.0f} MB")
        measure("full occupancy", path, options.runs)
        measure("full occupancy, --sass", path, options.runs, "--sass")
        for name in ("spin_flag.lineinfo", "triton_lock.lineinfo"):
            dump = unpack(name, Path(folder))
            measure(name, dump, options.runs)
    for dump in options.dumps:
        measure(dump.name, dump, options.runs)


if __name__ == "__main__":
    main()

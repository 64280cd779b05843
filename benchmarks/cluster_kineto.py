"""How long importing the Kineto files of a job's ranks takes: one file repeated to the size asked for, once per rank.

PYTHONPATH=src:. python benchmarks/cluster_kineto.py TRACE.json[.gz] --ranks 8 --times 3
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from benchmarks.import_kineto import repeated
from warpsight.cluster.executor import LocalExecutor
from warpsight.cluster.job import load


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"rank{rank}.json" for rank in range(given.ranks)]
        for path in paths:
            repeated(given.trace, path, given.times)
        print(f"{given.ranks} files of {paths[0].stat().st_size / 1e6:.1f} MB")
        for which in ("imported and summarized", "again"):
            began, used = time.perf_counter(), os.times()
            job = load(paths, LocalExecutor(given.workers))
            now = os.times()
            spent = now.user + now.system + now.children_user + now.children_system
            spent -= used.user + used.system + used.children_user + used.children_system
            print(f"{which}: {time.perf_counter() - began:.2f} s, {spent:.2f} s of processors; {len(job.summaries)} ranks, "
                  f"{len(job.failed)} failed")  # fmt: skip


if __name__ == "__main__":
    main()

"""Importing a large SQLite export of Nsight Systems: `python benchmarks/import_nsys.py [ROWS] [RUNS]`.

Writes an export with ROWS kernels, as many launches and as many NVTX ranges (500,000 by default) and imports it RUNS times (3).
Prints processor time of the best run, rows per second of it, and the peak of memory.
"""

from __future__ import annotations

import resource
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.unit.formats import nsys_export
from warpsight.formats.importing import import_files

LARGE = {"CUPTI_ACTIVITY_KIND_KERNEL": 0, "CUPTI_ACTIVITY_KIND_RUNTIME": 0, "NVTX_EVENTS": 3}


def write(path: Path, rows: int) -> None:
    """An export with many rows of the three large tables, all of them different in time and correlation."""
    nsys_export.write_sqlite(path)
    with sqlite3.connect(path) as file:
        for table, sample in LARGE.items():
            row: dict[str, Any] = nsys_export.TABLES[table][sample]
            spelled = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))

            def values(number: int, row: dict[str, Any] = row) -> list[Any]:
                changed = {"start": number * 1000, "end": number * 1000 + 500, "correlationId": number}
                return [changed.get(name, value) for name, value in row.items()]

            data = (values(number) for number in range(1000, 1000 + rows))
            file.executemany(f"insert into {table} ({spelled}) values ({marks})", data)
    file.close()


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "large.sqlite"
        write(export, rows)
        times = []
        for run in range(runs):
            began = time.process_time()
            import_files([export], Path(folder) / f"out-{run}.warp")
            times.append(time.process_time() - began)
        best = min(times)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = export.stat().st_size / 1e6
        print(
            f"{size:.0f} MB, {3 * rows:,} rows: {best:.1f} s of processor time, {3 * rows / best:,.0f} rows/s, {peak:.0f} MB"
        )


if __name__ == "__main__":
    main()

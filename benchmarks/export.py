"""Speed and size of the exports.

    PYTHONPATH=src:. python benchmarks/export.py [FORMAT…] [--kernels 1000000] [--trace PATH]

One million kernels with launches, stacks, flows and 2% copies: protobuf 116 bytes per kernel in all, Chrome JSON 801.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.synthetic_trace import Plan, make
from warpsight.formats.registry import EXPORTERS
from warpsight.formats.selection import Selection
from warpsight.model import open as open_trace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(sorted(EXPORTERS)))
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path, default=Path("/tmp/warpsight-benchmark-export.warp"))
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.formats) - set(EXPORTERS):
        parser.error(f"no such format: {', '.join(sorted(unknown))}")
    if not options.trace.exists():
        make(options.trace, Plan(kernels=options.kernels))
    only = Selection(kinds=("kernel", "launch"), counters=False)
    with open_trace(options.trace) as trace, tempfile.TemporaryDirectory() as folder:
        kernels = trace.count("kernel")
        for name in options.formats or ["perfetto"]:
            exporter = EXPORTERS[name]
            for _ in range(options.repeat):
                path = Path(folder) / f"export{exporter.suffix}"
                clock, processor = time.perf_counter(), time.process_time()
                with path.open("wb") as file:
                    exporter.write(trace, file, only)
                clock, processor = time.perf_counter() - clock, time.process_time() - processor
                size = path.stat().st_size / kernels
                print(
                    f"{name}: {kernels / clock / 1e6:.2f} M kernels/s ({processor:.2f} s CPU), {size:.1f} bytes per kernel"
                )


if __name__ == "__main__":
    main()

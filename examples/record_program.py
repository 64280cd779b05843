"""Record a program without changing it, and see which line launched each kernel."""

import subprocess
import sys
from pathlib import Path

from devices import arguments

import warpsight as ws

DEVICES = ("cuda", "opencl")


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "steps.warp"
    program = [sys.executable, str(Path(__file__).with_name("steps.py")), "--device", options.device]
    subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", "record", "-o", str(path), "--", *program], check=True
    )

    trace = ws.open(path)
    kernels = trace.sql(
        "SELECT name, count(*), sum(duration) FROM kernel GROUP BY name ORDER BY 3 DESC"
    ).fetchall()
    for name, count, nanoseconds in kernels:
        print(f"{count:6} x {name:40.40} {nanoseconds / 1e6:9.3f} ms")
    launches, with_stack = trace.sql("SELECT count(*), count(*) FILTER (stack > 0) FROM launch").fetchall()[0]
    print(f"{launches} launches, {with_stack} with the Python stack that made them")
    if not kernels or launches < 100 or with_stack < launches:
        sys.exit("a launch lacks its kernel or its stack")


if __name__ == "__main__":
    main()

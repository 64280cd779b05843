"""The timeline of a trace of a million kernels in a headless Chromium: time until it is seen, script time of each frame.

    PYTHONPATH=src:. python benchmarks/timeline_frames.py [--kernels 1000000] [--trace PATH] [--frames 200]

The first row is `warpsight open` from its start to the drawn page, with Python's own start. The others are script time of
frames while the view moves and zooms: from all of the recording to single kernels, once what a view needs has come.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.synthetic_trace import Plan, make
from tests.conftest import browser_path
from tests.integration.chromium import Chromium

#: Shares of the recording that are in view.
_VIEWS = (1.0, 0.1, 0.01, 0.001, 0.0001)
_FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"


def script_ms(page: Chromium) -> float:
    """Script time of the page so far, in time of its thread: other programs of the machine do not count."""
    metrics = page.call("Performance.getMetrics")["metrics"]
    return next(1000 * float(one["value"]) for one in metrics if one["name"] == "ScriptDuration")


def drive(page: Chromium, frames: int) -> None:
    """Print the script time of frames for each view."""
    page.call("Performance.enable", timeDomain="threadTicks")
    begin, end = page.evaluate("[report.timeline.begin, report.timeline.end]")
    every: list[float] = []
    for share in _VIEWS:
        width = (end - begin) * share
        at = begin + (end - begin - width) * 0.5
        page.evaluate(f"report.timeline.show({at}, {at + width})")
        page.evaluate("new Promise((done) => setTimeout(done, 2000))")  # what the view needs comes
        spent = []
        for i in range(frames):
            move = f"pan({np.sin(i / 8) * width * 0.02})" if i % 2 else f"zoom({1 + np.sin(i / 5) * 0.02})"
            before = script_ms(page)
            page.evaluate(f"report.timeline.{move}, {_FRAME}")
            spent.append(script_ms(page) - before)
        every += spent
        print(
            f"{share:7.2%} in view   median {np.median(spent):5.2f} ms   p95 {np.percentile(spent, 95):5.2f} ms"
        )
    print(f"all frames        median {np.median(every):5.2f} ms   p95 {np.percentile(every, 95):5.2f} ms")


def main() -> None:
    """Make the trace, open it, drive the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--trace", type=Path, default=Path("/tmp/warpsight-benchmark-pages.warp"))
    parser.add_argument("--frames", type=int, default=200)
    options = parser.parse_args()
    program = browser_path()
    if program is None:
        sys.exit("no Chromium on PATH")
    if not options.trace.exists():
        make(options.trace, Plan(kernels=options.kernels))
    with Chromium(program, timeout_s=120) as page:
        page.resize(1440, 900)
        clock = time.perf_counter()
        command = [sys.executable, "-m", "warpsight", "-q", "open", str(options.trace), "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            served = time.perf_counter() - clock
            page.open(address, "window.report && report.timeline && report.timeline.spent")
            drawn = time.perf_counter() - clock
            used = sum(
                map(int, Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[11:13])
            )
            cpu = used / os.sysconf("SC_CLK_TCK")
            print(
                f"open: served after {served:.2f} s, drawn after {drawn:.2f} s; {cpu:.2f} s of processor time"
            )
            drive(page, options.frames)
        finally:
            server.terminate()
            server.wait(20)


if __name__ == "__main__":
    main()

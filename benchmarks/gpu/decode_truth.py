"""GPU time of decoding against CUDA events. usage: warpsight record … -- python decode_truth.py TRUTH.json

Runs decode steps between CUDA events in windows that keep the stream busy, and writes the milliseconds the events
measured together with the host's CLOCK_MONOTONIC limits of each window; `check_decode_truth.py` compares a trace.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch


def main() -> None:
    a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    windows = []
    for repetition in range(12):
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        host = time.monotonic_ns()
        torch.cuda._sleep(
            20_000_000
        )  # lets the launches queue up, so that the kernels after it run back to back
        begin.record()
        for _ in range(200):
            b = a @ a
            b = torch.nn.functional.silu(b)
        end.record()
        torch.cuda.synchronize()
        if repetition >= 2:
            windows.append({"ms": begin.elapsed_time(end), "from": host, "to": time.monotonic_ns()})
    Path(sys.argv[1]).write_text(json.dumps(windows))


if __name__ == "__main__":
    main()

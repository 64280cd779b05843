"""Compares a trace of decode_truth.py with what CUDA events measured. usage: check_decode_truth.py TRACE TRUTH.json

In each window the kernels after the delay run back to back, so the span from the first to the last of them must equal
the time between the events. Prints one JSON line with the ratio of every window; exits 1 beyond 1%.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import warpsight


def main() -> int:
    windows = json.loads(Path(sys.argv[2]).read_text())
    ratios = []
    with warpsight.open(sys.argv[1]) as trace:
        for window in windows:
            rows = trace.sql(
                "SELECT min(start), max(start + duration), sum(duration) FROM kernel "
                f"WHERE start BETWEEN {window['from']} AND {window['to']} AND name NOT LIKE '%spin%'"
            ).fetchall()
            first, last, _ = rows[0]
            ratios.append((last - first) / 1e6 / window["ms"])
    print(json.dumps({"windows": len(ratios), "ratios": [round(r, 4) for r in ratios]}))
    return 0 if ratios and all(abs(r - 1) < 0.01 for r in ratios) else 1


if __name__ == "__main__":
    sys.exit(main())

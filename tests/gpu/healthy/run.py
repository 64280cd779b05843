"""Runs all healthy programs at once, each under its own watch, and says which were alarmed about: none may be.

usage: run.py --out FOLDER [--seconds 480] [--threshold 20] [--dumps NAME,…|all]

Programs named by --dumps run a second time, with core dumps armed (launches recorded without CUPTI).
The exit code is the number of programs that failed or were reported; facts are in FOLDER/healthy.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("long_kernels", "cpu_phase", "many_short", "graphs", "debugger_pause", "fork", "sleep", "data_loader", "threads",
         "event_poll", "spawn", "copies")  # fmt: skip


def watched(
    out: Path, name: str, seconds: float, threshold: float, dumps: bool
) -> tuple[str, subprocess.Popen[bytes]]:
    label = name + (".dumps" if dumps else "")
    log = (out / f"{label}.log").open("wb")
    command = [sys.executable, "-m", "warpsight.ui.cli", "watch", "--hang-after", f"{threshold:g}"]
    command += ["-o", str(out / f"{label}.watch"), *(["--dumps"] if dumps else []), "--"]
    command += [sys.executable, str(HERE / "programs.py"), name, f"{seconds:g}"]
    return label, subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--threshold", type=float, default=20)
    parser.add_argument("--dumps", default="")
    parser.add_argument("--only", default=",".join(NAMES))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    second = NAMES if options.dumps == "all" else [n for n in options.dumps.split(",") if n]
    wanted = [(name, False) for name in options.only.split(",") if name] + [(name, True) for name in second]
    running = [
        watched(options.out, name, options.seconds, options.threshold, dumps) for name, dumps in wanted
    ]
    deadline = time.monotonic() + options.seconds + 60
    facts = []
    for label, process in running:
        try:
            code = process.wait(timeout=max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = -9
        reports = [path.name for path in (options.out / f"{label}.watch").glob("report*.txt")]
        facts.append({"program": label, "code": code, "reports": reports})
        print(label, "code", code, "reports", reports, flush=True)
    bad = [fact for fact in facts if fact["code"] or fact["reports"]]
    (options.out / "healthy.json").write_text(json.dumps({"seconds": options.seconds, "threshold": options.threshold,
                                                          "programs": facts}, indent=1))  # fmt: skip
    print(f"{len(facts) - len(bad)} of {len(facts)} without an alarm")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main())

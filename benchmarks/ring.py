"""The flight recorder for an hour: memory and disk that it takes, what a trigger costs, and the processor time beside `record`.

    python benchmarks/ring.py [--minutes 60] [--rate 100000] [--ring 30s] [--trigger-every 60]

Needs a C++ compiler and CUDA's headers for the scripted stand-in (tests/standin), whose program launches at a steady rate with
new range names at every step; no GPU. Figures are medians and maxima over each third of the run: a bound holds when the last
third is like the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def environment(standin: Path) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("STANDIN", "WARPSIGHT_SOCKET"))}
    return {**clean, "LD_LIBRARY_PATH": str(standin), "PYTHONPATH": str(ROOT / "src")}


def resident(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0)


def children(pid: int) -> list[int]:
    try:
        return [
            int(p)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for p in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total


def cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def trigger(folder: Path, standin: Path) -> dict[str, Any]:
    """Seconds from asking to a readable trace; the trace is opened and then removed."""
    import warpsight

    began = time.monotonic()
    command = [sys.executable, "-m", "warpsight.ui.cli", "trigger", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(standin), check=False)
    if done.returncode:
        return {"error": done.stderr.strip()}
    answer = json.loads(done.stdout)
    took = time.monotonic() - began
    with warpsight.open(answer["path"]) as trace:
        span, kernels = trace.sql("SELECT (max(start) - min(start)) / 1e9, count(*) FROM kernel").fetchall()[
            0
        ]
    shutil.rmtree(answer["path"])
    return {"seconds": took, "kernels": kernels, "span_s": span}


def run(
    standin: Path, folder: Path, minutes: float, rate: int, ring: str | None, every: float
) -> dict[str, Any]:
    target = folder / ("ring.warp" if ring else "whole.warp")
    options = ["--ring", ring] if ring else []
    steps = ["init", f"ranges:{rate}:{int(minutes * 60_000)}"]
    command = [
        sys.executable,
        "-m",
        "warpsight.ui.cli",
        "record",
        "-q",
        "-o",
        str(target),
        *options,
        "--",
        str(standin / "program"),
        *steps,
    ]
    process = subprocess.Popen(command, env=environment(standin))
    samples, triggers, next_trigger, used = [], [], time.monotonic() + every, {}
    while process.poll() is None:
        time.sleep(1)
        pids = [process.pid, *children(process.pid)]
        program = [
            p
            for p in pids
            if Path(f"/proc/{p}/exe").exists() and os.readlink(f"/proc/{p}/exe").endswith("/program")
        ]
        own = [p for p in pids if p not in program]
        used.update({p: cpu_s(p) for p in own})
        samples.append({"launcher": resident(process.pid), "own": sum(map(resident, own)),
                        "program": sum(map(resident, program)), "disk": folder_bytes(target)})  # fmt: skip
        if ring and every and time.monotonic() > next_trigger:
            next_trigger += every
            triggers.append(trigger(target, standin))
    return {"code": process.returncode, "samples": samples, "triggers": triggers, "own_cpu_s": sum(used.values()),
            "minutes": minutes}  # fmt: skip


def thirds(samples: list[dict[str, int]], name: str) -> str:
    size = max(len(samples) // 3, 1)
    parts = [samples[at : at + size] for at in (0, size, 2 * size)]
    return "  ".join(f"{statistics.median(s[name] for s in part) / 1e6:7.1f}/{max(s[name] for s in part) / 1e6:7.1f}"
                     for part in parts if part)  # fmt: skip


def report(found: dict[str, Any]) -> None:
    samples = found["samples"][5:]
    print(f"{found['minutes']:g} min, exit code {found['code']}; MB, median/maximum of each third")
    for name, text in (
        ("launcher", "launcher"),
        ("own", "all recorder processes"),
        ("program", "program"),
        ("disk", "folder"),
    ):
        print(f"  {text:24} {thirds(samples, name)}")
    took = [t["seconds"] for t in found["triggers"] if "seconds" in t]
    if took:
        kernels = statistics.median(t["kernels"] for t in found["triggers"] if "seconds" in t)
        at_most = f"{statistics.median(took):.2f} s to a readable trace, {max(took):.2f} s at most"
        print(f"  {len(took)} triggers: {at_most}; {kernels:,.0f} kernels in it")
    for t in found["triggers"]:
        if "error" in t:
            print(f"  a trigger failed: {t['error']}")
    print(f"  processor time of the recorder: {found['own_cpu_s'] / found['minutes'] / 60:.3f} of a core")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=100_000)
    parser.add_argument("--ring", default="30s")
    parser.add_argument("--trigger-every", type=float, default=60)
    parser.add_argument(
        "--compare-minutes",
        type=float,
        default=1,
        help="of `record` and of the ring without triggers; 0: none",
    )
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    with tempfile.TemporaryDirectory(prefix="warpsight-ring-") as place:
        standin = Path(place) / "standin"
        subprocess.run([ROOT / "tests" / "standin" / "build.sh", standin], check=True)
        print(f"ring {options.ring}, {options.rate:,} launches a second")
        report(run(standin, Path(place), options.minutes, options.rate, options.ring, options.trigger_every))
        if options.compare_minutes:
            for ring, name in ((options.ring, "ring, no triggers"), (None, "record as a whole")):
                shutil.rmtree(Path(place) / "ring.warp", ignore_errors=True)
                print(name)
                report(run(standin, Path(place), options.compare_minutes, options.rate, ring, 0))


if __name__ == "__main__":
    main()

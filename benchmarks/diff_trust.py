"""How far `warpsight diff` can be trusted: false alarms on equal programs, and planted slowdowns that it finds.

    python benchmarks/diff_trust.py --device opencl --rounds 12 --out build/diff-trust
    python benchmarks/diff_trust.py --device cuda --seconds 280 --out build/diff-trust-cuda

Records the three programs of diff_programs.py in rounds: each program once as it is and once with one kernel slower, the first of
the two in turn. Then draws comparisons of five runs against five from the recorded runs:

* equal: ten runs of the same version. Calling anything different is a false alarm; at most 2 of 40 may be.
* planted: five runs as the program is against five of the slower version. The slower kernel has to be called slower, or grown
  beside the rest; in 36 of 40 at least.

Both are drawn with sides taken in turn (A B B A …) and with one side after the other. No run is on both sides of a comparison,
but comparisons share runs: a pool of 20 runs holds two equal comparisons without a run in common. So the 40 are fewer than 40
independent trials; `disjoint` says how many have no run in common.

Writes figures.json, figures.md and the reduced runs (runs.pickle.gz, which `--again` judges anew with the same version of the
code).
Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import diff_figures
from diff_comparisons import SIDE, Pool, judge
from diff_programs import PROGRAMS

from warpsight.analysis.diff import runs as reduced
from warpsight.analysis.diff.runs import ReducedRun
from warpsight.formats.importing import open_any

HERE = Path(__file__).parent
#: How much slower the planted kernel is, and the turns of a program's loop.
FACTORS, TURNS = {"opencl": 1.3, "cuda": 1.05}, {"opencl": 150, "cuda": 400}


def main() -> None:
    """Record, compare, report."""
    options = _options()
    began = time.monotonic()
    if options.again:
        with gzip.open(options.again, "rb") as file:
            recorded = pickle.load(file)
    else:
        recorded = _recorded(options)
    pools = {name: Pool(**runs) for name, runs in recorded["runs"].items()}
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(out / "runs.pickle.gz", "wb") as file:
        pickle.dump(recorded, file)
    with ProcessPoolExecutor() as workers:
        results = {name: judge(pool, name, options.comparisons, workers) for name, pool in pools.items()}
    figures = {**recorded["facts"], "seconds": round(time.monotonic() - began, 1), "comparisons": options.comparisons,
               "programs": {name: diff_figures.program(results[name], pools[name], name) for name in pools}}  # fmt: skip
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = diff_figures.report(figures)
    (out / "figures.md").write_text(text)
    print(text)
    sys.exit(
        0 if all(one["met"] for program in figures["programs"].values() for one in program["judged"]) else 1
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=FACTORS, default="opencl")
    parser.add_argument(
        "--rounds", type=int, default=40, help="Rounds of six runs at most; ten at least are needed."
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="Begin no round that would end after that."
    )
    parser.add_argument("--comparisons", type=int, default=40, help="Comparisons of each kind.")
    parser.add_argument("--out", required=True, help="Folder for the figures.")
    parser.add_argument("--again", help="Judge the runs of an earlier runs.pickle.gz instead of recording.")
    return parser.parse_args()


def _recorded(options: argparse.Namespace) -> dict[str, Any]:
    """Runs of all programs, reduced, and facts about how they were taken."""
    with tempfile.TemporaryDirectory() as folder:
        rounds = _record(options, Path(folder))
        if rounds < 2 * SIDE:
            raise SystemExit(f"{rounds} rounds were recorded in time; {2 * SIDE} are needed")
        wanted = [
            (name, kind, number)
            for name in PROGRAMS
            for kind in ("plain", "slow")
            for number in range(rounds)
        ]
        with ProcessPoolExecutor() as workers:
            read = list(workers.map(_reduce, (_place(Path(folder), *one) for one in wanted)))
    runs: dict[str, dict[str, list[ReducedRun]]] = {name: {"plain": [], "slow": []} for name in PROGRAMS}
    for (name, kind, _), run in zip(wanted, read, strict=True):
        runs[name][kind].append(run)
    facts = {
        "device": options.device, "machine": read[0].machine, "python": platform.python_version(), "cpus": os.cpu_count(),
        "began": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime((read[0].when or 0) / 1e9)), "rounds": rounds,
        "factor": FACTORS[options.device], "turns": TURNS[options.device],
    }  # fmt: skip
    return {"runs": runs, "facts": facts}


def _record(options: argparse.Namespace, folder: Path) -> int:
    """Record rounds until there are enough or time is up; how many there are."""
    began = time.monotonic()
    longest = 0.0
    for number in range(options.rounds):
        start = time.monotonic()
        if start - began + longest > options.seconds:
            return number
        kinds = ("plain", "slow") if number % 2 == 0 else ("slow", "plain")
        for name in PROGRAMS:
            for kind in kinds:
                _run(name, options.device, kind, _place(folder, name, kind, number))
        if number:  # the first round also compiles kernels
            longest = max(longest, time.monotonic() - start)
        print(f"round {number}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return int(options.rounds)


def _place(folder: Path, name: str, kind: str, number: int) -> Path:
    return folder / f"{name}-{kind}-{number:03}.warp"


def _run(name: str, device: str, kind: str, path: Path) -> None:
    factor = FACTORS[device] if kind == "slow" else 1.0
    record = [sys.executable, "-m", "warpsight", "record", "-q", "-o", str(path), "--"]
    program = [sys.executable, str(HERE / "diff_programs.py"), name, "--device", device, "--slower", str(factor),
               "--turns", str(TURNS[device])]  # fmt: skip
    done = subprocess.run([*record, *program], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")


def _reduce(path: Path) -> ReducedRun:
    with open_any(str(path)) as trace:
        return reduced.read(trace)


if __name__ == "__main__":
    main()

"""What recording costs, on a machine whose speed wanders: arms in turn inside one process, in blocks of seconds.

usage: overhead.py [WORKLOAD ...] [--rounds 8] [--seconds 3] [--arms bare,floor,walk,ws] [--for SECONDS]
                    [--set NAME=VALUE ...]

Arms: `bare`; `floor` (floor.cpp: CUPTI's records, thrown away); `walk` (the same, and a callback at each launch that walks the
Python frames); `ws` (`warpsight.record` with the settings given); `range` (this was started by `warpsight record --capture-range
profiler-api -- python overhead.py …`: recording that began before CUDA did). Every round runs each arm for `--seconds`, in
another order, after one step that does not count; none begins after the seconds of `--for`. A JAX program decides at its start
whether to emit ranges, so whole processes run in turn: bare, recorded, recorded, bare.

One JSON line a workload: for each arm its ratio to the bare block of the same round, median over the rounds, least and most, of

    total    time of all steps per step, with what is done now and then
    p25      lower quartile of the steps: least disturbed by other users of the host
    cpu      processor time of the whole process, and `thread`, of the main thread

`of_floor` are the same ratios to the floor's block, `after` is the last bare block to one before anything was loaded and
`stated` what :func:`warpsight.analysis.account.own_cost` says of each recording (a part of the bare time, like total - 1). It
fails when an arm lacks kernels, stacks of launches or has rows in `loss`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
ARMS = ("bare", "floor", "walk", "ws", "range")
Rows = list[tuple[float, float, float]]
FIGURES: dict[str, Callable[[Rows], float]] = {
    "total": lambda rows: statistics.fmean(row[0] for row in rows),
    "p25": lambda rows: sorted(row[0] for row in rows)[len(rows) // 4],
    "cpu": lambda rows: statistics.fmean(row[1] for row in rows),
    "thread": lambda rows: statistics.fmean(row[2] for row in rows),
}


def build_floor(folder: Path) -> Path:
    """Compile floor.cpp against the libcupti that the frameworks here use, else the toolkit's."""
    package = importlib.util.find_spec("nvidia")
    places = [Path(p) / "cu13" for p in (package.submodule_search_locations or [])] if package else []
    for root in [*places, Path("/usr/local/cuda/extras/CUPTI")]:
        found = sorted((*root.glob("lib*/libcupti.so.13*"), *root.glob("lib*/libcupti.so.12*")))
        if (root / "include/cupti.h").is_file() and found:
            break
    else:
        raise SystemExit("no cupti.h with a libcupti beside it")
    library = folder / "floor.so"
    command = ["c++", "-O2", "-std=c++17", "-shared", "-fPIC", "-I", HERE.parents[1] / "native", "-I", root / "include",
               "-I", "/usr/local/cuda/include", "-o", library, HERE / "floor.cpp", found[0],
               f"-Wl,-rpath,{found[0].parent}"]  # fmt: skip
    subprocess.run(command, check=True)
    return library


class Arms:
    """Runs blocks of a workload under each arm and keeps what they recorded."""

    def __init__(
        self, workload: Workload, seconds: float, settings: dict[str, Any], floor: Path | None
    ) -> None:
        self.workload, self.seconds, self.settings = workload, seconds, settings
        self.floor = ctypes.CDLL(str(floor)) if floor else None
        if self.floor:
            self.floor.floor_off.restype = ctypes.c_long
        self.place = Path(tempfile.mkdtemp())
        self.kernels: dict[str, list[float]] = {}
        self.stated: list[Any] = []
        self.began: list[float] = []
        self.ended: list[float] = []
        self.failures: list[str] = []

    def block(self) -> Rows:
        """Steps of one block; the first does not count."""
        self.workload.timed()
        end, rows = time.perf_counter() + self.seconds, []
        while time.perf_counter() < end:
            rows.append(self.workload.timed())
        return rows

    def run(self, arm: str) -> Rows:
        """One block under an arm."""
        if arm in ("floor", "walk"):
            return self._floor(arm)
        if arm == "ws":
            return self._recorded()
        if arm == "bare":
            return self.block()
        import torch

        torch.cuda.profiler.start()
        rows = self.block()
        torch.cuda.profiler.stop()
        return rows

    def _floor(self, arm: str) -> Rows:
        assert self.floor
        if self.floor.floor_on(int(arm == "walk")) != 0:
            raise SystemExit(f"CUPTI refused the arm {arm}")
        rows = self.block()
        self.kernels.setdefault(arm, []).append(self.floor.floor_off() / (len(rows) + 1))
        return rows

    def _recorded(self) -> Rows:
        import warpsight

        path = self.place / f"{len(self.began)}.warp"
        moments = [time.perf_counter()]
        with warpsight.record(path, **self.settings):
            moments.append(time.perf_counter())
            rows = self.block()
            moments.append(time.perf_counter())
        moments.append(time.perf_counter())
        self.began.append(moments[1] - moments[0])
        self.ended.append(moments[3] - moments[2])
        kernels = self._proven(path)
        self.kernels.setdefault("ws", []).append(kernels / (len(rows) + 1))
        shutil.rmtree(path)
        return rows

    def _proven(self, path: Path) -> int:
        """Kernels of a recording, which is to lack nothing."""
        import warpsight

        with warpsight.open(path) as trace:
            lost = trace.sql("SELECT cause FROM loss WHERE severity <> 'note'").fetchall()
            alone, launches = trace.sql("SELECT count(*) - count(stack), count(*) FROM launch").fetchall()[0]
            self.failures += [f"{path.name}: {cause}" for (cause,) in lost]
            if alone and "stacks" not in self.settings:
                self.failures.append(f"{path.name}: {alone} of {launches} launches have no stack")
            self.stated.append(stated(trace))
            return int(trace.count("kernel"))

    def complete(self) -> list[str]:
        """What the blocks lack, in words."""
        counts = [count for found in self.kernels.values() for count in found]
        if counts and (min(counts) == 0 or max(counts) > min(counts) * 1.001):
            self.failures.append(f"kernels of a step differ: {self.kernels}")
        return self.failures


def stated(trace: Any) -> float | None:
    """By which part of its bare time a recording says that it made the program longer."""
    from warpsight.analysis.account.own_cost import own_cost

    found = own_cost(trace)
    return round(found.longer, 4) if found else None


def ratios(rounds: list[dict[str, Rows]], arm: str, to: str) -> dict[str, list[float]]:
    """Of each figure the median, the least and the most over the rounds."""
    out = {}
    for name, figure in FIGURES.items():
        found = [figure(rows[arm]) / figure(rows[to]) for rows in rounds]
        out[name] = [round(value, 3) for value in (statistics.median(found), min(found), max(found))]
    return out


def report(name: str, rounds: list[dict[str, Rows]], more: dict[str, Any]) -> None:
    """One line of the figures of a workload."""
    arms = list(rounds[0])
    line: dict[str, Any] = {
        "workload": name,
        "rounds": len(rounds),
        "bare_ms": round(FIGURES["p25"](rounds[0]["bare"]) * 1e3, 2),
    }
    for arm in arms:
        if arm != "bare":
            line[arm] = ratios(rounds, arm, "bare")
    if "floor" in arms:
        line["of_floor"] = {arm: ratios(rounds, arm, "floor") for arm in arms if arm not in ("bare", "floor")}
    print(json.dumps(line | more), flush=True)


def in_turn(
    name: str, options: argparse.Namespace, settings: dict[str, Any], floor: Path | None
) -> list[str]:
    """Arms in turn inside this process; what failed."""
    workload = WORKLOADS[name]()
    arms = Arms(workload, options.seconds, settings, floor)
    for _ in range(6):
        workload.timed()
    before, rounds = arms.block(), []
    until = time.perf_counter() + options.limit
    for number in range(options.rounds):
        if rounds and time.perf_counter() > until:
            break
        first = number % len(options.arms)
        rounds.append({arm: arms.run(arm) for arm in options.arms[first:] + options.arms[:first]})
    p25 = FIGURES["p25"]
    more: dict[str, Any] = {"after": round(p25(rounds[-1]["bare"]) / p25(before), 3)}
    if arms.began:
        more |= {"start_s": round(statistics.median(arms.began), 3), "stop_s": round(statistics.median(arms.ended), 3),
                 "stated": arms.stated}  # fmt: skip
    report(name, rounds, more)
    shutil.rmtree(arms.place)
    return [f"{name}: {failure}" for failure in arms.complete()]


def processes(
    name: str, options: argparse.Namespace, settings: dict[str, Any], floor: Path | None
) -> list[str]:
    """Whole processes in turn: bare, each other arm twice, bare."""
    import warpsight

    program = [sys.executable, str(HERE / "workloads.py"), name, "--repetitions", "20"]
    place = Path(tempfile.mkdtemp())
    path = place / "run.warp"
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
    record = [sys.executable, "-m", "warpsight", "record", "-q", "-f", "-o", str(path), *flags, "--"]
    said, rounds, failures = [], [], []
    for _ in range(options.rounds):
        rows: dict[str, Rows] = {arm: [] for arm in options.arms if arm in ("bare", "floor", "ws")}
        others = [arm for arm in rows if arm != "bare"]
        for arm in ("bare", *others, *others[::-1], "bare"):
            environment = {**os.environ, **({"CUDA_INJECTION64_PATH": str(floor)} if arm == "floor" else {})}
            command = [*record, *program] if arm == "ws" else program
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            rows[arm] += json.loads(done.stdout.strip().splitlines()[-1])
        rounds.append(rows)
        if path.exists():
            with warpsight.open(path) as trace:
                failures += [f"{name}: {cause}" for (cause,) in trace.sql(
                    "SELECT cause FROM loss WHERE severity <> 'note'").fetchall()]  # fmt: skip
                said.append(stated(trace))
    report(name, rounds, {"stated": said})
    shutil.rmtree(place)
    return failures


def value_of(text: str) -> Any:
    """A setting: JSON where it is that, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), choices=WORKLOADS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--for", dest="limit", type=float, default=float("inf"))
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["bare", "floor", "walk", "ws"])
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of warpsight.record"
    )
    options = parser.parse_args()
    recorded = "WARPSIGHT_SOCKET" in os.environ
    if "bare" not in options.arms or not set(options.arms) <= set(ARMS):
        parser.error(f"--arms: bare, and any of {', '.join(ARMS[1:])}")
    if ("range" in options.arms) != recorded:
        parser.error("arm range, and no other, is for a process that `warpsight record` has started")
    settings = {name: value_of(text) for name, _, text in (item.partition("=") for item in options.set)}
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        floor = build_floor(Path(folder)) if {"floor", "walk"} & set(options.arms) else None
        for name in options.workloads:
            failures += (processes if name == "jax" else in_turn)(name, options, settings, floor)
    for failure in failures:
        print("FAILED:", failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

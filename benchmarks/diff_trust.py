"""How far `warpsight diff` can be trusted: false alarms on equal programs, and planted slowdowns that it finds.

    python benchmarks/diff_trust.py --device opencl --rounds 12 --out build/diff-trust
    python benchmarks/diff_trust.py --device cuda --seconds 280 --out build/diff-trust-cuda

Records the three programs of diff_programs.py in rounds: each program once as it is and once with one kernel slower, the first of
the two in turn. Then draws comparisons of five runs against five from the recorded runs:

* equal: ten runs of the same version. Calling anything different is a false alarm; at most 2 of 40 may be.
* planted: five runs as the program is against five of the slower version, from the same rounds. The slower kernel has to be called
  slower, or grown beside the rest; in 36 of 40 at least.

Both are drawn with sides taken in turn (A B B A …) and with one side after the other. No run is on both sides of a comparison, but
comparisons share runs: a pool of 20 runs holds two equal comparisons without a run in common. So the 40 are fewer than 40
independent trials, and `disjoint` says how many there are at least.

Writes figures.json, figures.md and the reduced runs (runs.pickle.gz, which `--again` judges anew with the same version of the code).
Exits with 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pickle
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from diff_programs import PLANTED, PROGRAMS

from warpsight.analysis.diff import runs as reduced
from warpsight.analysis.diff.answer import CALLED
from warpsight.analysis.diff.compare import compare_runs
from warpsight.analysis.diff.runs import Run
from warpsight.formats.importing import open_any

HERE = Path(__file__).parent
SIDE = 5
#: How much slower the planted kernel is, and the turns of a program's loop.
FACTORS, TURNS = {"opencl": 1.3, "cuda": 1.05}, {"opencl": 150, "cuda": 400}
#: Of 40 comparisons: false alarms allowed at most, planted slowdowns found at least.
ALARMS, FOUND = 2 / 40, 36 / 40
#: Tables whose rows count as called; `sequence` and `runs` have no verdicts.
TABLES = ("summary", "kernel", "role", "stack", "range", "operator", "tree")


@dataclass
class Pool:
    """The runs of one program in the order they were taken; `slow[i]` was taken beside `plain[i]`."""

    plain: list[Run] = field(default_factory=list)
    slow: list[Run] = field(default_factory=list)


@dataclass(frozen=True)
class Draw:
    """A comparison: what kind it is, and its two sides."""

    kind: str
    in_turn: bool
    before: list[Run]
    after: list[Run]


@dataclass(frozen=True)
class Outcome:
    """What a comparison said.

    Attributes:
        different: Anything was called different.
        found: The planted kernel was called slower, or grown beside the rest.
        blamed: Kernels other than the planted one that were called.
        called: Called rows, as table: name (verdict).
    """

    kind: str
    in_turn: bool
    different: bool
    found: bool
    blamed: int
    verdict: str
    headline: str
    called: tuple[str, ...]


def main() -> None:
    """Record, compare, report."""
    options = _options()
    began = time.monotonic()
    if options.again:
        with gzip.open(options.again, "rb") as file:
            recorded = pickle.load(file)
    else:
        recorded = _recorded(options)
    pools: dict[str, Pool] = recorded["pools"]
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with gzip.open(out / "runs.pickle.gz", "wb") as file:
        pickle.dump(recorded, file)
    with ProcessPoolExecutor() as workers:
        results = {name: _judged(pool, name, options.comparisons, workers) for name, pool in pools.items()}
    figures = {**recorded["facts"], "seconds": round(time.monotonic() - began, 1), "comparisons": options.comparisons,
               "programs": {name: _figures(results[name], pools[name], name) for name in pools}}  # fmt: skip
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    text = _report(figures)
    (out / "figures.md").write_text(text)
    print(text)
    sys.exit(0 if all(one["met"] for program in figures["programs"].values() for one in program["judged"]) else 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=FACTORS, default="opencl")
    parser.add_argument("--rounds", type=int, default=40, help="Rounds of six runs at most; ten at least are needed.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="Begin no round that would end after that.")
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
        wanted = [(name, kind, number) for name in PROGRAMS for kind in ("plain", "slow") for number in range(rounds)]
        with ProcessPoolExecutor() as workers:
            read = list(workers.map(_reduce, (_place(Path(folder), *one) for one in wanted)))
    pools = {name: Pool() for name in PROGRAMS}
    for (name, kind, _), run in zip(wanted, read, strict=True):
        getattr(pools[name], kind).append(run)
    facts = {
        "device": options.device, "machine": read[0].machine, "python": platform.python_version(), "cpus": os.cpu_count(),
        "began": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime((read[0].when or 0) / 1e9)), "rounds": rounds,
        "factor": FACTORS[options.device], "turns": TURNS[options.device],
    }  # fmt: skip
    return {"pools": pools, "facts": facts}


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


def _reduce(path: Path) -> Run:
    with open_any(str(path)) as trace:
        return reduced.read(trace)


def _judged(pool: Pool, name: str, count: int, workers: ProcessPoolExecutor) -> list[Outcome]:
    draws = [draw for make in (_equal, _planted) for in_turn in (True, False) for draw in _distinct(make, pool, in_turn, count)]
    return list(workers.map(partial(_outcome, PLANTED[name]), draws, chunksize=4))


def _distinct(make: Callable[[random.Random, Pool, bool, int], Draw], pool: Pool, in_turn: bool, count: int) -> list[Draw]:
    """So many different comparisons of a kind."""
    chance = random.Random(f"{make.__name__} {in_turn}")
    seen: set[tuple[str, ...]] = set()
    out: list[Draw] = []
    for _ in range(1000 * count):
        draw = make(chance, pool, in_turn, len(out))
        key = tuple(run.path for run in (*draw.before, *draw.after))
        if key not in seen:
            seen.add(key)
            out.append(draw)
        if len(out) == count:
            return out
    raise SystemExit(f"{len(pool.plain)} rounds are too few for {count} different comparisons")


def _equal(chance: random.Random, pool: Pool, in_turn: bool, number: int) -> Draw:
    """Ten runs of one version, the slower one in every other comparison; neighbors on different sides, or the first five first."""
    runs = pool.slow if number % 2 else pool.plain
    chosen = [runs[i] for i in sorted(chance.sample(range(len(runs)), 2 * SIDE))]
    if not in_turn:
        return Draw("equal", False, chosen[:SIDE], chosen[SIDE:])
    sides: tuple[list[Run], list[Run]] = [], []
    for first, second in zip(chosen[::2], chosen[1::2], strict=True):
        side = chance.randrange(2)
        sides[side].append(first)
        sides[1 - side].append(second)
    return Draw("equal", True, *sides)


def _planted(chance: random.Random, pool: Pool, in_turn: bool, number: int) -> Draw:
    """Both versions of five rounds; or one version of five rounds and the other of five later ones, each first in turn."""
    places = sorted(chance.sample(range(len(pool.plain)), SIDE if in_turn else 2 * SIDE))
    first, second = (places, places) if in_turn else (places[:SIDE], places[SIDE:])
    if not in_turn and number % 2:
        first, second = second, first
    return Draw("planted", in_turn, [pool.plain[i] for i in first], [pool.slow[i] for i in second])


def _outcome(planted: str, draw: Draw) -> Outcome:
    found = compare_runs(draw.before, draw.after)
    if found.in_turn != draw.in_turn:
        raise SystemExit("the runs do not say in which order they were taken")
    tables = {name: found.result.tables[name].to_pylist() for name in TABLES if name in found.result.tables}
    called = [(name, row) for name, rows in tables.items() for row in rows if row["verdict"] in CALLED]
    kernels = {row["name"]: row["verdict"] for name, row in called if name == "kernel"}
    others = [name for name in kernels if name != planted]
    return Outcome(
        draw.kind, draw.in_turn, found.verdict != "not shown" or bool(called), kernels.get(planted) in ("slower", "grew"),
        len(others), found.verdict, found.headline, tuple(f"{name}: {row['name']} ({row['verdict']})" for name, row in called),
    )  # fmt: skip


def _figures(outcomes: Sequence[Outcome], pool: Pool, name: str) -> dict[str, Any]:
    judged = []
    for kind in ("equal", "planted"):
        for in_turn in (True, False):
            mine = [one for one in outcomes if (one.kind, one.in_turn) == (kind, in_turn)]
            counted = [one for one in mine if (one.different if kind == "equal" else one.found)]
            wrong = [one for one in mine if (one in counted) == (kind == "equal")]
            share = len(counted) / len(mine)
            needed = 2 * SIDE if kind == "equal" or not in_turn else SIDE
            rounds = len(pool.plain) * (2 if kind == "equal" else 1)
            judged.append({
                "kind": kind, "in_turn": in_turn, "counted": len(counted), "of": len(mine), "disjoint": rounds // needed,
                "headlines": sum(one.verdict == "slower" for one in mine), "others_blamed": sum(one.blamed > 0 for one in mine),
                "met": share <= ALARMS if kind == "equal" else share >= FOUND, "wrong": [asdict(one) for one in wrong],
            })  # fmt: skip
    return {"planted": PLANTED[name], "judged": judged, "runs": [
        {"kind": kind, "when": run.when, "iteration_ns": _iteration(run), "kernels_ns": _kernels(run)}
        for kind, side in (("plain", pool.plain), ("slow", pool.slow)) for run in side
    ]}  # fmt: skip


def _iteration(run: Run) -> float:
    return next(iter((run.iteration or run.recording).measures.values()))


def _kernels(run: Run) -> dict[str, float]:
    """Device time per iteration of each kernel, ns."""
    out: dict[str, float] = {}
    for label, time_ns in zip(run.groups["kernel"].tolist(), (run.iteration or run.recording).time.tolist(), strict=True):
        text = run.labels[label][1]
        out[text] = out.get(text, 0.0) + time_ns
    return out


def _report(figures: dict[str, Any]) -> str:
    lines = [
        f"{figures['machine'] or figures['device']}, {figures['began']}: {figures['rounds']} runs of each version of each program, "
        f"the planted kernel {figures['factor'] - 1:.0%} slower; {figures['comparisons']} comparisons of five runs against five "
        "of each kind, drawn from these runs",
        "",
        "| program | sides taken | equal: called different | planted: found | of these, the iteration called slower | "
        "another kernel called too |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, program in figures["programs"].items():
        for in_turn in (True, False):
            equal, planted = (one for one in program["judged"] if one["in_turn"] == in_turn)
            order = "in turn" if in_turn else "one after the other"
            lines.append(
                f"| {name} | {order} | {equal['counted']} of {equal['of']} | {planted['counted']} of {planted['of']} | "
                f"{planted['headlines']} | {planted['others_blamed']} |"
            )
    lines += ["", *(_spread(name, program) for name, program in figures["programs"].items())]
    disjoint = figures["programs"]["stencil"]["judged"]
    lines += ["", "Comparisons share runs. Without a run in common there are " + ", ".join(
        f"{one['disjoint']} {one['kind']} ({'in turn' if one['in_turn'] else 'one after the other'})" for one in disjoint
    ) + f". {figures['seconds']:.0f} s."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _spread(name: str, program: dict[str, Any]) -> str:
    """How much runs of one version differ, and what the planting did."""
    import numpy as np

    runs = {kind: [run for run in program["runs"] if run["kind"] == kind] for kind in ("plain", "slow")}
    planted = {kind: np.array([run["kernels_ns"][program["planted"]] for run in mine]) for kind, mine in runs.items()}
    whole = np.array([run["iteration_ns"] for run in runs["plain"]])
    change = np.median(planted["slow"]) / np.median(planted["plain"]) - 1
    return (
        f"* {name}: an iteration varies by {whole.std(ddof=1) / whole.mean():.1%} from run to run (standard deviation), "
        f"{program['planted']} by {planted['plain'].std(ddof=1) / planted['plain'].mean():.1%}; planted in it: {change:+.1%}"
    )


if __name__ == "__main__":
    main()

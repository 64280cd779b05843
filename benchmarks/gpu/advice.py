"""How near `sass why` comes: the time that each advice is estimated to save, beside what it saves when it is followed.

usage: advice.py [FOLDER [SET…]]

Compiles the pairs of tests/gpu/hot_lines, records the slow kernels with --pc-sampling, times both of each pair and prints a line
for each. FOLDER keeps recordings and times; where it has them already, no GPU is needed. Beside the estimates stand those of GPA
(arXiv 2009.04061) for the same blamed samples, and a constant guess: the median of what was saved.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warpsight.model import open as open_trace
from warpsight.sass import recorded
from warpsight.sass.why.advice.finding import Advice
from warpsight.sass.why.answer import Answer, why

SOURCES = Path(__file__).parents[2] / "tests" / "gpu" / "hot_lines"
SETS = ("pairs_a", "pairs_b", "pairs_c", "pairs_d", "pairs_e")
#: The advice that the repaired kernel of each pair follows.
FOLLOWED = {
    "uncoalesced": {"coalesce"}, "bank_conflict": {"bank-conflicts"}, "long_scoreboard": {"unroll", "chase"},
    "barrier_imbalance": {"balance"}, "spill": {"registers"}, "division": {"division", "strength", "fast-math"},
    "divergent_branch": {"divergence"}, "low_occupancy": {"occupancy"}, "tail": {"balance-blocks", "tail", "blocks"},
    "serial_atomics": {"atomics"},
}  # fmt: skip
NEAR = 0.25


@dataclass(frozen=True)
class Compared:
    """One pair: the share of time that following the advice saved, and estimates of it."""

    name: str
    saved: float
    estimated: float | None
    gpa: float | None
    rank: int
    line: bool
    first: str
    single: float | None


def compared(name: str, folder: Path) -> Iterator[Compared]:
    """The pairs of one set."""
    times = {}
    for text in (folder / f"{name}.times").read_text().splitlines():
        if text and not text.startswith("#"):
            pair, slow, fast, _ = text.split()
            times[pair] = 1 - float(fast) / float(slow)
    source = (SOURCES / f"{name}.cu").read_text().splitlines()
    with open_trace(folder / f"{name}.warp") as trace:
        kernels = {
            one.short_name.split("::")[-1]: one
            for one in recorded.sampled_kernels(trace)
            if one.code is not None
        }
        for pair, saved in times.items():
            one = kernels.get(pair)
            if one is None or one.code is None:
                print(f"{name[-1]} {pair}: no samples")
                continue
            answer = why(one.code, one.samples, recorded.launch_of(trace, one.name, one.samples.total))
            names = [advice.name for advice in answer.advice]
            rank = next((at for at, found in enumerate(names) if found in FOLLOWED[pair]), -1)
            chosen = answer.advice[rank] if rank >= 0 else None
            yield Compared(
                f"{name[-1]} {pair}", saved, chosen.saved if chosen else None, _gpa(answer, chosen) if chosen else None,
                rank + 1, _planted(answer, source), names[0] if names else "", answer.blamed.single_after,
            )  # fmt: skip


def _planted(answer: Answer, source: list[str]) -> bool:
    """Whether a line marked `planted` is among those of the instruction that most stalls are blamed on."""
    marked = {at for at, text in enumerate(source, 1) if text.endswith("// planted")}
    (_, parts), *_ = answer.lines()
    return any(frame.line in marked for part in parts for at in (part.cause, part.stalled)
               for frame in answer.code.frames(at))  # fmt: skip


def _gpa(answer: Answer, advice: Advice) -> float:
    """The share of time that GPA's estimator for the same kind of change gives."""
    total, issued = answer.samples.total, answer.samples.issued
    if advice.name in ("occupancy", "balance-blocks", "tail", "blocks"):
        return advice.saved  # GPA's PARALLEL and PARALLEL_LAT, which the estimates are
    if advice.name in ("unroll", "chase", "reorder"):
        return min(issued, advice.samples) / total
    return min(advice.samples, total) / total


def _measure(name: str, folder: Path) -> None:
    program = folder / name
    subprocess.run(["nvcc", "-std=c++17", "-O3", "-lineinfo", "-arch=native", str(SOURCES / f"{name}.cu"), "-o", str(program)],
                   check=True)  # fmt: skip
    subprocess.run([sys.executable, "-m", "warpsight", "record", "-q", "--pc-sampling", "on", "-o", str(folder / f"{name}.warp"),
                    "--", str(program), "sample", "50"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    done = subprocess.run([str(program), "time"], check=True, capture_output=True, text=True)
    (folder / f"{name}.times").write_text(done.stdout)


def main() -> None:
    """Measure what the folder lacks, and print."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else made)
        sets = sys.argv[2:] or SETS
        for name in sets:
            if not (folder / f"{name}.times").exists():
                _measure(name, folder)
        rows = [row for name in sets for row in compared(name, folder)]
    guess = statistics.median(row.saved for row in rows)
    print(f"{'pair':22}{'saved':>8}{'advice':>8}{'GPA':>8}{'guess':>8}  rank line single first")
    for row in rows:
        columns = "".join(
            "       -" if value is None else f"{value:8.1%}"
            for value in (row.saved, row.estimated, row.gpa, guess)
        )
        single = "-" if row.single is None else f"{row.single:.2f}"
        print(
            f"{row.name:22}{columns}  {row.rank or '-':>4} {'yes' if row.line else 'no':>4} {single:>6} {row.first}"
        )
    for title, values in (("advice", [row.estimated for row in rows]), ("GPA", [row.gpa for row in rows]),
                          ("guess", [guess] * len(rows))):  # fmt: skip
        near = sum(
            value is not None and abs(row.saved - value) <= NEAR * abs(value)
            for row, value in zip(rows, values, strict=True)
        )
        print(f"{title}: {near} of {len(rows)} within {NEAR:.0%} of the estimate")


if __name__ == "__main__":
    main()

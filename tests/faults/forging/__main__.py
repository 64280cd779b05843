"""`python -m tests.faults.forging [--capsules N] [--scripts N] [--seed N] [--program warpsight-replay]`.

Forges capsules and scripts by the thousand. Each must be refused in one line, or be as harmless as one that somebody recorded:
what is ready to run then runs on the stand-in for the driver.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from tests.faults.forging import forge, scripts, trying
from tests.standin import replaying
from warpsight.replay import execution

GOLDEN = Path(__file__).parents[2] / "golden" / "capsules"


def main() -> int:
    """Play the seeds, print each that went wrong, and a line of totals; exit code 1 when one did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capsules", type=int, default=5000)
    parser.add_argument("--scripts", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1, help="of the first")
    parser.add_argument("--program", type=Path, help="another build of warpsight-replay")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forging-") as scratch:
        place = Path(scratch)
        standin = replaying.build(place / "standin")
        program = asked.program or execution.program()
        wrong = capsules(range(asked.seed, asked.seed + asked.capsules), place, standin, program)
        wrong += scripts.soak(range(asked.seed, asked.seed + asked.scripts), place, standin, program)
    return 1 if wrong else 0


def wholes(place: Path) -> list[Path]:
    """The capsules that are forged: recorded ones, and one whose kernels the stand-in knows."""
    known = place / "known.capsule"
    if not known.exists():
        scripts.everything(known)
    return [*sorted(GOLDEN.glob("*.capsule")), known, known]


def capsules(seeds: range, place: Path, standin: Path, program: Path) -> int:
    """Forge the capsules of these seeds; returns how many did not end as they must."""
    trying.preload()
    from_these = wholes(place)
    ends: Counter[str] = Counter()
    peak = 0
    for seed in seeds:
        folder = place / f"seed-{seed}"
        folder.mkdir()
        whole = Random(~seed).choice(from_these)
        way, rehashed = forge.forged(seed, whole, folder / "x.capsule")
        found = trying.attempt(folder / "x.capsule", folder, seed % 256 if rehashed else 1)
        fault = found.fault
        if found.ready and not rehashed:
            fault = "a damaged capsule was taken"
        if found.ready and not fault:
            fault = trying.execute(program, folder, standin)
        peak = max(peak, found.peak)
        ends["fault" if fault else "refused" if found.refused else "ran"] += 1
        if fault:
            print(f"seed {seed}: {whole.name} {way}: {fault[-2500:]}", flush=True)
        shutil.rmtree(folder)
    print(f"capsules: {sum(ends.values())}, {dict(ends)}, at most {peak >> 20} MiB", flush=True)
    return ends["fault"]


if __name__ == "__main__":
    sys.exit(main())

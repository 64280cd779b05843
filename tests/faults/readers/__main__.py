"""`make soak-readers`: damage files by the thousand, read each with one verb, and say what did not end as it must.

    python -m tests.faults.readers --inputs 20000 [--seed 1] [--only kineto] [--keep build/faults]

An input is named by its seed: `--seed N --inputs 1 -v` runs it again and shows what the verb said.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults.readers import corpus, damage, verbs


def soak(seeds: range, only: str, keep: Path | None, seconds: float, verbose: bool = False) -> int:
    """Read the inputs of these seeds; returns how many did not end as they must, and prints each of them once a kind."""
    verbs.preload()
    wholes = corpus.files()
    kinds: Counter[str] = Counter()
    done, peak, slowest, end = 0, 0, 0.0, time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            break
        whole, how, data = damage.damaged(seed, wholes, only)
        scratch = Path(tempfile.mkdtemp(prefix="warpsight-faults-"))
        try:
            path = scratch / whole.suffix
            whole.write(data, path)
            found = verbs.run(verbs.chosen(seed, whole), path, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        done, peak, slowest = done + 1, max(peak, found.peak), max(slowest, found.seconds)
        if verbose:
            print(
                seed,
                whole.name,
                how,
                found.arguments,
                found.code,
                f"{found.seconds:.1f} s",
                found.err,
                sep="\n  ",
            )
        if found.fault:
            kinds[found.fault[:100]] += 1
            print(
                f"seed {seed}: {whole.name} {how} {' '.join(found.arguments)}: {found.fault[:300]}",
                flush=True,
            )
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{seed}.{whole.suffix}").write_bytes(data)
        if done % 1000 == 0:
            print(
                f"{done} inputs, {sum(kinds.values())} faults, at most {peak >> 20} MiB",
                file=sys.stderr,
                flush=True,
            )
    print(f"{done} inputs: {sum(kinds.values())} faults; at most {peak >> 20} MiB and {slowest:.0f} s")
    return sum(kinds.values())


def main() -> None:
    """Run from the command line; exit code 1 when something did not end as it must."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first input")
    parser.add_argument("--only", default="", help="files whose names hold this text")
    parser.add_argument("--keep", type=Path, help="folder for the inputs that failed")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--small", action="store_true", help="bombs of some hundred megabytes only")
    parser.add_argument("-v", "--verbose", action="store_true")
    given = parser.parse_args()
    if not verbs.ENVIRONMENT.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **verbs.ENVIRONMENT})
    if given.small:
        damage._BOMB = (2, 4, 8)
    seeds = range(given.seed, given.seed + given.inputs)
    sys.exit(1 if soak(seeds, given.only, given.keep, given.seconds, given.verbose) else 0)


if __name__ == "__main__":
    main()

"""`python -m tests.faults [SCENARIOS] [--seed N] [--jobs N]`: random kills for a long time; `make soak`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults import kills
from tests.integration import standin_programs
from warpsight import _native


def main() -> int:
    """Play the scenarios, print each that went wrong, and a line of totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="?", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    library = _native.library_path()
    assert library is not None, "no compiled recorder"
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        place = Path(scratch)
        standin = standin_programs.build(library, place / "standin").folder / "program"

        def play(seed: int) -> kills.Account:
            folder = place / str(seed)
            folder.mkdir()
            try:
                account = kills.run(kills.Kill.of(seed), folder, library, standin)
            except Exception as error:
                account = kills.Account(kills.Kill.of(seed), [f"{type(error).__name__}: {error}"])
            for line in account.wrong:
                print(f"seed {seed} {account.kill}: {line}", flush=True)
            return account

        with ThreadPoolExecutor(asked.jobs) as pool:
            accounts = list(pool.map(play, range(asked.seed, asked.seed + asked.scenarios)))
    failed = [account for account in accounts if account.wrong]
    victims = Counter(part for account in accounts for part in account.kill.victims)
    print(f"{len(accounts)} scenarios, {sum(victims.values())} kills ({dict(victims)}), "
          f"{sum(a.announced for a in accounts):,} rows announced, {sum(a.kept for a in accounts):,} kept, "
          f"{sum(a.lost for a in accounts):,} counted as lost")  # fmt: skip
    print(f"{len(accounts) - len(failed)} passed, {len(failed)} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

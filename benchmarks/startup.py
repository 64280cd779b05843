"""How long the command line takes to answer when there is nothing to compute.

    PYTHONPATH=src python benchmarks/startup.py

The rounds go through all commands in turn, so that what disturbs the machine meets all of them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

MAIN = "import sys; from warpsight.ui.cli.app import main; sys.exit(main())"
COMMANDS = {
    "python -c pass": ["pass"],
    **{
        f"warpsight {' '.join(words)}": [MAIN, *words]
        for words in (
            ["--help"],
            ["--version"],
            *([v, "--help"] for v in ("record", "info", "stats", "core")),
        )
    },
}


def main(rounds: int = 21) -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, words in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", *words], stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - begin)
    for name, taken in times.items():
        print(f"{name:26} median {statistics.median(taken):.3f} s, best {min(taken):.3f} s")


if __name__ == "__main__":
    main()

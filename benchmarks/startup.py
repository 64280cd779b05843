"""How long the command line takes to answer when there is nothing to compute.

    PYTHONPATH=src python benchmarks/startup.py

`warpsight --help` 0.08–0.09 s on two busy cores, where `python -c pass` takes 0.02–0.05 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def median(*command: str, repeat: int = 11) -> float:
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    print(f"python -c pass     {median(sys.executable, '-c', 'pass'):.3f} s")
    for arguments in (["--help"], ["--version"], ["stats", "--help"]):
        print(
            f"warpsight {' '.join(arguments):14} {median(sys.executable, '-m', 'warpsight.cli', *arguments):.3f} s"
        )


if __name__ == "__main__":
    main()

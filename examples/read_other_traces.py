"""Write a trace as torch.profiler would, read it back, and ask both the same question."""

import subprocess
import sys
from pathlib import Path

from devices import arguments

DEVICES = ("cuda", "opencl")
QUESTION = "SELECT name, count(*) AS n, sum(duration) AS ns FROM kernel GROUP BY name ORDER BY name"


def warpsight(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path, kineto = options.output / "steps.warp", options.output / "steps.pt.trace.json"
    program = [sys.executable, str(Path(__file__).with_name("steps.py")), "--device", options.device]
    warpsight("record", "-o", str(path), "--", *program)
    warpsight("export", str(path), "--to", "kineto", "-o", str(kineto))
    ours, theirs = warpsight("query", str(path), QUESTION), warpsight("query", str(kineto), QUESTION)
    print(theirs)
    if ours != theirs:
        sys.exit(f"the same question was answered differently:\n{ours}")


if __name__ == "__main__":
    main()

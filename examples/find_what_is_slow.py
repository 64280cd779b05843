"""Record a program, then let `analyze`, `flame` and `report` say what it did."""

import subprocess
import sys
from pathlib import Path

from devices import arguments

DEVICES = ("cuda", "opencl")


def warpsight(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "warpsight.ui.cli", *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "steps.warp"
    program = [sys.executable, str(Path(__file__).with_name("steps.py")), "--device", options.device]
    warpsight("record", "-o", str(path), "--", *program)
    print(warpsight("analyze", str(path)))
    folded, page = options.output / "steps.folded", options.output / "steps.html"
    warpsight("flame", str(path), "-o", str(folded))
    warpsight("report", str(path), "-o", str(page))
    heaviest = max(folded.read_text().splitlines(), key=lambda line: int(line.rpartition(" ")[2]))
    print(f"heaviest stack: {heaviest}\n{page.name}: {page.stat().st_size} bytes")
    if "steps.py" not in folded.read_text() or "<html" not in page.read_text()[:200]:
        sys.exit("the flame graph lacks the program, or the report is no page")


if __name__ == "__main__":
    main()

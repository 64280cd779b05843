"""Record a program and write the trace for https://ui.perfetto.dev and chrome://tracing."""

import json
import subprocess
import sys
from pathlib import Path

from devices import arguments

DEVICES = ("cuda", "opencl")


def warpsight(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "warpsight.ui.cli", *arguments], check=True)


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "steps.warp"
    program = [sys.executable, str(Path(__file__).with_name("steps.py")), "--device", options.device]
    warpsight("record", "-o", str(path), "--", *program)
    perfetto, chrome = options.output / "steps.pftrace", options.output / "steps.json"
    warpsight("export", str(path), "--to", "perfetto", "-o", str(perfetto))
    warpsight("export", str(path), "--to", "chrome", "-o", str(chrome))
    events = json.loads(chrome.read_text())["traceEvents"]
    print(f"{perfetto.name}: {perfetto.stat().st_size} bytes; {chrome.name}: {len(events)} events")
    if perfetto.stat().st_size == 0 or len(events) < 200:
        sys.exit("the exported traces lack events")


if __name__ == "__main__":
    main()

"""Run the examples: `python examples/run.py --list`, `--test`, `--test --all-devices`, or one by its name.

An example is a script in this folder whose docstring begins with its one-line description and which names the kinds of
device it can use in `DEVICES`, best first. It takes `--device` and `--output FOLDER`, exits 0 when what it shows was
really there, and 77, with the reason as its last line, where something it needs is missing.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from devices import DEVICES, why_not

HERE = Path(__file__).resolve().parent
SKIPPED = 77
LIMIT_S = 120


@dataclass(frozen=True)
class Example:
    """One script, what it shows, and the devices it runs on, best first."""

    path: Path
    summary: str
    devices: tuple[str, ...]


def examples() -> list[Example]:
    """Every script of this folder that declares `DEVICES`; read without running any."""
    found = []
    for path in sorted(HERE.glob("*.py")):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "DEVICES" for t in node.targets
            ):
                summary = (ast.get_docstring(tree) or "").splitlines()[0]
                if path.name not in ("devices.py", "run.py"):
                    found.append(Example(path, summary, tuple(ast.literal_eval(node.value))))
    return found


def run(example: Example, device: str) -> tuple[str, str]:
    """Run one example on one device: ("passed" | "failed" | "skipped", reason or output)."""
    reason = why_not(device)
    if reason:
        return "skipped", reason
    with tempfile.TemporaryDirectory(prefix="warpsight-example-") as folder:
        command = [sys.executable, str(example.path), "--device", device, "--output", folder]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "failed", f"did not end within {LIMIT_S} s"
    output = (done.stdout + done.stderr).rstrip()
    if done.returncode == SKIPPED:
        return "skipped", output.splitlines()[-1] if output else "no reason given"
    return ("passed", "") if done.returncode == 0 else ("failed", f"exit code {done.returncode}\n{output}")


def chosen(example: Example, device: str | None, all_devices: bool) -> list[str]:
    """Devices to run this example on: the asked one, all it can use, or the best that is here."""
    if device:
        return [device] if device in example.devices else []
    if all_devices:
        return list(example.devices)
    return [next((d for d in example.devices if not why_not(d)), example.devices[0])]


def test(selected: list[Example], device: str | None, all_devices: bool) -> int:
    """Run the examples, one line each, then the totals; returns the exit code."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for example in selected:
        for kind in chosen(example, device, all_devices):
            result, detail = run(example, kind)
            counts[result] += 1
            print(f"{example.path.stem:<24} {kind:<8} {result}{': ' + detail if detail else ''}", flush=True)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    if not any(counts.values()):
        print(f"none of these examples can use {device}; --list shows what each can", file=sys.stderr)
    return 1 if counts["failed"] or not any(counts.values()) else 0


def main() -> None:
    """Parse the arguments and do the one thing asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="examples to run; all when none is named")
    parser.add_argument("--list", action="store_true", help="list the examples and their devices")
    parser.add_argument("--test", action="store_true", help="run them on the best device here")
    parser.add_argument("--device", choices=DEVICES, help="run only on this kind of device")
    parser.add_argument(
        "--all-devices", action="store_true", help="run on every kind of device an example can use"
    )
    options = parser.parse_args()
    selected = [e for e in examples() if not options.names or e.path.stem in options.names]
    unknown = set(options.names) - {e.path.stem for e in selected}
    if unknown:
        parser.error(f"no such example: {', '.join(sorted(unknown))} (--list shows them)")
    if options.list:
        for example in selected:
            print(f"{example.path.stem:<24} {', '.join(example.devices):<20} {example.summary}")
        return
    if not (options.test or options.names):
        parser.error("say --list, --test or the name of an example")
    sys.exit(test(selected, options.device, options.all_devices))


if __name__ == "__main__":
    main()

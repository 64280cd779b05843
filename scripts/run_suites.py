"""Run every check and every test to its end, then print one table and one line of totals: `make test`.

Runs inside .venv, against the installed package. Counts of tests come from pytest's JUnit files; any other
check counts as one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
REPORTS = ROOT / "build" / "reports"
CPP_SUFFIXES = (".cpp", ".h", ".c", ".cu", ".cuh")


@dataclass(frozen=True)
class Counts:
    """What one suite found."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Suite:
    """A command, how to read its counts, and the longest it may take."""

    name: str
    group: str
    command: Callable[[], list[str]]
    counts: Callable[[int, str], Counts]
    limit_s: int = 300


def _one(code: int, _output: str) -> Counts:
    return Counts(passed=1) if code == 0 else Counts(failed=1)


def _last_line(code: int, output: str) -> Counts:
    """Totals that a runner of ours printed: `N passed, N failed, N skipped`."""
    found = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)
    counts = Counts(*map(int, found[-1])) if found else Counts()
    return Counts(counts.passed, max(counts.failed, 1), counts.skipped) if code else counts


def _junit(name: str) -> Callable[[int, str], Counts]:
    def read(code: int, _output: str) -> Counts:
        report = REPORTS / f"{name}.xml"
        passed = failed = skipped = 0
        if report.exists():
            for suite in ElementTree.parse(report).getroot().iter("testsuite"):
                bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
                left_out = int(suite.get("skipped", 0))
                passed += int(suite.get("tests", 0)) - bad - left_out
                failed += bad
                skipped += left_out
        # A crash, a time-out or an empty collection is a failure even when the report says nothing of it.
        return Counts(passed, max(failed, 1) if code else failed, skipped)

    return read


def _native_sources() -> list[str]:
    folders = ("native", "tests", "benchmarks", "examples")
    return sorted(
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in CPP_SUFFIXES
    )


def _pytest(name: str, processes: int, limit_s: int) -> Suite:
    def command() -> list[str]:
        arguments = [
            sys.executable,
            "-m",
            "pytest",
            f"tests/{name}",
            "-q",
            f"--junitxml={REPORTS / name}.xml",
        ]
        return arguments + (["-n", str(processes), "--dist", "loadfile"] if processes else [])

    return Suite(f"tests/{name}", "tests", command, _junit(name), limit_s)


def _tool(name: str, *arguments: str) -> Suite:
    return Suite(
        " ".join((name, *arguments[:1])).strip(), "static", lambda: [str(BIN / name), *arguments], _one
    )


SUITES = (
    Suite(
        "build -Wall -Wextra -Werror",
        "build",
        lambda: [sys.executable, "scripts/set_up.py", "test", "--build-only"],
        _one,
        400,
    ),
    _tool("ruff", "check", "--output-format", "concise", "."),
    _tool("ruff", "format", "--check", "."),
    _tool("mypy", "--strict"),
    _tool("lint-imports"),
    Suite(
        "clang-format",
        "static",
        lambda: [str(BIN / "clang-format"), "--dry-run", "-Werror", *_native_sources()],
        _one,
    ),
    _pytest("unit", 2, 1800),
    _pytest("golden", 2, 900),
    _pytest("truth", 2, 900),
    _pytest("integration", 2, 2400),
    _pytest("faults", 2, 900),
    _pytest("gpu", 0, 300),
    Suite("examples", "tests", lambda: [sys.executable, "examples/run.py", "--test"], _last_line, 240),
)


def environment() -> dict[str, str]:
    """The caller's, with .venv first, the installed package in place of any other, and its library required."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV") and not name.startswith("WARPSIGHT_")
    }
    kept["PATH"] = f"{BIN}{os.pathsep}{kept.get('PATH', '')}"
    kept["PYTHONUNBUFFERED"] = "1"
    if any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
        kept["WARPSIGHT_REQUIRE_LIBRARY"] = "1"
    # Real traces of other tools, and experts' accounts of some: too large and not ours to keep in the repository.
    for variable, name in (("WARPSIGHT_TEST_DATA", "data"), ("WARPSIGHT_TEST_VERDICTS", "verdicts")):
        folder = ROOT.parent / "shared" / name
        if folder.is_dir():
            kept[variable] = str(folder)
    return kept


def run(suite: Suite) -> tuple[int, str]:
    """Run one suite in its own process group and show its output as it comes; returns exit code and output."""
    log = REPORTS / (re.sub(r"\W+", "-", suite.name) + ".log")
    process = subprocess.Popen(
        suite.command(),
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    copier = subprocess.Popen(["tee", str(log)], stdin=process.stdout)
    try:
        code = process.wait(suite.limit_s)
    except subprocess.TimeoutExpired:
        code = 124
        print(f"\n{suite.name}: stopped after {suite.limit_s} s", flush=True)
    _end_group(process)
    try:
        copier.wait(10)
    except subprocess.TimeoutExpired:  # a process that left the group still holds the pipe
        copier.kill()
    return code, log.read_text(errors="replace")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End what the suite left running: it would hold the pipe and disturb the next suite."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def table(rows: list[tuple[str, Counts, float]]) -> str:
    """One line per suite."""
    lines = [f"{'suite':<30} {'result':<7} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for name, counts, seconds in rows:
        result = "FAIL" if counts.failed else "pass" if counts.passed else "skip"
        lines.append(
            f"{name:<30} {result:<7} {counts.passed:>7} {counts.failed:>7} {counts.skipped:>8} {seconds:>8.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the chosen suites; exit code 1 when anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("build", "static", "tests"), help="one group of suites")
    options = parser.parse_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, Counts, float]] = []
    for suite in SUITES:
        if options.only not in (None, suite.group):
            continue
        print(f"\n--- {suite.name}", flush=True)
        (REPORTS / f"{suite.name.removeprefix('tests/')}.xml").unlink(missing_ok=True)
        began = time.monotonic()
        code, output = run(suite)
        rows.append((suite.name, suite.counts(code, output), time.monotonic() - began))
    print(f"\n{table(rows)}\n")
    total = Counts(*(sum(getattr(row[1], part) for row in rows) for part in ("passed", "failed", "skipped")))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped", flush=True)
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()

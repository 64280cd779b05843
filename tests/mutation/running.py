"""Trying one mutant: a fork of a process that has the libraries loaded runs the covering tests on the changed source."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


def preload() -> None:
    """Load what every test needs and no mutant changes."""
    import _pytest.assertion.rewrite  # noqa: F401
    import duckdb  # noqa: F401
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401


@contextlib.contextmanager
def changed(file: Path, source: str) -> Iterator[None]:
    """Put a mutant in place of a file, and the file back."""
    original, times = file.read_bytes(), file.stat()
    try:
        file.write_text(source)
        # Compiled files are chosen by time.
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns + 7_000_000_000))
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


@dataclass
class Runner:
    """Runs tests against a copy of the source, and keeps which of them pass on it unchanged."""

    root: Path
    source: Path
    environment: dict[str, str]
    passing: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)

    def outcome(self, file: Path, mutant: str, tests: list[str], limit_s: float) -> tuple[str, str]:
        """What became of a mutant, and the test that noticed it: one that fails without the mutant has noticed nothing."""
        while tests := [test for test in tests if test not in self.failing]:
            with changed(file, mutant):
                outcome, test = self._run(tests, limit_s)
            if outcome == TIMEOUT:
                before, _ = self._run(tests, limit_s)
                return (SURVIVED, "") if before == TIMEOUT else (TIMEOUT, "")
            if outcome == SURVIVED or not test or test in self.passing:
                return outcome, test
            known = self.passing if self._run([test], limit_s)[0] == SURVIVED else self.failing
            known.add(test)
            if known is self.passing:
                return outcome, test
        return SURVIVED, ""

    def _run(self, tests: list[str], limit_s: float) -> tuple[str, str]:
        """Run tests in a child with a session of its own."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(self._in_child(tests, folder))
        try:
            end = time.monotonic() + limit_s
            while time.monotonic() < end:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    noticed = folder / "failed"
                    test = json.loads(noticed.read_text()) if noticed.exists() else ""
                    return (SURVIVED if os.waitstatus_to_exitcode(status) == 0 else KILLED), test
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMEOUT, ""
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_child(self, tests: list[str], folder: Path) -> int:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.chdir(self.root)
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(self.source), str(self.root)]
        os.environ.clear()
        os.environ.update(
            self.environment, PYTHONPATH=str(self.source), HYPOTHESIS_STORAGE_DIRECTORY=str(folder)
        )
        import pytest

        class First:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed and not (folder / "failed").exists():
                    (folder / "failed").write_text(json.dumps(report.nodeid))

        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--import-mode=importlib",
                   f"--basetemp={folder / 'tmp'}"]  # fmt: skip
        return int(pytest.main([*options, *tests], plugins=[First()]))

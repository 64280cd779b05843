"""Trying one mutant: a fork of a process that has the libraries loaded runs the covering tests on the changed source."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
    """Runs tests against a copy of the source."""

    root: Path
    source: Path
    environment: dict[str, str]

    def outcome(self, file: Path, mutant: str, tests: list[str], limit_s: float) -> tuple[str, str]:
        """What became of a mutant, and the test that noticed it."""
        with changed(file, mutant):
            outcome, failed = self._run(tests, limit_s)
        return outcome, failed[0] if failed else ""

    def failing(self, tests: list[str], limit_s: float) -> set[str]:
        """Tests that fail on the source as it is: they have noticed nothing."""
        return set(self._run(tests, limit_s, stop=False)[1])

    def _run(self, tests: list[str], limit_s: float, stop: bool = True) -> tuple[str, list[str]]:
        """Run tests in a child with a session of its own: the outcome, and what failed."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            os.setsid()
            os._exit(self._in_child(tests, folder, stop))
        try:
            end = time.monotonic() + limit_s
            while time.monotonic() < end:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    noticed = folder / "failed"
                    failed = noticed.read_text().splitlines() if noticed.exists() else []
                    return (SURVIVED if os.waitstatus_to_exitcode(status) == 0 else KILLED), failed
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMEOUT, []
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _in_child(self, tests: list[str], folder: Path, stop: bool) -> int:
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

        assert "warpsight" not in sys.modules, "the child would run the original"

        class Failures:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    with (folder / "failed").open("a") as file:
                        file.write(report.nodeid + "\n")

        options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--import-mode=importlib",
                   f"--basetemp={folder / 'tmp'}"]  # fmt: skip
        return int(pytest.main([*options, *(["-x"] if stop else []), *tests], plugins=[Failures()]))

"""Trying mutants: each in a fork that runs the covering tests on the changed source, until one fails.

A change inside functions is tried in a fork of a process that has imported the package and collected every test: the
functions take the code of the mutant, so that a mutant costs little more than the tests themselves. Any other change
(a constant, a class, a default) is tried in a fork that has loaded only libraries, and imports everything anew.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutation.mutants import Mutant

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"
#: How much longer than its processor time a child may take.
_WALL = 20
#: Exit code of a child that did not get as far as an answer.
_BROKEN = 99
_OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--import-mode=importlib"]


def preload() -> None:
    """Load what every test needs and no mutant changes."""
    import _pytest.assertion.rewrite  # noqa: F401
    import duckdb  # noqa: F401
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import pytest  # noqa: F401


@dataclass(frozen=True)
class Job:
    """A mutant to try: its file, the tests that cover it, and how long they may use the processor."""

    file: Path
    mutant: Mutant
    tests: list[str]
    limit_s: float
    live: bool  # the change is inside a function
    outside: bool  # which also runs outside of tests, as while modules are imported


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


def replaceable(file: Path, mutant: Mutant) -> bool:
    """Whether each function of a file has its counterpart in the mutant, by name and line."""
    old, new = (list(_codes(compile(code, str(file), "exec"))) for code in (file.read_text(), mutant.tree))
    names, others = (
        [(one.co_name, one.co_firstlineno, one.co_freevars) for one in codes] for codes in (old, new)
    )
    return names == others and len(set(old)) == len(old)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Failures:
    """A pytest plugin that writes the names of failed tests to a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "failed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            with self._file.open("a") as file:
                file.write(report.nodeid + "\n")

    def seen(self) -> bool:
        return self._file.exists()


@dataclass
class Runner:
    """Runs tests against a copy of the source."""

    root: Path
    source: Path
    environment: dict[str, str]
    _items: dict[str, Any] = field(default_factory=dict)
    _functions: dict[str, list[FunctionType]] = field(default_factory=dict)

    def anew(self, job: Job) -> tuple[str, str]:
        """What became of a mutant in a process that imports everything anew, and the test that noticed it."""
        place = self._place(job.file)
        with changed(place, job.mutant.source):
            outcome, failed = self._forked(
                lambda folder: self._collect_and_run(["-x", *job.tests], folder), job.limit_s
            )
        return outcome, failed[0] if failed else ""

    def live(self, job: Job) -> tuple[str, str]:
        """The same in a fork of this process; only inside :meth:`collected`."""
        place = self._place(job.file)
        codes = [
            list(_codes(compile(code, str(place), "exec"))) for code in (place.read_text(), job.mutant.tree)
        ]
        replaced = dict(zip(*codes, strict=True))

        def child(folder: Path) -> int:
            for function in self._functions.get(str(place), ()):
                function.__code__ = replaced.get(function.__code__, function.__code__)
            return self._run_items(job.tests, folder)

        with changed(place, job.mutant.source):
            outcome, failed = self._forked(child, job.limit_s)
        return outcome, failed[0] if failed else ""

    def failing(self, tests: list[str]) -> set[str]:
        """Tests that fail on the source as it is: they have noticed nothing."""
        return (
            set(self._forked(lambda folder: self._collect_and_run(tests, folder), 600.0)[1])
            if tests
            else set()
        )

    def collected(self, tests: list[str], then: Callable[[], None]) -> None:
        """Import everything and collect tests in this process, which is of no other use afterwards."""
        self._enter(self.environment["HYPOTHESIS_STORAGE_DIRECTORY"])
        import pytest

        runner = self

        class Loop:
            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                runner._items = {item.nodeid: item for item in session.items}
                for one in gc.get_objects():
                    if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(
                        str(runner.source)
                    ):
                        runner._functions.setdefault(one.__code__.co_filename, []).append(one)
                then()
                return True

        pytest.main([*_OPTIONS, f"--basetemp={runner.source.parent / 'tmp'}", *tests], plugins=[Loop()])

    def _place(self, file: Path) -> Path:
        return self.source / file.relative_to(self.root / "src")

    def _run_items(self, tests: list[str], folder: Path) -> int:
        """Run collected tests; 1 as soon as one fails."""
        items = [self._items[test] for test in tests if test in self._items]
        failures = _Failures(folder)
        items[0].config.pluginmanager.register(failures)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failures.seen():
                break
        return int(failures.seen())

    def _collect_and_run(self, tests: list[str], folder: Path) -> int:
        self._enter(str(folder))
        import pytest

        return int(
            pytest.main([*_OPTIONS, f"--basetemp={folder / 'tmp'}", *tests], plugins=[_Failures(folder)])
        )

    def _enter(self, folder: str) -> None:
        """Make this process one that runs tests, silently."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        os.chdir(self.root)
        sys.dont_write_bytecode = True
        sys.path[:0] = [str(self.source), str(self.root)]
        os.environ.clear()
        os.environ.update(self.environment, PYTHONPATH=str(self.source), HYPOTHESIS_STORAGE_DIRECTORY=folder)
        assert "warpsight" not in sys.modules, "the tests would run the original"

    def _forked(self, work: Callable[[Path], int], limit_s: float) -> tuple[str, list[str]]:
        """Do something in a child with a session of its own: the outcome, and what failed."""
        folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            code = _BROKEN
            try:
                os.setsid()
                # A loop without end uses the processor, however busy the machine is.
                resource.setrlimit(resource.RLIMIT_CPU, (round(limit_s), round(limit_s) + 5))
                code = work(folder)
            except BaseException:
                (folder / "error").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        try:
            end = time.monotonic() + _WALL * limit_s
            while time.monotonic() < end:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    noticed, code = folder / "failed", os.waitstatus_to_exitcode(status)
                    if code == _BROKEN:
                        raise RuntimeError((folder / "error").read_text())
                    failed = noticed.read_text().splitlines() if noticed.exists() else []
                    ended = {0: SURVIVED, -signal.SIGXCPU: TIMEOUT}
                    return ended.get(code, KILLED), failed
                time.sleep(0.02)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMEOUT, []
        finally:
            shutil.rmtree(folder, ignore_errors=True)

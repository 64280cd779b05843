"""Trying one mutant: a fork of a process that has the libraries loaded runs the covering tests on the changed source."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


def preload() -> None:
    """Load what every test needs and no mutant changes."""
    import _pytest.assertion.rewrite  # noqa: F401
    import duckdb  # noqa: F401
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
        os.utime(
            file, ns=(times.st_atime_ns, times.st_mtime_ns + 7_000_000_000)
        )  # compiled files are by time
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def outcome(root: Path, source: Path, tests: list[str], limit_s: float) -> str:
    """Run tests against the package in `source`, in a child of its own session."""
    child = os.fork()
    if child == 0:
        os.setsid()
        os._exit(_run(root, source, tests))
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return SURVIVED if os.waitstatus_to_exitcode(status) == 0 else KILLED
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMEOUT


def _run(root: Path, source: Path, tests: list[str]) -> int:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.chdir(root)
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(source), str(root)]
    os.environ["PYTHONPATH"] = str(source)
    import pytest

    return int(
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", *tests])
    )

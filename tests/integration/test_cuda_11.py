"""CUDA 11 is refused in one line: the program runs as it would, and the summary says what was not recorded and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.standin_programs import Standin, build


@pytest.fixture
def standin(library: Path, tmp_path: Path) -> Standin:
    folder = tmp_path / "standin"
    folder.mkdir()
    return build(library, folder)


def refusal(standin: Standin, folder: Path, **environment: str) -> str:
    """The line of a recording's summary that says what was lost."""
    options = ("--sample", "0", "--counters", "off", "-o", str(folder / "a.warp"))
    program = standin.program("init", "launch:work:5", "sync")
    done = standin.run("record", *options, "--", *program, **environment)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("  lost:")]
    assert "0 kernels" in done.stderr
    return line


def test_a_libcupti_of_cuda_11(standin: Standin, tmp_path: Path) -> None:
    line = refusal(standin, tmp_path, STANDIN="version=18")
    assert "from before CUDA 12; install a CUDA 12 or 13 libcupti" in line


def test_a_driver_of_cuda_11(standin: Standin, tmp_path: Path) -> None:
    """The branch of a driver is in the name of its library's file."""
    driver = (standin.folder / "libstandin.so").rename(standin.folder / "libcuda.so.470.57.02")
    (standin.folder / "libstandin.so").symlink_to(driver.name)
    line = refusal(standin, tmp_path)
    assert "the driver is older than CUDA 12, which is not supported" in line

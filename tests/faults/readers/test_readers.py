"""The short form of `make soak-readers`: some hundred damaged inputs of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: Seconds after which no further input is begun.
SECONDS = 40


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    import warpsight

    paths = f"{Path(warpsight.__file__).parents[1]}{os.pathsep}{ROOT}"
    command = [sys.executable, "-m", "tests.faults.readers", *arguments]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
def test_damaged_inputs_end_with_a_message_and_in_a_gigabyte() -> None:
    done = soak("--inputs", "400", "--seconds", str(SECONDS), "--small")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 0 faults" in done.stdout

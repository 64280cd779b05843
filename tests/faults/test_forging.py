"""The short form of `python -m tests.faults.forging`: some forged capsules and scripts of every kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin.recording import compiler, cuda_headers
from warpsight import _native

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    (library := _native.library_path()) is None or not library.with_name("warpsight-replay").is_file(),
    reason="this build has no warpsight-replay",
)
@pytest.mark.skipif(
    compiler() is None or cuda_headers() is None, reason="the stand-in needs CUDA's headers and a compiler"
)
@pytest.mark.timeout(600)
def test_what_is_forged_is_refused_or_harmless() -> None:
    import warpsight

    paths = f"{Path(warpsight.__file__).parents[1]}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.forging", "--capsules", "150", "--scripts", "100"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "capsules: 150" in done.stdout and "scripts: 100" in done.stdout

"""Folders, arguments, variables, names: bytes in any encoding, from the program to what is printed of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import warpsight.model
from tests.integration.recorded import TIMEOUT, environment, launcher

PROGRAM = """
import sys, threading
import warpsight as ws
ws.emit("event \\udce9", kind="test", **{"key \\udcff": "value \\udcff"})
ws.mark("mark \\udcff"); ws.counter("counter \\udcff", 1.0, "unit \\udcff")
with ws.annotate("range \\udcff"): pass
sys.exit(5)
"""
PLAIN = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


@pytest.mark.parametrize("ring", [(), ("--ring", "30s")])
@pytest.mark.parametrize("locale", [{}, PLAIN])
def test_bytes_that_are_no_text(
    library: Path, tmp_path: Path, ring: tuple[str, ...], locale: dict[str, str]
) -> None:
    folder = tmp_path / os.fsdecode(b"fold\xe9r")
    folder.mkdir()
    path = folder / os.fsdecode(b"tr\xe4ce.warp")
    around = {**environment(library, **locale), "CUDA_ODD": os.fsdecode(b"\xff\xfe")}
    command = launcher(
        *ring,
        "-o",
        str(path),
        "--",
        sys.executable,
        "-c",
        PROGRAM,
        os.fsdecode(b"arg\xff"),
        os.fsdecode(b"arg\xfe"),
    )
    done = subprocess.run(command, env=around, cwd=folder, capture_output=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 5, done.stderr
    with warpsight.model.open(path) as trace:
        told = trace.sql("SELECT command FROM process").fetchall()[0][0]
        assert "arg\\xff" in told
        assert "arg\\xfe" in told
        assert trace.sql("SELECT count(*) FROM user_event").fetchall() == [(2,)]
        assert trace.sql("SELECT count(*) FROM loss WHERE severity <> 'note'").fetchall() == [(0,)]
    for verb in (["info"], ["view", "--list"]):
        arguments = [verb[0], str(path), *verb[1:]]
        shown = subprocess.run([sys.executable, "-m", "warpsight.ui.cli", *arguments], env=around, cwd=folder,
                               capture_output=True, timeout=TIMEOUT, check=False)  # fmt: skip
        assert shown.returncode == 0, (verb, shown.stderr)
        assert b"internal error" not in shown.stderr

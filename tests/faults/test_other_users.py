"""Programs that become another user before they use a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher, program, record

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs become other users")
NOBODY = 65534


def test_a_program_that_became_another_user_is_recorded(library: Path, tmp_path: Path) -> None:
    # loaded first: the interpreter itself may be where others may not look
    become = f"""
import importlib, json, os, signal, subprocess, sys, threading, time, warpsight
import warpsight.inside.events
from warpsight import _native
_native.load()
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
"""
    command = program("sys.exit(5)")
    command[2] = become + command[2]
    done = record(library, tmp_path / "a.warp", command)
    assert (done.code, done.events) == (5, 100)


def test_a_program_becomes_another_user_while_it_is_recorded(library: Path, tmp_path: Path) -> None:
    done = record(
        library,
        tmp_path / "a.warp",
        program(f"os.setuid({NOBODY}); ws.emit('after', kind='test'); sys.exit(5)"),
    )
    assert (done.code, done.events) == (5, 101)
    assert done.sql("SELECT count(*) FROM loss WHERE severity <> 'note'") == [(0,)]


def test_a_process_of_another_user_that_nobody_here_started_is_turned_away(
    library: Path, tmp_path: Path
) -> None:
    outside = "print(os.environ['WARPSIGHT_SOCKET'], flush=True); sys.stdin.readline(); sys.exit(5)"
    running = subprocess.Popen(launcher("-o", str(tmp_path / "a.warp"), "--", *program(outside)), env=environment(library),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert running.stdout is not None
    path = running.stdout.readline().strip()
    knock = (f"import os, socket; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
             f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect({path!r}); print(s.recv(100))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", knock], capture_output=True, text=True, cwd="/", check=False)
    assert "another user's" in done.stdout, done.stderr
    running.communicate("\n", timeout=TIMEOUT)
    assert running.returncode == 5
    causes = Recorded(5, "", "", tmp_path / "a.warp").sql("SELECT cause FROM loss")
    assert any(f"user {NOBODY}'s" in cause for (cause,) in causes)

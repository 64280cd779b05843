"""`top` beside a real recording: what it shows while the program runs, and that it ends with it."""

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.integration.opencl_recording import require_pocl
from tests.integration.recorded import environment, launcher

#: Works, says so, and stays until it is told to end.
PROGRAM = """
import sys
from warpsight.recorder.demo import heat_opencl
print("working", flush=True)
while True:
    heat_opencl.main()
    print("worked", flush=True)
    if sys.stdin.readline() != "again\\n":
        break
"""


@pytest.fixture
def running(library, tmp_path):
    require_pocl()
    process = subprocess.Popen(
        launcher("-o", str(tmp_path / "run.warp"), "--", sys.executable, "-c", PROGRAM), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(library), cwd=tmp_path,
    )  # fmt: skip
    while process.stdout.readline() != "worked\n":
        assert process.poll() is None
    yield process
    process.stdin.close()
    process.stdout.read()
    process.wait(60)


def top(library, folder, *arguments):
    return subprocess.run([sys.executable, "-m", "warpsight", "top", *arguments], capture_output=True, text=True,
                          env=environment(library, POCL_CACHE_DIR=os.fspath(folder)), cwd=folder, timeout=60)  # fmt: skip


def on_a_terminal(library, folder, running):
    """The application opens, draws the flame graph, and ends with q, leaving the last numbers."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    command = [sys.executable, "-m", "warpsight", "top", "run.warp", "--window", "60"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT, cwd=folder,
                               env=environment(library, TERM="xterm-256color"))  # fmt: skip
    os.close(theirs)
    for key, awaited in ((b"", b"Kernels"), (b"2", b" of GPU time in the last"), (b"q", b"launches/s")):
        drawn(ours, key, awaited, running)
    with contextlib.suppress(OSError):  # the terminal is gone with its last program
        while os.read(ours, 65536):
            pass
    assert process.wait(60) == 0
    os.close(ours)


def drawn(terminal, key, awaited, running):
    """Read until the text was drawn; each second the key is pressed and the program works once more."""
    seen, begin, pressed = b"", time.monotonic(), 0
    while awaited not in seen:
        passed = time.monotonic() - begin
        assert passed < 120, seen[-2000:]
        if passed >= pressed:
            pressed += 1
            os.write(terminal, key)
            running.stdin.write("again\n")
            running.stdin.flush()
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65536)


def test_a_running_program_is_seen_and_top_ends_with_it(running, library, tmp_path):
    shown = {}
    for _ in range(20):  # rows come when their segment is written; each round makes new ones
        running.stdin.write("again\n")
        running.stdin.flush()
        done = top(library, tmp_path, "--json", "--interval", "0.5", "--window", "10")
        assert done.returncode == 0, done.stderr
        shown = json.loads(done.stdout)
        if shown["kernels"] and shown["launches"]:
            break
    assert {"heat_step", "row_maximum"} <= {kernel["name"] for kernel in shown["top"]}
    assert shown["recording"] and any(0 < share <= 1 for share in shown["busy"].values())
    text = top(library, tmp_path, "run.warp", "--once", "--interval", "0.2", "--window", "60").stdout
    assert "heat_step" in text and "launches/s" in text
    launcher = json.loads(top(library, tmp_path, str(running.pid), "--json", "--interval", "0.2").stdout)
    assert launcher["folder"] == str(tmp_path / "run.warp") and launcher["recording"]
    (recorded,) = launcher["processes"]
    by_process = json.loads(top(library, tmp_path, str(recorded), "--json", "--interval", "0.2").stdout)
    assert by_process["folder"] == launcher["folder"]
    on_a_terminal(library, tmp_path, running)
    nobody = top(library, tmp_path, str(os.getpid()), "--once")
    assert nobody.returncode == 1 and f"process {os.getpid()} is not recorded" in nobody.stderr
    running.stdin.close()
    running.stdout.read()
    assert running.wait(60) == 0
    ended = top(library, tmp_path, "run.warp", "--once")
    assert ended.returncode == 1
    assert "is not being recorded" in ended.stderr and "Traceback" not in ended.stderr

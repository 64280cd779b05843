"""Ctrl-C ends a verb even while its threads compute or wait for input, and leaves no temporary files."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from warpsight.model.workers import workers

#: A verb in the middle of work: a temporary folder, and a thread that waits for something that never comes.
STUCK = """
import os, sys, tempfile, threading
from warpsight.model.workers import workers
from warpsight.ui.cli import app
app.end_soon_after_interrupt()
folder = tempfile.TemporaryDirectory(prefix="kept-")
with workers(1) as pool:
    pool.submit(os.read, 0, 1)
    print(folder.name, flush=True)
    threading.Event().wait()
"""
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},'
    '"clientInfo":{"name":"x","version":"1"}}}\n'
)


def started(*command):
    return subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)  # fmt: skip


def interrupted(process):
    """What it prints to standard error before it ends, with its input still open."""
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    told = process.stderr.read()
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()
    return code, told


def test_threads_that_wait_do_not_hold_up_the_end_and_temporary_files_go():
    process = started("-c", STUCK)
    folder = process.stdout.readline().strip()
    assert os.path.isdir(folder)
    code, _ = interrupted(process)
    assert code == 130
    assert not os.path.exists(folder)


def test_a_server_that_waits_for_its_client_ends():
    pytest.importorskip("mcp")
    process = started("-m", "warpsight", "mcp")
    process.stdin.write(HELLO)
    process.stdin.flush()
    assert '"id":1' in process.stdout.readline()
    code, told = interrupted(process)
    assert code == 130 and "Traceback" not in told


def test_an_error_does_not_wait_for_workers():
    go, jobs = threading.Event(), []

    def fail():
        with workers(1) as pool:
            jobs.extend([pool.submit(go.wait), pool.submit(int)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not jobs[0].done() and jobs[1].cancelled()
    go.set()
    assert jobs[0].result(60)

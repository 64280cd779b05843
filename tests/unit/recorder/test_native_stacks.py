"""Native stacks of other processes, unwound from a copy, against what is known to be running."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from warpsight.recorder.inspect import cfi
from warpsight.recorder.inspect.modules import ElfImage
from warpsight.recorder.inspect.native_stacks import NotTraceable, Unwinder

SLEEPER = "import time, sys\nprint('ready', flush=True)\ntime.sleep(60)"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="native stacks are read on x86-64 only")
def test_a_sleeping_python_is_seen_down_to_its_start() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 30
        while (
            "nanosleep" not in Path(f"/proc/{process.pid}/wchan").read_text() and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        try:
            frames = Unwinder(process.pid).stack(process.pid)
        except NotTraceable as error:
            pytest.skip(f"this environment does not let us trace: {error}")
        functions = [frame.function for frame in frames]
        assert any("nanosleep" in name or "select" in name for name in functions[:3]), functions
        assert any(
            name.startswith(("Py_BytesMain", "Py_RunMain", "main", "_start", "__libc_start"))
            for name in functions
        )
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_thread_that_does_not_exist_is_told() -> None:
    with pytest.raises(NotTraceable):
        Unwinder(os.getpid()).stack(2**22 - 1)


def test_damaged_frame_information_is_an_error_of_its_own() -> None:
    with pytest.raises(cfi.CfiError):
        cfi.parse_cie(b"\x01zR\0\x01", 0)
    with pytest.raises(cfi.CfiError):
        cfi.evaluate(b"\xff", {}, lambda address, size: None, [])
    with pytest.raises(ValueError, match="ELF"):
        ElfImage(b"not an ELF file at all")


def test_expressions_compute_as_dwarf_says() -> None:
    memory = {0x1000: (42).to_bytes(8, "little")}
    assert cfi.evaluate(b"\x77\x08", {7: 100}, lambda a, n: memory.get(a), []) == 108  # breg7 + 8
    assert cfi.evaluate(b"\x0a\x00\x10\x06\x23\x02", {}, lambda a, n: memory.get(a), []) == 44  # *0x1000 + 2
    assert cfi.evaluate(b"\x3f\x3b\x2a", {}, lambda a, n: None, []) == 1  # 15 >= 11

"""Native stacks of other processes, unwound from a copy, against what is known to be running."""

from __future__ import annotations

import contextlib
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


IN_A_HANDLER = """
#include <signal.h>
#include <unistd.h>
static void handler(int number) { (void)number; write(1, "ready\\n", 6); for (;;) pause(); }
int main(void) { signal(SIGUSR1, handler); raise(SIGUSR1); return 0; }
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="native stacks are read on x86-64 only")
def test_a_thread_in_a_signal_handler_is_seen_down_to_what_was_interrupted(tmp_path: Path) -> None:
    """Its caller is described by expressions: the kernel saved every register."""
    (tmp_path / "program.c").write_text(IN_A_HANDLER)
    subprocess.run(
        ["cc", "-O2", "-fomit-frame-pointer", "-o", tmp_path / "program", tmp_path / "program.c"], check=True
    )
    process = subprocess.Popen([tmp_path / "program"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            frames = Unwinder(process.pid).stack(process.pid)
        except NotTraceable as error:
            pytest.skip(f"this environment does not let us trace: {error}")
        functions = [frame.function for frame in frames]
        assert functions.index("handler") < functions.index("main"), functions
    finally:
        process.kill()
        process.wait()


def test_damaged_frame_information_is_an_error_of_its_own() -> None:
    whole = ElfImage(Path(sys.executable).resolve())
    starts, places = whole._table
    fde = whole._entry(places[0])
    cie = whole._entry(places[0] + 4 - int.from_bytes(fde[4:8], "little", signed=True))
    assert cfi.row_at(cie, fde, places[0], starts[0]).return_register == 16
    for number in range(4, len(cie)):
        for value in (0, 0x2D, 0xFF):
            damaged = cie[:number] + bytes([value]) + cie[number + 1 :]
            with contextlib.suppress(cfi.CfiError):
                cfi.row_at(damaged, fde, places[0], starts[0])
    for length in range(8, len(cie)):
        with contextlib.suppress(cfi.CfiError):
            cfi.row_at(cie[:length], fde, places[0], starts[0])
    with pytest.raises(cfi.CfiError):
        cfi.evaluate(b"\xff", {}, lambda address, size: None, [])
    with pytest.raises(cfi.CfiError):
        cfi.evaluate(b"\x22", {}, lambda address, size: None, [])  # a sum of nothing
    with pytest.raises(ValueError, match="ELF"):
        ElfImage(b"not an ELF file at all")


def test_expressions_compute_as_dwarf_says() -> None:
    memory = {0x1000: (42).to_bytes(8, "little")}

    def value(expression: bytes, *stack: int) -> int:
        return cfi.evaluate(expression, {7: 100}, lambda address, size: memory.get(address), list(stack))

    assert value(b"\x77\x08") == 108  # breg7 + 8
    assert value(b"\x0a\x00\x10\x06\x23\x02") == 44  # *0x1000 + 2
    assert value(b"\x3f\x3b\x2a") == 1  # 15 >= 11
    assert value(b"\x3b\x3f\x1c") == 2**64 - 4  # 11 - 15
    assert value(b"\x31\x11\x7f\x2d") == 0  # 1 < -1
    assert value(b"\x12\x1e\x34\x24", 3) == 144  # (3 * 3) << 4

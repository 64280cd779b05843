"""A launcher reduced to its protocol: listens, takes the arena, answers, drains."""

from __future__ import annotations

import array
import ctypes
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.unit.native import segment_reader

TIMEOUT = 60.0
HEADER_FIELDS = segment_reader.TABLES["ArenaHeader"]
RECORD, STOP = 1, 2


def declare(library: Path) -> ctypes.CDLL:
    """The library with the signatures of its drainer."""
    lib = ctypes.CDLL(str(library))
    lib.ws_drain_open.restype = ctypes.c_void_p
    lib.ws_drain_open.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64]
    lib.ws_drain_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.ws_drain_rotate.argtypes = [ctypes.c_void_p]
    lib.ws_drain_close.argtypes = [ctypes.c_void_p]
    lib.ws_drain_statistic.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.ws_drain_statistic.restype = ctypes.c_uint64
    return lib


def wait_until(condition: Callable[[], Any], what: str) -> None:
    """Return when `condition` holds; fail the test after a generous time."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(0.005)


class Recorded:
    """One connected process: its connection and its arena."""

    def __init__(self, connection: socket.socket, hello: str, arena_fd: int) -> None:
        """Keep what the handshake brought."""
        self.connection, self.arena_fd = connection, arena_fd
        self.pid, self.arena = int(hello.split()[2]), hello.split()[3]

    def header(self, name: str) -> int:
        """A field of the arena header as it is now."""
        _, names, unpack = HEADER_FIELDS
        values = unpack.unpack(os.pread(self.arena_fd, unpack.size, 0))
        return int(values[names.index(name)])

    def set_header(self, name: str, value: int) -> None:
        """Store into a 4-byte field of the arena header."""
        _, names, unpack = HEADER_FIELDS
        import struct

        prefix = unpack.format[1 : 1 + names.index(name)]
        os.pwrite(self.arena_fd, struct.pack("<I", value), struct.calcsize("<" + prefix))


class Launcher:
    """Starts programs with WARPSIGHT_SOCKET set and accepts their connections."""

    def __init__(self, library: Path) -> None:
        """Listen in a directory of our own."""
        self.library, self.native = library, declare(library)
        self.directory = Path(tempfile.mkdtemp(prefix="warpsight-test-"))
        self.raw = self.directory / "raw"
        self.raw.mkdir()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(str(self.directory / "socket"))
        self.socket.listen(64)
        self.programs: list[subprocess.Popen[str]] = []

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the program finds in its environment."""
        return {
            **os.environ,
            "WARPSIGHT_SOCKET": str(self.directory / "socket"),
            "WARPSIGHT_LIBRARY": str(self.library),
            **(extra or {}),
        }

    def start(self, code: str, extra: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a Python program that has the library as `ws` and talks over stdin and stdout."""
        prelude = (
            "import ctypes, os, sys, threading, time\nws = ctypes.CDLL(os.environ['WARPSIGHT_LIBRARY'])\n"
        )
        program = subprocess.Popen(
            [sys.executable, "-c", prelude + code],
            env=self.environment(extra),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.programs.append(program)
        return program

    def accept(self, control: int = RECORD, answer: str | None = None) -> Recorded:
        """Take the next connection and answer it."""
        assert select.select([self.socket], [], [], TIMEOUT)[0], "nobody connected"
        connection, _ = self.socket.accept()
        hello, ancillary, _, _ = connection.recvmsg(256, socket.CMSG_SPACE(4))
        descriptor = array.array("i", ancillary[0][2][:4])[0]
        connection.send((answer or f"ok {control} {self.raw}").encode())
        return Recorded(connection, hello.decode(), descriptor)

    def nobody_connects(self) -> bool:
        """True when no connection is waiting."""
        return not select.select([self.socket], [], [], 0)[0]

    def drainer(self, recorded: Recorded, segment_bytes: int = 0) -> int:
        """A drainer of the process's arena into its place in the raw directory."""
        handle = self.native.ws_drain_open(
            recorded.arena_fd, os.fsencode(self.raw / recorded.arena), segment_bytes
        )
        assert handle
        return int(handle)

    def drain(self, recorded: Recorded) -> segment_reader.Recording:
        """Drain everything there is, then read it."""
        self.native.ws_drain_close(self.drainer(recorded))
        return self.read(recorded)

    def read(self, recorded: Recorded) -> segment_reader.Recording:
        """What the process's segments hold."""
        return segment_reader.read(self.raw / recorded.arena)

    def close(self) -> None:
        """End what is still running and remove the files."""
        for program in self.programs:
            if program.poll() is None:
                program.kill()
            program.communicate()
        self.socket.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def finish(program: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    """Let a program that waits for its input end; its output."""
    out, err = program.communicate(timeout=TIMEOUT)
    assert program.returncode == code, err
    return out, err


def line(program: subprocess.Popen[str]) -> str:
    """The next line a program prints."""
    assert program.stdout is not None
    return program.stdout.readline().strip()


def say(program: subprocess.Popen[str], text: str = "go") -> None:
    """Give a program its next line of input."""
    assert program.stdin is not None
    program.stdin.write(text + "\n")
    program.stdin.flush()

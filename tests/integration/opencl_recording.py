"""A launcher just large enough for the OpenCL tests: drains a program's arena, returns its rows as arrays.

The rows are looked at as the recorder wrote them, before any conversion.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
import os
import shutil
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpsight import _native
from warpsight.capture import functions
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import open_segment, strings


def _control_offset() -> int:
    at = 0
    for item in layout.ARENA_HEADER.fields:
        if item.name == "control":
            return at
        at += layout.TYPES[item.type] * item.count
    raise AssertionError("the arena header has no control word")


@dataclass
class Recorded:
    """What one program left: rows by kind name, texts by id, and how the program ended."""

    code: int
    output: str
    errors: str
    texts: dict[int, str] = field(default_factory=dict)
    tables: dict[str, Any] = field(default_factory=dict)

    def rows(self, kind: str) -> Any:
        """Rows of a kind of layout.RECORDS, in the order of their writing per thread."""
        return self.tables.get(kind, np.zeros(0, layout.dtype(layout.BY_NAME[kind])))

    def calls(self, name: str) -> Any:
        """Api rows of one function."""
        api = self.rows("Api")
        return api[[functions.name(layout.API_OPENCL, int(f)) == name for f in api["function"]]]

    def names(self, rows: Any) -> list[str]:
        """The names of kernel or launch rows."""
        return [self.texts.get(int(n), "") for n in rows["name"]]

    def shapes(self, rows: Any) -> list[tuple[int, ...]]:
        """Grid and block of each row."""
        wanted = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
        shapes = {int(s["id"]): tuple(int(s[w]) for w in wanted) for s in self.rows("Shape")}
        return [shapes[int(s)] for s in rows["shape"]]

    def stack(self, stack: int) -> list[str]:
        """Function names of a stack, innermost first."""
        frames = {int(f["id"]): self.texts.get(int(f["function"]), "") for f in self.rows("Frame")}
        stacks = {int(s["id"]): (int(s["parent"]), int(s["frame"])) for s in self.rows("Stack")}
        found = []
        while stack:
            stack, frame = stacks[stack]
            found.append(frames[frame])
        return found

    def losses(self) -> list[str]:
        """Causes of everything lost (notes excluded)."""
        return [self.texts[int(r["cause"])] for r in self.rows("Loss") if r["severity"] > 1]


class _Server(threading.Thread):
    """Accepts connections, takes the arena of each and drains it until told to stop."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.path = str(folder / "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.settimeout(0.005)
        self._stopping = threading.Event()
        self._drains: list[tuple[Any, socket.socket]] = []
        self._library = _native.load()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._accept()
            for drain, _ in self._drains:
                self._library.ws_drain_poll(drain, 0)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return
        message, descriptors, _, _ = socket.recv_fds(connection, 256, 1)
        arena = message.decode().split()[3]
        folder = self.folder / arena
        folder.mkdir()
        with mmap.mmap(descriptors[0], layout.ARENA_HEADER_BYTES) as header:
            at = _control_offset()
            header[at : at + 4] = layout.CONTROL_RECORD.to_bytes(4, "little")
        self._drains.append(
            (self._library.ws_drain_open(descriptors[0], os.fsencode(folder), 1 << 26), connection)
        )
        connection.send(b"ok %d" % layout.CONTROL_RECORD)

    def finish(self) -> None:
        """Take what is left and close the segments."""
        self._stopping.set()
        self.join()
        for drain, connection in self._drains:
            self._library.ws_drain_close(drain)
            connection.close()
        self._listener.close()


def _read(folder: Path, recorded: Recorded) -> None:
    parts: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("*/*.seg*")):
        segment = open_segment(path)
        newest = {(b.writer, b.sequence): b for b in segment.blocks()}
        for block in newest.values():
            if block.kind == layout.BY_NAME["String"].kind:
                recorded.texts.update(strings(block.payload)[0])
            else:
                parts.setdefault(layout.BY_KIND[block.kind].name, []).append(block.rows())
        assert not segment.damage
    recorded.tables = {kind: np.concatenate(rows) for kind, rows in parts.items()}


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment in which an OpenCL loader finds our layer."""
    library = _native.library_path()
    assert library
    return {**os.environ, "OPENCL_LAYERS": str(library), "WARPSIGHT_SOCKET": str(folder / "socket"),
            "POCL_CACHE_DIR": str(folder / "pocl"), **settings}  # fmt: skip


def record(command: list[str], folder: Path, *, on_line: Any = None, **settings: str) -> Recorded:
    """Run a command under the layer. `on_line(process, line)` sees each line it prints while it runs."""
    server = _Server(folder)
    server.start()
    process = subprocess.Popen(command, env=environment(folder, **settings), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert process.stdout
    assert process.stderr
    lines = []
    for line in process.stdout:
        lines.append(line)
        if on_line:
            on_line(process, line)
    errors = process.stderr.read()
    recorded = Recorded(process.wait(), "".join(lines), errors)
    server.finish()
    _read(folder, recorded)
    return recorded


def require_pocl() -> None:
    """Skip without an OpenCL loader that has a device."""
    name = ctypes.util.find_library("OpenCL")
    if not name:
        pytest.skip("no OpenCL loader (libOpenCL.so.1)")
    count = ctypes.c_uint(0)
    if ctypes.CDLL(name).clGetPlatformIDs(0, None, ctypes.byref(count)) or not count.value:
        pytest.skip("no OpenCL platform: install pocl-opencl-icd")


def compile_program(source: str, folder: Path, name: str = "program") -> Path:
    """Compile a C program against libOpenCL; skip without a compiler or headers."""
    compiler = shutil.which("cc")
    if not compiler or not Path("/usr/include/CL/cl.h").exists():
        pytest.skip("no C compiler or no OpenCL headers")
    text = folder / f"{name}.c"
    text.write_text(source)
    program = folder / name
    options = ["-O1", "-g", "-Wno-deprecated-declarations"]
    subprocess.run([compiler, *options, str(text), "-o", str(program), "-lOpenCL", "-lpthread"], check=True)
    return program

"""A launcher just large enough for tests of native recorders: drains every arena of a program and returns its rows.

Rows are looked at as the recorder wrote them, before any conversion.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight import _native
from warpsight.capture import functions
from warpsight.capture.segments import layout
from warpsight.capture.segments.segment import open_segment, strings

SOURCES = Path(__file__).parent
#: Seconds any program of these tests may take.
PATIENCE = 120

Rows = npt.NDArray[Any]


@dataclass
class Arena:
    """The rows of one recording of one process: by kind, with the session of each row beside them."""

    texts: dict[int, str] = field(default_factory=dict)
    tables: dict[str, Rows] = field(default_factory=dict)
    sessions: dict[str, Rows] = field(default_factory=dict)
    started: int = 0

    def rows(self, kind: str) -> Rows:
        """Rows of a kind of layout.RECORDS."""
        return self.tables.get(kind, np.zeros(0, layout.dtype(layout.BY_NAME[kind])))

    def names(self, rows: Rows, column: str = "name") -> list[str]:
        """The texts of a string column."""
        return [self.texts.get(int(number), "") for number in rows[column]]

    def launches(self) -> Rows:
        """Api rows of launches."""
        api = self.rows("Api")
        return api[(api["flags"] & 1) != 0]

    def calls(self) -> list[Any]:
        """Api rows, those of copies and fills too, by start."""
        rows = [row for kind in ("Api", "CopyCall") for row in self.rows(kind)]
        return sorted(rows, key=lambda row: int(row["start"]))

    def functions(self) -> list[str]:
        """Function names of the calls."""
        return [functions.name(int(row["domain"]), int(row["function"])) for row in self.calls()]

    def losses(self, severity: int = 0) -> list[tuple[str, int]]:
        """(cause, count) of the Loss rows above a severity (1: without notes)."""
        rows = self.rows("Loss")
        rows = rows[rows["severity"] > severity]
        return list(zip(self.names(rows, "cause"), (int(c) for c in rows["count"]), strict=True))

    def lost(self, words: str) -> int:
        """The summed count of the losses whose cause contains the words; 0 when there is none."""
        return sum(count for cause, count in self.losses() if words in cause)


@dataclass
class Outcome:
    """How a recorded program ended, and what it left: one arena per recording."""

    code: int
    output: str
    errors: str
    arenas: list[Arena]

    @property
    def only(self) -> Arena:
        """The one arena of a program that recorded once."""
        assert len(self.arenas) == 1, f"{len(self.arenas)} recordings; the program said: {self.errors}"
        return self.arenas[0]


def _header_field(name: str) -> tuple[int, int]:
    at = 0
    for item in layout.ARENA_HEADER.fields:
        size = layout.TYPES[item.type] * item.count
        if item.name == name:
            return at, size
        at += size
    raise AssertionError(f"the arena header has no {name}")


class _Server(threading.Thread):
    """Accepts connections, takes the arena of each and drains it until told to stop."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.path = str(folder / "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(self.path)
        self._listener.listen()
        self._listener.settimeout(0.003)
        self._stopping = threading.Event()
        self._drains: list[tuple[Any, socket.socket]] = []
        self._library = _native.load()

    def run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                self._take(self._listener.accept()[0])
            for drain, _ in self._drains:
                self._library.ws_drain_poll(drain, 0)

    def _take(self, connection: socket.socket) -> None:
        message, descriptors, _, _ = socket.recv_fds(connection, 256, 1)
        folder = self.folder / f"{len(self._drains):03d}-{message.decode().split()[3]}"
        folder.mkdir()
        with mmap.mmap(descriptors[0], layout.ARENA_HEADER_BYTES) as header:
            at, size = _header_field("control")
            header[at : at + size] = layout.CONTROL_RECORD.to_bytes(size, "little")
        drain = self._library.ws_drain_open(descriptors[0], os.fsencode(folder), 1 << 26)
        assert drain, "the drainer refused the arena"
        self._drains.append((drain, connection))
        connection.send(b"ok %d" % layout.CONTROL_RECORD)

    def finish(self) -> None:
        """Take what is left and close the segments."""
        self._stopping.set()
        self.join()
        for drain, connection in self._drains:
            self._library.ws_drain_close(drain)
            connection.close()
        self._listener.close()


def _read(folder: Path) -> Arena:
    arena = Arena()
    parts: dict[str, list[Rows]] = {}
    sessions: dict[str, list[Rows]] = {}
    for path in sorted(folder.glob("*.seg*")):
        segment = open_segment(path)
        newest = {(block.writer, block.sequence): block for block in segment.blocks()}
        for block in newest.values():
            if block.kind == layout.BY_NAME["String"].kind:
                arena.texts.update(strings(block.payload)[0])
                continue
            rows = block.rows()
            name = layout.BY_KIND[block.kind].name
            parts.setdefault(name, []).append(rows)
            sessions.setdefault(name, []).append(np.full(len(rows), block.session))
        assert not segment.damage
    arena.tables = {name: np.concatenate(rows) for name, rows in parts.items()}
    arena.sessions = {name: np.concatenate(values) for name, values in sessions.items()}
    return arena


def run(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str], *, late: bool = False
) -> Outcome:
    """Run a command whose processes record to us. `late`: the socket is only in LATE_SOCKET, for the command to use."""
    library = _native.library_path()
    assert library is not None
    server = _Server(folder)
    server.start()
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("WARPSIGHT", "STANDIN", "CUDA_INJ", "NVTX"))
    }
    names = {"LATE_SOCKET" if late else "WARPSIGHT_SOCKET": server.path, "WARPSIGHT_LIBRARY": str(library)}
    try:
        done = subprocess.run(
            [str(part) for part in command], env={**inherited, **names, **environment}, timeout=PATIENCE, text=True,
            capture_output=True, check=False)  # fmt: skip
    finally:
        server.finish()
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    return Outcome(done.returncode, done.stdout, done.stderr, [_read(path) for path in folders])


def compiler() -> str | None:
    """A C++ compiler, or None."""
    return next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)


def cuda_headers() -> Path | None:
    """The folder with cuda.h and cupti.h, or None."""
    wanted = [os.environ.get("WARPSIGHT_CUDA_INCLUDE"), "/usr/local/cuda/include"]
    if os.environ.get("CUDA_HOME"):
        wanted.append(os.environ["CUDA_HOME"] + "/include")
    for folder in wanted:
        if folder and all(
            (Path(folder) / name).is_file() for name in ("cuda.h", "cupti.h", "cuda_runtime_api.h")
        ):
            return Path(folder)
    return None

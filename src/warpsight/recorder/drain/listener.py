"""The launcher's socket, through which recorded processes hand over their arenas (the handshake of `Target`)."""

from __future__ import annotations

import array
import json
import os
import re
import shutil
import socket
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.capture import arena_files
from warpsight.errors import WarpsightError

#: sun_path without its final zero.
_LONGEST_PATH = 107
_HELLO = re.compile(rb"hello 1 (\d+) ([0-9a-f]{1,16})")
_ASK = re.compile(rb"ask 1 (\{.*\})", re.DOTALL)
_LONGEST_REQUEST = 4096
_MOST_REFUSED = 100
#: Maximum processes between a launcher and a recorded one.
_DEEPEST = 100
_JOIN = re.compile(rb"join 1 (\d+)")


class Listener:
    """A listening SOCK_SEQPACKET socket in a folder only this user can enter; :meth:`close` removes both.

    Beside the socket is `arenas`, a link to a folder in memory where recorded processes make their arenas: they survive even if
    both processes are killed (:mod:`warpsight.capture.arena_files`).
    """

    def __init__(self) -> None:
        self.folder = Path(_private_folder())
        self.path = str(self.folder / "s")
        #: Process and user ids of rejected peers, as far as :meth:`accept` kept them.
        self.refused: list[tuple[int, int]] = []
        #: None if there is no such file system.
        self.arenas = arena_files.create()
        try:
            if self.arenas is not None:
                (self.folder / "arenas").symlink_to(self.arenas)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.socket.bind(self.path)
            self.socket.listen(1024)
            if os.geteuid() == 0:  # a program of root's may become another user before it comes here
                self.folder.chmod(0o711)
                os.chmod(self.path, 0o666)
            self.socket.setblocking(False)
        except OSError as error:
            self._remove()
            raise WarpsightError(f"no socket can be created at {self.path}: {error.strerror}") from None

    def accept(self) -> socket.socket | None:
        """The next connection from this user, or from a process of this recording's program; or None."""
        for _ in range(_MOST_REFUSED):  # who is refused may come again at once
            try:
                connection, _ = self.socket.accept()
            except OSError:  # no peer, or too many open files: the peer waits and is accepted later
                return None
            pid, uid = peer(connection)
            if uid in (os.getuid(), 0) or (os.geteuid() == 0 and _is_descendant(pid)):
                connection.setblocking(False)
                return connection
            if len(self.refused) < _MOST_REFUSED:
                self.refused.append((pid, uid))
            answer(connection, "no another user's recording")
            connection.close()
        return None

    def close(self) -> None:
        """Stop listening and drop the arenas, whose rows have been written or belong to no recording."""
        self.socket.close()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.arenas is not None:
            shutil.rmtree(self.arenas, ignore_errors=True)


@dataclass(frozen=True)
class Hello:
    """The first message of a connection: a process with its arena, a process to wait for (fd -1), or a request."""

    arena: str
    fd: int
    #: JSON from a client that sends a request to the recording, not one of its processes.
    request: str = ""


def hear(connection: socket.socket) -> Hello | None:
    """Receive the first message of a connection.

    Raises:
        BlockingIOError: when it has not arrived yet.
        ValueError: when it is not the handshake.
        OSError: when the connection is broken.
    """
    fds = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(_LONGEST_REQUEST, socket.CMSG_LEN(8 * fds.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    hello, join = _HELLO.fullmatch(data), _JOIN.fullmatch(data)
    if hello and len(fds) == 1:
        return Hello(hello[2].decode().rjust(16, "0"), fds[0])
    for fd in fds:
        os.close(fd)
    if (asked := _ASK.fullmatch(data)) and not fds:
        return Hello("", -1, asked[1].decode("utf-8", "replace"))
    if join and not fds:
        return Hello("", -1)
    if not data:
        return None
    raise ValueError("not the handshake of this version")


def _is_descendant(pid: int) -> bool:
    """Whether a process is a descendant of this one."""
    for _ in range(_DEEPEST):
        if pid <= 1:
            return False
        try:
            lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        except OSError:
            return False
        pid = next((int(line.split()[1]) for line in lines if line.startswith("PPid:")), 0)
        if pid == os.getpid():
            return True
    return False


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process id and user id of the other side; the process id is 0 if it is in another container."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def answer(connection: socket.socket, text: str) -> bool:
    """Send one message; False if the other side is gone."""
    try:
        connection.send(text.encode(errors="surrogateescape"), socket.MSG_NOSIGNAL)
    except OSError:
        return False
    return True


def reachable(path: str) -> bool:
    """Whether a recording listens at a socket path."""
    return knock(path, "")


def knock(path: str, message: str) -> bool:
    """Connect, send a message (empty by default), and wait for an answer; False if that fails or is refused."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(path)
            if not message:
                return True
            connection.send(message.encode())
            return connection.recv(256).startswith(b"ok")
    except OSError:
        return False


def ask(path: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send a request to the recording that listens at `path`, and wait for its answer.

    Raises:
        WarpsightError: when nobody listens, no answer arrives in time, or the request is refused.
    """
    message = b"ask 1 " + json.dumps(request).encode()
    if len(message) > _LONGEST_REQUEST:
        raise WarpsightError(f"the request is longer than {_LONGEST_REQUEST} bytes")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(seconds)
            connection.connect(path)
            connection.send(message)
            data = connection.recv(65536)
    except TimeoutError:
        raise WarpsightError(f"the recording did not answer within {seconds:g} s") from None
    except OSError as error:
        raise WarpsightError(
            f"no recording listens at {path}: {(error.strerror or str(error)).lower()}"
        ) from None
    if not data.startswith(b"{"):
        reason = data.decode("utf-8", "replace").removeprefix("no ")
        raise WarpsightError(f"the recording refused: {reason or 'it has ended'}")
    found: dict[str, Any] = json.loads(data)
    if "error" in found:
        raise WarpsightError(str(found["error"]))
    return found


def _private_folder() -> str:
    """A new folder with mode 0700 whose path is short enough for a socket."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp", "/dev/shm"):
        if not parent or len(os.fsencode(parent)) > _LONGEST_PATH - 24:
            continue
        try:
            return tempfile.mkdtemp(prefix="warpsight-", dir=parent)
        except OSError:
            continue
    raise WarpsightError(
        "no folder for the recording's socket: set TMPDIR to a writable folder with a short path"
    )

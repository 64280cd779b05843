"""One recorded process: its arena, its connection and its exit."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from warpsight.capture.segments import layout
from warpsight.recorder import output
from warpsight.recorder.drain.arena import ArenaHeader, Drainer

#: A connection closes a moment before its process becomes a zombie; after this long, it was an exec instead.
_EXEC_AFTER_S = 0.3


@dataclass(frozen=True)
class Ending:
    """How a process's recording ended, in the converter's form."""

    pid: int
    arena: str
    exit: str
    end: int
    #: It exited without its exit handlers: killed, aborted, or by _exit.
    abrupt: bool = False

    def to_json(self) -> dict[str, object]:
        """A row of the converter's `finish` request."""
        return {"pid": self.pid, "arena": self.arena, "exit": self.exit, "end": self.end}


class AwaitedProcess:
    """A process to wait for: through its descriptor if it is visible from here, otherwise only through its connection."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection: socket.socket | None = connection
        self.pid = pid
        self.pidfd = _open_pid(pid)
        self._ticks = output.process_ticks(pid)

    def descriptors(self) -> list[int]:
        """The descriptor that becomes readable on any event of the process."""
        found = [self.connection.fileno()] if self.connection else []
        return [*found, self.pidfd] if self.pidfd >= 0 else found

    @property
    def dead(self) -> bool:
        """Whether the process has exited; unknown if it is not visible from here."""
        if self.pidfd >= 0:
            return bool(select.select([self.pidfd], [], [], 0)[0])
        return bool(self._ticks) and output.process_ticks(self.pid) != self._ticks

    def hung_up(self) -> bool:
        """Whether the other side has closed the connection; it is then closed here too."""
        if self.connection is None:
            return True
        try:
            if self.connection.recv(256, socket.MSG_DONTWAIT):
                return False
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.connection.close()
        self.connection = None
        return True

    def close(self) -> None:
        """Close the descriptors."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class DrainTarget(AwaitedProcess):
    """A process whose rings are drained into `folder`.

    Raises:
        OSError, ValueError: when it sent an invalid arena; the caller then keeps `fd`.
    """

    def __init__(
        self, connection: socket.socket, pid: int, fd: int, folder: Path, arenas: Path | None
    ) -> None:
        self.header = ArenaHeader(fd)
        try:
            if self.header.arena != folder.name:
                raise ValueError("the arena's id is not the one announced")
            self.drainer = Drainer(fd, folder)
        except (OSError, ValueError):
            self.header.close()
            raise
        super().__init__(connection, pid)
        self.arena = folder.name
        self._inode = os.fstat(fd).st_ino
        self._fd = fd
        self._file = arenas / folder.name if arenas is not None else None
        self._hung_up_at = 0.0
        self._without_connection = False

    def ended(self) -> str | None:
        """How the recording of this process ended; None while it continues."""
        if self.dead:
            return _exit_of_zombie(self.pid)
        if not self.hung_up():
            return None
        if self.header.state == layout.STATE_STOPPED:
            return "unknown"
        if self._without_connection:
            return "exec" if not self._mapped() else None
        if not self._hung_up_at:
            self._hung_up_at = time.monotonic()
            # A program may close every descriptor it finds, ours too, and go on: its rings still work.
            self._without_connection = self._mapped()
            return None
        if time.monotonic() - self._hung_up_at < _EXEC_AFTER_S:
            return None
        return "exec" if self.pidfd >= 0 else "unknown"

    def finish(self) -> int:
        """Take the last rows and release everything; 0 or -errno of writing them."""
        result = self.drainer.close()
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        self.header.close()
        os.close(self._fd)
        self.close()
        return result

    def _mapped(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as maps:
                return any("warpsight" in line and line.split()[4] == str(self._inode) for line in maps)
        except OSError:
            return False


def _exit_of_zombie(pid: int) -> str:
    """`exit N` or `signal N` of a process that has exited but not been reaped, otherwise `unknown`."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "unknown"
    return exit_text(int(parts[49])) if parts[0] in "ZX" and len(parts) > 49 else "unknown"


def exit_text(status: int) -> str:
    """A wait status in words: `exit N` or `signal N`."""
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


#: Signals used to end programs on purpose.
_ENDING = {
    f"signal {number.value}" for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
}


def crashed(text: str) -> bool:
    """Whether an :func:`exit_text` describes a crash: a signal that is not normally used to end a program."""
    return text.startswith("signal") and text not in _ENDING


def _open_pid(pid: int) -> int:
    if pid <= 0:
        return -1
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1

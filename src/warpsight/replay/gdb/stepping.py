"""The replay that a debugger steps through: a `warpsight-replay` that takes instructions line by line."""

from __future__ import annotations

from pathlib import Path

from warpsight.errors import WarpsightError
from warpsight.replay import execution, results
from warpsight.replay.script import WrittenScript

#: Bytes of one command at most; larger reads and writes go in parts.
_MOST = 1 << 20


class SteppingError(WarpsightError):
    """An operation failed, or memory does not belong to the capsule."""


class Stepping:
    """Operations one by one, with access to memory between them; `position`: how many were issued."""

    def __init__(self, written: WrittenScript, folder: Path) -> None:
        self._folder = folder
        self._process = execution.start_stepping(written, folder)
        self.position = 0
        self.restart()

    def step(self) -> None:
        """Run the next step.

        Raises:
            SteppingError: when it fails.
        """
        self._ask("step", "at")
        self.position += 1

    def restart(self) -> None:
        """Restore the contents from before the first step."""
        self._ask("restart", "at")
        self.position = 0

    def read(self, address: int, size: int) -> bytes:
        """Read device memory.

        Raises:
            SteppingError: when the memory does not belong to the capsule.
        """
        data = b""
        while len(data) < size:
            part = min(_MOST, size - len(data))
            self._ask(f"read {address + len(data):x} {part}", "bytes")
            assert self._process.stdout is not None
            data += self._process.stdout.read(part)
        return data

    def write(self, address: int, data: bytes) -> None:
        """Change device memory.

        Raises:
            SteppingError: when the memory does not belong to the capsule.
        """
        for at in range(0, len(data), _MOST):
            part = data[at : at + _MOST]
            self._ask(f"write {address + at:x} {len(part)}", "ok", part)

    def close(self) -> None:
        """End the replay."""
        self._process.kill()
        self._process.wait()

    def _ask(self, command: str, wanted: str, data: bytes = b"") -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(command.encode() + b"\n" + data)
            stdin.flush()
            answer = stdout.readline().decode("ascii", "replace").split()
        except OSError:
            answer = []
        if not answer or answer[0] != wanted:
            failure = results.read(self._folder / "results").failure
            said = f"{failure.error} {failure.what}" if failure else " ".join(answer) or "the replay ended"
            raise SteppingError(said)


def open_stepping(written: WrittenScript, folder: Path) -> Stepping:
    """Start a replay at its beginning, at other addresses if one is taken.

    Raises:
        WarpsightError: when it cannot be started here.
    """
    for _ in range(execution.TRIES):
        try:
            return Stepping(written, folder)
        except SteppingError:
            found = results.read(folder / "results")
            if found.taken is None:
                raise
    raise WarpsightError("an address of the recording is taken in each process: nothing was replayed")

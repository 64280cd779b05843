"""The other side of :mod:`warpsight.recorder.serve`: a recording server in a child process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder.child import python_command
from warpsight.recorder.environment import without_recorder
from warpsight.recorder.options.settings import Settings


class _ServerError(WarpsightError):
    """The recording's server could not start or ended early."""


class Served:
    """A running server. It survives this process, so no rows are lost if this process crashes."""

    def __init__(self, path: Path, settings: Settings, *, force: bool = False, watch: int = 0) -> None:
        """Start it and wait until it listens.

        Raises:
            _ServerError: with the server's own message when it cannot record.
        """
        self._lock = threading.Lock()  # one request at a time
        self._process = subprocess.Popen(
            python_command("warpsight.recorder.serve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=without_recorder(os.environ), start_new_session=True,  # the terminal's signals are for the program
        )  # fmt: skip
        try:
            request = {
                "path": str(path.absolute()),
                "settings": settings.to_json(),
                "force": force,
                "watch": watch,
            }
            answer = self._ask(request)
        except BaseException:
            self._close()
            raise
        self.socket: str = answer["socket"]
        self.folder = Path(answer["folder"])

    def statistics(self) -> dict[str, int]:
        """Processes, bytes and lost rows so far, and the duration in ns."""
        found = self._ask({"do": "statistics"})["statistics"]
        return {str(name): int(value) for name, value in found.items()}

    def opencl_is_late(self) -> None:
        """If the trace gets no device work, let it say that the OpenCL loader was loaded before the recorder."""
        self._ask({"do": "opencl is late"})

    def finish(self) -> dict[str, Any]:
        """Complete the trace and wait for it.

        Raises:
            _ServerError: when it could not be completed; the raw data is kept.
        """
        try:
            return dict(self._ask({"do": "finish"})["finished"])
        finally:
            self._close()

    def leave(self) -> None:
        """Stop talking to the server, which ends together with the process it watches."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.returncode = 0  # not waited for

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            line = ""
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                line = self._process.stdout.readline()
        if not line:
            raise _ServerError(
                f"the recording's server is gone (code {self._process.poll()}); if a folder was begun: warpsight recover"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            error = _ServerError(answer["error"])
            error.exit_code = int(answer.get("exit_code", 1))
            raise error
        return answer

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()

"""The converter process from the launcher's point of view: a child at nice 19 that answers requests in JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.model.storage import manifest
from warpsight.recorder.child import python_command
from warpsight.recorder.signals import without_signals

_NICE = 19
#: Maximum replacement processes: if more of them are killed, something kills all of them.
_REPLACEMENTS = 3


class ConverterError(WarpsightError):
    """The converter failed; the raw data is kept."""


class ConverterProcess:
    """Requests one conversion at a time. A killed process is replaced by one that continues from the state on disk."""

    def __init__(self, folder: Path | None, *log: str) -> None:
        """Start it; `log` is the file of the kernel log and its style of stacks, or empty.

        Without a folder it only gets ready, until :meth:`open` names one.
        """
        self._folder = folder
        self._log = log
        self._lock = threading.RLock()  # protects the pipe, `_asked` and the process itself
        self._left = _REPLACEMENTS
        self._start()

    def _start(self) -> None:
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._asked = 0
        self._answered = 0
        self._again = False
        self.problem = ""
        where = "-" if self._folder is None else os.fsdecode(self._folder)
        self._process = subprocess.Popen(
            python_command("warpsight.capture.converter", where, *self._log),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="surrogateescape",
            start_new_session=True,  # Ctrl-C is for the program
        )  # fmt: skip
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        self._reader = threading.Thread(
            target=self._read, args=(self._process,), name="converter answers", daemon=True
        )
        with without_signals():
            self._reader.start()

    def _replace(self) -> bool:
        """Start another process after one was killed; False after too many, or if it reported an error."""
        with self._lock:
            if self.alive:
                return True
            if self.problem or self._process.returncode >= 0 or not self._left or self._folder is None:
                return False
            self._left -= 1
            self.close()
            try:
                self._start()
            except OSError:
                return False
            return True

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still take requests."""
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether it has answered every request."""
        return self._asked == self._answered

    def open(self, folder: Path) -> None:
        """Tell a process started without a folder which folder to convert; it does not answer."""
        self._folder = folder
        self.hurry()
        with self._lock, contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"do": "open", "folder": str(folder)}) + "\n")
            self._process.stdin.flush()

    def convert(self) -> None:
        """Request conversion of closed segments; if the process is busy, the request is sent once it has answered."""
        if not self.alive and not self._replace():
            return
        self._again = not self.idle
        if not self._again:
            self._ask({"do": "convert"})

    def hurry(self) -> None:
        """Run at normal priority, because raw data is piling up or someone is waiting for the end."""
        for thread in _threads(self._process.pid):
            with contextlib.suppress(OSError):  # only root may
                os.setpriority(os.PRIO_PROCESS, thread, 0)

    def finish(
        self, request: dict[str, Any], progress: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any]:
        """Request the trace and wait for it; `progress` gets every answer meanwhile. Returns the summary.

        Raises:
            ConverterError: when it failed or died; the raw data is still there.
        """
        found = self._finish(request, progress)
        while found is None and self._replace():
            found = self._finish(request, progress)
        if found is not None:
            return found
        code = self._process.returncode
        how = self.problem or (
            f"the converter was killed by signal {-code}"
            if code < 0
            else f"the converter ended with code {code}"
        )
        raise ConverterError(
            f"the recording could not be converted: {how}. The raw data is kept: warpsight recover {self._folder}"
        )

    def _finish(
        self, request: dict[str, Any], progress: Callable[[dict[str, Any]], None] | None
    ) -> dict[str, Any] | None:
        """The summary; None if the process failed or was killed, in which case it has exited."""
        self.hurry()
        self._again = False
        self._ask({"do": "finish", **request})
        waiting = self._asked
        while waiting:
            answer = self._answers.get()
            if answer is None:
                break
            if "finished" in answer:
                self.close()
                found = answer["finished"]
                return found if isinstance(found, dict) else answer
            if "error" in answer:
                self.problem = str(answer["error"])
            if progress is not None:
                progress(answer)
            waiting = self._asked - self._taken()
        self.close()
        return self._completed()

    def _completed(self) -> dict[str, Any] | None:
        """The summary of a trace that was complete when its converter was killed."""
        if self._folder is None or not (self._folder / manifest.FILE).is_file():
            return None
        content = manifest.read(self._folder)
        shutil.rmtree(self._folder / "raw", ignore_errors=True)
        (self._folder / "recording.json").unlink(missing_ok=True)
        return {"rows": content.get("rows", {}), "loss": content.get("loss", [])}

    def kill(self) -> None:
        """Kill the process in the middle of its work, and do not start another."""
        self._left = 0
        self._process.kill()

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join(timeout=5)
        if self._process.stdout:
            self._process.stdout.close()

    def _taken(self) -> int:
        """Answers that have been taken off the queue."""
        return self._answered - self._answers.qsize()

    def _ask(self, request: dict[str, Any]) -> None:
        with self._lock:
            self._asked += 1
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            except (OSError, ValueError):
                self._answered = self._asked  # it has exited; the reader reports how

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in process.stdout:
                try:
                    answer = json.loads(line)
                except ValueError:
                    continue  # a library printed something
                if not isinstance(answer, dict):
                    continue
                if "converted" in answer or "finished" in answer or "error" in answer:
                    self._answered += 1
                    if self._again and self.idle:
                        self.convert()
                self._answers.put(answer)
        process.wait()
        self._answers.put(None)


def _threads(pid: int) -> list[int]:
    """Thread ids of a process: on Linux priorities belong to threads."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []

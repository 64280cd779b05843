"""The converter process as the launcher sees it: a child at nice 19 that is asked and answers in JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder.child import python_command

_NICE = 19


class ConverterError(WarpsightError):
    """The converter failed; the raw data is kept."""


class Converter:
    """Asks for conversions one at a time. When the process dies, requests do nothing and :meth:`finish` says so."""

    def __init__(self, folder: Path | None, *log: str) -> None:
        """Start it; `log` is the file of the kernel log and how stacks stand in it, or nothing.

        Without a folder it only gets ready, until :meth:`open` names one.
        """
        self._folder = folder
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._asked = 0
        self._answered = 0
        self._again = False
        self._lock = threading.Lock()  # protects the pipe and `_asked`
        self.problem = ""
        self._process = subprocess.Popen(
            python_command("warpsight.capture.converter", "-" if folder is None else str(folder), *log),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,  # Ctrl-C is for the program
        )  # fmt: skip
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        self._reader = threading.Thread(target=self._read, name="converter answers", daemon=True)
        before = signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # signals are for the main thread
        self._reader.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether it has answered everything it was asked."""
        return self._asked == self._answered

    def open(self, folder: Path) -> None:
        """Say which folder is to be converted, to one that was started without; not answered."""
        self._folder = folder
        self.hurry()
        with self._lock, contextlib.suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"do": "open", "folder": str(folder)}) + "\n")
            self._process.stdin.flush()

    def convert(self) -> None:
        """Ask for conversion of what is closed; while it is busy with the last request, when it has answered that."""
        self._again = not self.idle
        if not self._again and self.alive:
            self._ask({"do": "convert"})

    def hurry(self) -> None:
        """Run at normal priority: raw data piles up, or somebody waits for the end."""
        for thread in _threads(self._process.pid):
            with contextlib.suppress(OSError):  # only root may
                os.setpriority(os.PRIO_PROCESS, thread, 0)

    def finish(
        self, request: dict[str, Any], progress: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any]:
        """Ask for the trace and wait for it; `progress` gets every answer on the way. Returns the summary.

        Raises:
            ConverterError: when it failed or died; the raw data is still there.
        """
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
        code = self._process.returncode
        how = self.problem or (
            f"the converter was killed by signal {-code}"
            if code < 0
            else f"the converter ended with code {code}"
        )
        raise ConverterError(
            f"the recording could not be converted: {how}. The raw data is kept: warpsight recover {self._folder}"
        )

    def close(self) -> None:
        """End the process: it has nothing left to do, or nobody wants it."""
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
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
                self._answered = self._asked  # it is gone; the reader says how

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
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
        self._process.wait()
        self._answers.put(None)


def _threads(pid: int) -> list[int]:
    """Thread ids of a process: on Linux priorities belong to threads."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []

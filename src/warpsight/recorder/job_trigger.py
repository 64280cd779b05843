"""Recording that starts and stops on all ranks of a job at the same step or time, for `warpsight cluster trigger`.

The request is a file in the folder of the job, which all ranks can read because they write there; nothing listens on a network or
runs beside the job. Each launcher looks for the file, carries out the request, and reports in a file in its own folder. We
rejected requests over each launcher's socket, which is reachable only from its own host, and polling each rank's step from
outside, because a step can be shorter than a poll. Instead, the processes count steps themselves and switch inside `ws.step()`.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from warpsight.model.storage import manifest
from warpsight.recorder.drain.arena import RECORD
from warpsight.recorder.drain.drain_loop import DrainLoop

REQUEST, TAKEN = "trigger.json", "trigger.taken.json"
#: Seconds between checks for a request.
LOOK_S = 0.1


@dataclass(frozen=True)
class TriggerRequest:
    """When to record: for some seconds from a time on, or for some steps from a step on.

    Attributes:
        id: Distinguishes requests.
        at: Begin, seconds of the wall clock; None with steps.
        seconds: Length; 0: to the end.
        step: Number of steps that have ended when recording begins, from 1; None with a time.
        steps: How many are recorded; 0: to the end.
    """

    id: str
    at: float | None = None
    seconds: float = 0.0
    step: int | None = None
    steps: int = 0

    @property
    def text(self) -> str:
        """When, in words."""
        if self.step is not None:
            return f"from step {self.step} " + (f"for {self.steps} steps" if self.steps else "to the end")
        begin = time.strftime("%H:%M:%S", time.localtime(self.at))
        return f"from {begin} " + (f"for {self.seconds:g} s" if self.seconds else "to the end")


@dataclass(frozen=True)
class Taken:
    """A launcher's answer to a request.

    Attributes:
        id: The request.
        processes: How many processes it records.
        late: How many of them were past the step.
        late_s: How long after its time the request was read, s.
    """

    id: str
    processes: int
    late: int = 0
    late_s: float = 0.0


def ask(folder: Path, request: TriggerRequest) -> None:
    """Leave a request for the launchers that record into a folder or below it."""
    manifest.write_json(folder / REQUEST, asdict(request))


def new_id() -> str:
    """A name for a request."""
    return secrets.token_hex(8)


def taken(folder: Path) -> Taken | None:
    """The last answer of a folder's launcher."""
    try:
        return Taken(**json.loads((folder / TAKEN).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


class JobTrigger:
    """Looks for requests and carries them out."""

    def __init__(self, folder: Path, loop: DrainLoop) -> None:
        """`folder` is the recording's; a job's folder is its parent."""
        self._folder = folder
        self._loop = loop
        self._places = [folder / REQUEST]
        if folder.name.startswith("rank="):
            self._places.append(folder.parent / REQUEST)
        self._done: set[str] = {one.id for one in self._requests()}  # of an earlier recording
        self._notes: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trigger", daemon=True)

    def start(self) -> None:
        """Start looking for requests."""
        self._thread.start()

    def stop(self) -> list[str]:
        """Stop recording; returns sentences about what was recorded and why nothing else was."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        for name in (REQUEST, TAKEN):
            (self._folder / name).unlink(missing_ok=True)
        return self._notes or ["--on-trigger: no `warpsight cluster trigger` came, so nothing was recorded"]

    def _requests(self) -> list[TriggerRequest]:
        found = []
        for place in self._places:
            try:
                found.append(TriggerRequest(**json.loads(place.read_text(encoding="utf-8"))))
            except (OSError, ValueError, TypeError):
                continue  # none, or one from another version
        return found

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            for request in self._requests():
                if request.id not in self._done:
                    self._done.add(request.id)
                    self._do(request)

    def _do(self, request: TriggerRequest) -> None:
        processes = self._loop.running
        late = 0
        if request.step is not None:
            first, last = request.step, request.step + request.steps if request.steps else 0
            late = sum(one.header.steps >= first for one in processes)
            self._loop.on_target = lambda target: target.header.set_steps(first, last)
            for one in processes:
                one.header.set_steps(first, last)
        late_s = max(time.time() - request.at, 0.0) if request.at is not None else 0.0
        past = f"; {late} processes were past that step" if late else ""
        past = f"; it was read {late_s:.1f} s too late" if late_s else past
        self._notes.append(f"a trigger asked to record {request.text}{past}")
        manifest.write_json(self._folder / TAKEN, asdict(Taken(request.id, len(processes), late, late_s)))
        if request.at is not None:
            self._timed(request.at, request.seconds)

    def _timed(self, at: float, seconds: float) -> None:
        """Record from a moment of the wall clock on, for some seconds."""
        if self._wait_until(at):
            self._loop.set_control(RECORD)
            if seconds and self._wait_until(at + seconds):
                self._loop.set_control(0)

    def _wait_until(self, moment: float) -> bool:
        """Wait for a wall-clock time; False if the recording ends first."""
        while (left := moment - time.time()) > 0:
            if self._stopping.wait(min(left, 0.5)):
                return False
        return not self._stopping.is_set()

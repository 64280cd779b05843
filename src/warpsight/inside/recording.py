"""Recording from inside a program: `with ws.record("run.warp") as recording: … ws.step()`."""

from __future__ import annotations

import errno
import os
import threading
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from warpsight.errors import UsageError, WarpsightError
from warpsight.inside import capsules
from warpsight.inside.events import library
from warpsight.machine import opencl_layer
from warpsight.recorder.environment import SOCKET, recorder_variables
from warpsight.recorder.options import table as rows
from warpsight.recorder.options.keywords import takes_options
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.served import Served

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from warpsight.recorder.options.types import RecordingOptions

_lock = threading.RLock()
_current: list[Recording] = []
#: Whether an OpenCL loader started during a recording and loaded the recorder as a layer.
_has_layer: list[bool] = []
#: The environment as the library read it on its first use in this process; it is read only once.
_effective: list[dict[str, str]] = []


class Recording:
    """A recording of this process (and of children it starts meanwhile). After :meth:`stop` the trace is complete."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        skip: int = 0,
        steps: int = 0,
        force: bool = False,
        **options: Unpack[RecordingOptions],
    ) -> None:
        """Does nothing yet; see :func:`record` for the arguments.

        Raises:
            UsageError: for unknown options or invalid values.
        """
        if skip < 0 or steps < 0:
            raise UsageError("skip and steps must be 0 or more")
        self.settings = Settings.of(options)
        self.path = Path(path)
        #: Rows by table, loss and cost; known after :meth:`stop`.
        self.summary: dict[str, Any] = {}
        self._skip, self._steps, self._force = skip, steps, force
        self._done_steps = 0
        self._server: Served | None = None
        self._attached = False
        self._before: dict[str, str | None] = {}
        self._counts = (0, 0)
        self._began = 0
        self._opencl_before = False

    def start(self) -> Recording:
        """Start the server, and record at once unless steps are to be skipped.

        Raises:
            WarpsightError: when this process is being recorded already, or nothing can be recorded.
        """
        with _lock:
            if _current:
                raise WarpsightError(f"this process is being recorded into {_current[-1].path} already")
            found = library.use()
            if found.ws_recording() or (
                os.environ.get(SOCKET) and found.ws_start(None) in (0, -errno.EALREADY)
            ):
                warnings.warn("this program is being recorded from outside; that recording continues, and "
                              f"{self.path} is not created", stacklevel=3)  # fmt: skip
                return self
            self._begin()
        return self

    def _begin(self) -> None:
        variables = recorder_variables(self.settings, os.environ)
        _check_unchanged(self.settings)
        self._server = Served(self.path, self.settings, force=self._force)
        self.path = self._server.folder
        self._began = time.monotonic_ns()
        self._set_environment({**variables, SOCKET: self._server.socket})
        self._opencl_before = opencl_layer.in_use()
        if self._opencl_before and not _has_layer:
            self._server.opencl_is_late()
        _current.append(self)
        if not self._skip:
            self._attach()

    def step(self) -> None:
        """End an iteration: begin or end recording according to the schedule, and mark the step in the trace."""
        if self._server is None:
            _outside.step()
            return
        self._done_steps += 1
        if self._attached:
            _mark_step(self._done_steps)
        if not self._attached and self._done_steps == self._skip:
            self._attach()
        elif self._attached and self._steps and self._done_steps == self._skip + self._steps:
            self._detach()

    def stop(self) -> dict[str, Any]:
        """End the recording and wait until the trace is readable. Returns its summary; a second call does nothing.

        Raises:
            WarpsightError: when the trace could not be completed; raw data is kept for `warpsight recover`.
        """
        with _lock:
            server, self._server = self._server, None
            if server is None:
                return self.summary
            self._detach()
            self._restore_environment()
            _current.remove(self)
            if not self._opencl_before and opencl_layer.in_use():
                _has_layer.append(True)
            self.summary = server.finish()
        for one in self.summary.get("loss", []):
            if str(one.get("cause", "")).startswith(("kernel pattern ", "OpenCL was in use")):
                warnings.warn(f"{self.path}: {one['cause']}", stacklevel=2)
        return self.summary

    def statistics(self) -> dict[str, int]:
        """Rows this process emitted, kept and lost so far, bytes drained, processes, and the duration in ns."""
        written, dropped = self._count() if self._attached else self._counts
        out = {
            "emitted": written + dropped,
            "kept": written,
            "dropped": dropped,
            "duration": 0,
            "processes": 0,
            "bytes": 0,
        }
        if self._server is not None:
            found = self._server.statistics()
            out |= {
                "duration": time.monotonic_ns() - self._began,
                "processes": found["processes"],
                "bytes": found["bytes"],
            }
        return out

    def _attach(self) -> None:
        """Connect this process to the server: everything from here on is recorded."""
        assert self._server is not None
        result = library.use().ws_start(self._server.socket.encode())
        if result:
            server, self._server = self._server, None
            self._restore_environment()
            _current.remove(self)
            server.finish()
            why = " (a forked child of a process that used a GPU)" if -result == errno.ENOTSUP else ""
            raise WarpsightError(f"this process cannot be recorded: {os.strerror(-result)}{why}")
        self._attached = True

    def _detach(self) -> None:
        if self._attached:
            self._counts = self._count()
            library.use().ws_stop()
            self._attached = False

    def _count(self) -> tuple[int, int]:
        found = library.use()
        return int(found.ws_statistics(0)), int(found.ws_statistics(1))

    def _set_environment(self, variables: dict[str, str]) -> None:
        """For children started meanwhile, and for libraries that read it at first use."""
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)

    def _restore_environment(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {}

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _check_unchanged(settings: Settings) -> None:
    """The library reads its options once; refuse different ones later rather than ignore them."""
    wanted = settings.variables()
    if not _effective:
        _effective.append(wanted)
    changed = sorted(
        name for name in wanted.keys() | _effective[0].keys() if wanted.get(name) != _effective[0].get(name)
    )
    if changed:
        raise UsageError(f"{', '.join(changed)} cannot change after the first recording of a process: it had "
                         + ", ".join(str(_effective[0].get(name, "none")) for name in changed))  # fmt: skip


@takes_options(rows.RECORDING)
def record(path: str | os.PathLike[str], *, skip: int = 0, steps: int = 0, force: bool = False,
           **options: Unpack[RecordingOptions]) -> Recording:  # fmt: skip
    """Record this process: `with ws.record("run.warp"):`. After the block the trace can be opened.

    Args:
        path: The folder to create; it must not exist unless `force`.
        skip: Calls of :func:`step` to skip before recording begins.
        steps: Steps to record, then stop; 0 records to the end of the block.
        force: Replace an existing trace.
        options: See docs/reference/options.md.

    Raises:
        UsageError: for unknown options or invalid values.
    """
    return Recording(path, skip=skip, steps=steps, force=force, **options)


@takes_options(rows.RECORDING)
def start(path: str | os.PathLike[str], *, skip: int = 0, steps: int = 0, force: bool = False,
          **options: Unpack[RecordingOptions]) -> Recording:  # fmt: skip
    """Begin to record this process; :func:`stop` ends it. Arguments as in :func:`record`."""
    return record(path, skip=skip, steps=steps, force=force, **options).start()


def stop() -> dict[str, Any]:
    """End the recording that :func:`start` or :func:`record` began and return its summary; empty without one."""
    return _current[-1].stop() if _current else {}


class _Outside:
    """The recording of this process that was started from outside, by `warpsight record` or `attach`."""

    def step(self) -> None:
        """Mark the end of an iteration in the trace; the launcher may start or stop recording here."""
        found = library.get()
        if found is not None:
            found.ws_step()

    def statistics(self) -> dict[str, int]:
        """Rows of this process, and for how long it has been recorded (ns); empty when nothing records."""
        if not library.recording():
            return {}
        found = library.use()
        written, dropped, duration = (int(found.ws_statistics(which)) for which in range(3))
        return {"emitted": written + dropped, "kept": written, "dropped": dropped, "duration": duration}


_outside = _Outside()


def _mark_step(number: int) -> None:
    library.use().ws_emit(b"step", 0, 0, b"step", b'{"step":%d}' % number)


def step() -> None:
    """Mark the end of an iteration of the program's main loop."""
    capsules.step_ended()
    if _current:
        _current[-1].step()
    else:
        _outside.step()


def statistics() -> dict[str, int]:
    """Statistics of the running recording; empty without one.

    Rows that this process emitted, kept and lost, and the duration in ns; for a recording that the process started itself
    also processes and bytes (:meth:`Recording.statistics`).
    """
    return _current[-1].statistics() if _current else _outside.statistics()

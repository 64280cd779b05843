"""The heart of a recording: output folder, socket, drainer, converter, counters and samples, from start to summary.

The launcher (`warpsight record`) runs one in its own process; `warpsight.record` inside a program starts
`python -m warpsight.recorder.server --serve` and talks to it over pipes (:mod:`warpsight.recorder.serve`).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight import _native
from warpsight.errors import WarpsightError
from warpsight.model.any_bytes import storable
from warpsight.recorder import output
from warpsight.recorder.descriptors import raise_limit
from warpsight.recorder.drain.arena import RECORD, STOP, OwnRows
from warpsight.recorder.drain.converter import ConverterProcess
from warpsight.recorder.drain.drain_loop import DrainLoop
from warpsight.recorder.drain.listener import Listener
from warpsight.recorder.drain.raw_bound import RawBound
from warpsight.recorder.drain.target import DrainTarget, Ending, exit_text
from warpsight.recorder.environment import SOCKET, recorder_variables
from warpsight.recorder.options.left_out import left_out, of_cuda_alone
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.requests import Answer, Requests
from warpsight.recorder.sampling.counters import CounterSampler
from warpsight.recorder.sampling.threads import HostSampler
from warpsight.recorder.signals import without_signals
from warpsight.recorder.summary import RecordingSummary
from warpsight.recorder.unrecorded import Unrecorded

if TYPE_CHECKING:
    from warpsight.recorder.ring.recorder import RingRecorder, Trigger

#: How long a process may take to hand over its last rows after it was asked to stop.
_STOP_S = 2.5
#: Arming GPU core dumps, see session/watch/coredump.py.
_DUMPS = ("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_ENABLE_USER_TRIGGERED_COREDUMP")
#: Ends of child processes that are remembered.
_MOST_STATUSES = 65_536

#: Record kinds reported by a runtime inside the traced process, by the name of that runtime; processes report which ones they
#: used.
_UNHEARD = {
    "openmp": "no OpenMP runtime with a tools interface (GCC's has none)",
    "openacc": "no OpenACC runtime",
}


class CannotRecordError(WarpsightError):
    """This process lacks something that recording needs: descriptors, addresses, disk space."""


def _load_library() -> None:
    try:
        _native.load()
    except (_native.NativeMissingError, OSError) as error:
        raise WarpsightError(str(error)) from None


class Server:
    """One recording. Use :meth:`start`, run the program with :meth:`environment`, then :meth:`finish`."""

    def __init__(self, path: Path, settings: Settings, *, force: bool = False, job: str = "") -> None:
        """Create the output folder, and do everything that can fail before a program runs.

        Raises:
            OutputError: when the folder cannot be made.
            CannotRecordError: when a limit of this process is too low.
            WarpsightError: when this installation cannot record.
        """
        self.settings = settings
        #: Sets a child's limits to those that this process was started with.
        self.restore_limits = raise_limit()
        _load_library()
        self.folder = output.create(path, force=force)
        self._began, self._cpu = time.monotonic_ns(), time.process_time_ns()
        self._timers: list[threading.Timer] = []
        self._statuses: dict[int, int] = {}
        self._losses: list[dict[str, Any]] = []
        self._topology: dict[str, Any] = {}
        self._log_path: Path | None = None
        self._command: list[str] = []
        self._drained = threading.Event()
        #: Control words for a detached process: pause (0), or stop permanently (STOP).
        self.detach_bits = 0
        with contextlib.ExitStack() as undo:
            undo.callback(output.discard, self.folder)
            undo.enter_context(_limits())
            self._listener = Listener()
            undo.callback(self._listener.close)
            self.own = OwnRows(self._listener.arenas)
            output.announce(self.folder, self._listener.path, job, self._listener.arenas)
            control = 0 if settings.delay or settings.on_trigger else RECORD
            self._converter: ConverterProcess | None = None
            self.ring: RingRecorder | None = None
            self._bound: RawBound | None = None
            if settings.ring:
                self._loop, self.ring = self._ringed(control)
            else:
                self._converter = ConverterProcess(self.folder, *self._kernel_log(force, undo))
                undo.callback(self._converter.close)
                self._bound = RawBound(self.folder, self.own, self._converter, settings.max_size * 1_000_000,
                                       lambda: self.statistics()["bytes"])  # fmt: skip
                self._loop = DrainLoop(self.folder, self._listener, self.own, self._bound, control)
                self._loop.on_segments = self._converter.convert
            undo.pop_all()
        self._loop.on_request = Requests(self._answers()).take
        self._job_trigger = None
        if settings.on_trigger:
            from warpsight.recorder.job_trigger import JobTrigger

            self._job_trigger = JobTrigger(self.folder, self._loop)
        self._counters = CounterSampler(self.own, settings.counters)
        self._samples = HostSampler(
            self.own, self._loop, settings.sample, ranged=settings.capture_range != "off"
        )
        self._unrecorded = Unrecorded(
            _native.library_path() or Path(),
            lambda cause: self.note_loss("launcher", cause, severity="lost"),
            backend=settings.backend,
        )

    @property
    def socket(self) -> str:
        """Path that recorded processes connect to."""
        return self._listener.path

    @property
    def connected(self) -> int:
        """Processes that are being recorded or waited for."""
        return self._loop.connected

    @property
    def own_processes(self) -> frozenset[int]:
        """Children of this process that belong to the recorder."""
        if self.ring is not None:
            return self.ring.converters
        return frozenset((self._converter.pid,)) if self._converter is not None else frozenset()

    def start(self) -> None:
        """Start serving; `--delay` and `--for` count from here."""
        self._began, self._cpu = time.monotonic_ns(), time.process_time_ns()
        self._loop.start()
        if self.ring is not None:
            self.ring.start()
        self._counters.start()
        self._samples.start()
        if not self.settings.leave_cupti:
            self._unrecorded.start()
        if self._job_trigger is not None:
            self._job_trigger.start()
        if self.settings.delay:
            self._after(self.settings.delay, RECORD)
        if self.settings.duration:
            self._after(self.settings.delay + self.settings.duration, STOP)

    def environment(self, base: dict[str, str]) -> dict[str, str]:
        """`base` with the variables that make a program connect here.

        Raises:
            UsageError: when another tool is already injected into CUDA programs.
        """
        self._check_dumps(base)
        out = {**base, **recorder_variables(self.settings, base), SOCKET: self.socket}
        return {**out, **self.ring.environment(out)} if self.ring is not None else out

    def _check_dumps(self, base: Mapping[str, str]) -> None:
        """Note that the driver writes no GPU core dumps for a process in which CUPTI is at work."""
        armed = [name for name in _DUMPS if base.get(name) == "1"]
        if not armed or self.settings.leave_cupti or self.settings.backend not in ("auto", "cuda"):
            return
        cause = (f"{armed[0]}=1: the driver writes no GPU core dumps while CUPTI records; "
                 "`warpsight watch --on-hang dump` (or --dumps) records launches without it")  # fmt: skip
        self.note_loss("cuda", cause)
        print(f"warpsight: {cause}", file=sys.stderr)

    def record_newcomers(self) -> None:
        """Make processes that were started dormant record as soon as they connect."""
        self._loop.on_target = lambda target: target.header.set_control(RECORD)

    @property
    def targets(self) -> list[DrainTarget]:
        """Processes that are being recorded."""
        return self._loop.running

    def close_segments(self) -> None:
        """Close segments so that everything the processes have handed over is readable."""
        with self._loop.locked():
            self._loop.close_segments()
            if self.ring is not None:
                self.ring.store.collect()

    def set_control(self, bits: int) -> None:
        """Tell every process to record (RECORD), pause (0) or stop permanently (STOP)."""
        self._loop.set_control(bits)

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no recorded process is left; False after `seconds`."""
        return self._loop.wait_idle(seconds)

    def note_exit(self, pid: int, status: int) -> None:
        """Note how a child process ended (its wait status)."""
        self._statuses[pid] = status
        while len(self._statuses) > _MOST_STATUSES:
            del self._statuses[next(iter(self._statuses))]

    def note_loss(self, source: str, cause: str, *, severity: str = "note", platform: str = "") -> None:
        """Add a row to table `loss` that no recorder wrote; it applies only to a program that used no other platform.

        With platform `none` it applies only to a program that used no device.
        """
        now = time.monotonic_ns()
        row = {"source": source, "cause": cause, "severity": severity, "count": 1, "time": now, "end": now}
        self._losses.append(row | ({"platform": platform} if platform else {}))

    def statistics(self) -> dict[str, int]:
        """Processes, bytes drained and rows lost so far."""
        running = self._loop.running
        return {
            "processes": self._loop.seen,
            "bytes": self._loop.drained_bytes + sum(t.drainer.bytes for t in running),
            "lost": self._loop.lost_rows + sum(t.drainer.lost_rows for t in running),
            "duration": time.monotonic_ns() - self._began,
        }

    def finish(self, *, command: list[str] | None = None,
               progress: Callable[[dict[str, Any]], None] | None = None) -> RecordingSummary:  # fmt: skip
        """Stop recording, take the last rows and complete the trace.

        Raises:
            ConverterError: when the trace could not be made; the raw data is kept.
        """
        duration, cpu = time.monotonic_ns() - self._began, time.process_time_ns() - self._cpu
        full = self._bound.full_at if self._bound is not None else None
        for cause in left_out(self.settings, self._began, self._began + duration, full):
            self.note_loss("recorder", cause)
        if cause := of_cuda_alone(self.settings):
            self.note_loss("recorder", cause, platform="opencl")
        for kind, runtime in _UNHEARD.items():
            if kind in self.settings.trace and not self._loop.seen:
                self.note_loss(kind, f"{runtime} began in the program, and nothing in it used a GPU")
        for timer in self._timers:
            timer.cancel()
        if self._job_trigger is not None:
            for cause in self._job_trigger.stop():
                self.note_loss("recorder", cause)
        if self.ring is not None:
            self.ring.store.hold()
        self._stop_remaining()
        self._unrecorded.stop()
        self._samples.stop()
        self._counters.stop()
        if self.ring is not None:
            self.ring.stop()
        self._loop.stop()
        self._listener.close()
        self._drained.set()
        overhead = {"duration_ns": duration, "launcher_cpu_ns": cpu, "drain_cpu_ns": self._loop.cpu_ns,
                    "sampler_cpu_ns": self._samples.cpu_ns, "counter_cpu_ns": self._counters.cpu_ns}  # fmt: skip
        for site, (calls, time_ns) in self._loop.own_time.items():
            overhead |= {f"own_{site}_calls": calls, f"own_{site}_ns": time_ns}
        self._command = [storable(part) for part in command or ()]
        if self._loop.seen:
            from warpsight.machine.topology import linked_gpus  # late: a program waits while we load

            self._topology = linked_gpus()
        request = {**self._request(), "overhead": overhead}
        began = time.monotonic_ns()
        if self.ring is not None:
            finished = self.ring.final(request, progress)
        else:
            assert self._converter is not None
            finished = self._converter.finish(request, progress)
        overhead["converter_cpu_ns"] = _children_cpu_ns()
        return RecordingSummary(
            self.folder, duration, time.monotonic_ns() - began, finished, overhead, self._loop.seen
        )

    def leave(self) -> None:
        """Stop converting before this process exits; runs in another thread than :meth:`finish`. Raw data stays for `recover`."""
        self._drained.wait()
        if self._converter is not None:
            self._converter.kill()
        for pid in self.ring.converters if self.ring is not None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Give up before a program has run, leaving nothing on disk."""
        for timer in self._timers:
            timer.cancel()
        if self._job_trigger is not None:
            self._job_trigger.stop()
        self._unrecorded.stop()
        self._samples.stop()
        self._counters.stop()
        if self.ring is not None:
            self.ring.stop()
        self._loop.stop()
        if self.ring is not None:
            self.ring.close()
        if self._converter is not None:
            self._converter.kill()
            self._converter.close()
        self._listener.close()
        output.discard(self.folder)
        if self._log_path is not None:
            self._log_path.unlink(missing_ok=True)

    def _ringed(self, control: int) -> tuple[DrainLoop, RingRecorder]:
        """The drain loop and the recorder of a ring; imported here because it loads NumPy and Arrow."""
        with without_signals():
            from warpsight.recorder.ring.bound import parse as parse_bound
            from warpsight.recorder.ring.recorder import RingRecorder
            from warpsight.recorder.ring.store import ROTATE_S, RingStore
            from warpsight.recorder.ring.triggers import parse as parse_triggers

        store = RingStore(self.folder, self.own, parse_bound(self.settings.ring))
        loop = DrainLoop(self.folder, self._listener, self.own, store, control, rotate_s=ROTATE_S)
        loop.on_segments = store.collect
        ring = RingRecorder(self.folder, loop, store, self.own, parse_triggers(self.settings.triggers),
                            self.settings.after, self._request)  # fmt: skip
        loop.on_ending = lambda ending: ring.note_ending(self._with_status(ending))
        return loop, ring

    def _request(self) -> dict[str, Any]:
        """The converter's input about processes, loss and settings, as of now."""
        return {
            "processes": [ending.to_json() for ending in map(self._with_status, list(self._loop.endings))],
            "loss": list(self._losses),
            "settings": {**self.settings.to_json(), "command": self._command},
            "topology": self._topology,
            "overhead": {"duration_ns": time.monotonic_ns() - self._began,
                         "launcher_cpu_ns": time.process_time_ns() - self._cpu},
        }  # fmt: skip

    def trigger(self, reason: str) -> Trigger:
        """Have the ring write a trace of its window.

        Raises:
            WarpsightError: when this recording keeps no ring.
        """
        if self.ring is None:
            raise WarpsightError(
                f"{self.folder} is recorded as a whole, not as a ring: start it with --ring to trigger"
            )
        return self.ring.trigger(reason)

    def _answers(self) -> dict[str, Answer]:
        return {"trigger": self._answer_trigger, "status": lambda _: self._status(),
                "attach": lambda request: self._control_one(request, RECORD),
                "detach": lambda request: self._control_one(request, self.detach_bits)}  # fmt: skip

    def _control_one(self, request: dict[str, Any], bits: int) -> dict[str, Any]:
        pid = int(request.get("pid", 0))
        if not self._loop.set_control_of(pid, bits):
            raise WarpsightError(
                f"process {pid} is not connected to this recording: it has not used a GPU yet, or has ended"
            )
        return {"folder": str(self.folder), "pid": pid}

    def _answer_trigger(self, request: dict[str, Any]) -> dict[str, Any]:
        one = self.trigger(str(request.get("reason") or "asked for"))
        one.done.wait()
        if one.path is None:
            return {"error": one.error}
        return {"path": str(one.path), "rows": one.summary.get("rows", {}), "reason": one.reason}

    def _status(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "ring": self.settings.ring, **self.statistics()}

    def _kernel_log(self, force: bool, undo: contextlib.ExitStack) -> tuple[str, ...]:
        """Create the file of the kernel log; returns the settings that the converter needs for it."""
        if not self.settings.kernel_log:
            return ()
        path = output.create_file(Path(self.settings.kernel_log), force=force)
        undo.callback(path.unlink, missing_ok=True)
        self._log_path = path
        return str(path), self.settings.log_stacks

    def _after(self, seconds: float, control: int) -> None:
        timer = threading.Timer(seconds, self._loop.set_control, [control])
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _stop_remaining(self) -> None:
        """Ask processes that are still running to stop recording, and give them a moment to write their last rows."""
        if not self._loop.running:
            return
        self._loop.set_control(STOP)
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline and self._loop.running:
            time.sleep(0.005)

    def _with_status(self, ending: Ending) -> Ending:
        status = self._statuses.get(ending.pid)
        if status is None or ending.exit == "exec":
            return ending
        return Ending(ending.pid, ending.arena, exit_text(status), ending.end, ending.abrupt)


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Explain the limit that a process has hit."""
    try:
        yield
    except (OSError, MemoryError, RuntimeError) as error:
        why = (
            os.strerror(error.errno)
            if isinstance(error, OSError) and error.errno
            else str(error) or "no memory"
        )
        raise CannotRecordError(f"it cannot be recorded here ({why.lower()})") from None


def _children_cpu_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)

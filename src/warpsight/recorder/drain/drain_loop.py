"""The thread that serves recorded processes: accepts connections, drains rings, notices exits."""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from warpsight.capture.segments import layout
from warpsight.recorder.drain import listener
from warpsight.recorder.drain.arena import STOP, Drainer, OwnRows
from warpsight.recorder.drain.listener import Hello, Listener
from warpsight.recorder.drain.target import AwaitedProcess, DrainTarget, Ending
from warpsight.recorder.output import RAW

#: Seconds between visits while rows arrive, and the maximum while none do.
BUSY_S, IDLE_S = 0.005, 0.020
_CHECKPOINT_S = 1.0
ROTATE_S = 2.0
_ROTATE_BYTES = 64 << 20
#: A connection without a hello message is closed after this long.
_HELLO_S = 10.0


class _DataBound(Protocol):
    """Bounds the raw data: :class:`~warpsight.recorder.drain.raw_bound.RawBound`, or the ring of a flight recorder."""

    #: Draining is to wait.
    waiting: bool
    #: The recording is to end.
    full: bool

    def look(self) -> None:
        """Called about once a second."""

    def say_write_error(self, error: int) -> None:
        """Note that segments cannot be written."""


class DrainLoop:
    """Owns all targets. Everything on them happens under `_lock`, which the thread holds only during a visit."""

    def __init__(self, folder: Path, sockets: Listener, own: OwnRows, bound: _DataBound, control: int, *,
                 rotate_s: float = ROTATE_S) -> None:  # fmt: skip
        """`bound` limits the raw data; `rotate_s`: seconds after which segments are closed."""
        self._rotate_s = rotate_s
        self._folder = folder
        self._listener = sockets
        self._own = own
        self._bound = bound
        self._control = control
        own_raw = folder / RAW / own.arena
        self._own_drainer = Drainer(own.fd, own_raw)
        self._targets: list[DrainTarget] = []
        self._waited: list[
            AwaitedProcess
        ] = []  # joined commands: nothing to drain, but the recording waits for them
        self._strangers: list[tuple[socket.socket, float]] = []  # connected, hello not yet said
        self.endings: list[Ending] = []
        self.seen = 0
        self.drained_bytes = 0
        self.lost_rows = 0
        #: By site (layout.OWN_SITES): stays of the recorder on threads of processes that have ended, and their time in ns.
        self.own_time: dict[str, tuple[int, int]] = {}
        self.cpu_ns = 0
        self.write_error = 0
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._ended = threading.Condition(self._lock)
        self.on_target: Callable[[DrainTarget], None] | None = None
        self.on_ending: Callable[[Ending], None] | None = None
        #: Answers a request and closes the connection, without keeping this thread.
        self.on_request: Callable[[socket.socket, str], None] | None = None
        self.on_segments: Callable[[], None] | None = None
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="drainer", daemon=True)

    def start(self) -> None:
        """Begin serving."""
        self._thread.start()

    @property
    def running(self) -> list[DrainTarget]:
        """Targets that have not ended."""
        with self._lock:
            return list(self._targets)

    @property
    def connected(self) -> int:
        """Processes the recording has to wait for."""
        with self._lock:
            return len(self._targets) + len(self._waited) + len(self._strangers)

    def wait_idle(self, seconds: float) -> bool:
        """Wait until no process is connected; False after `seconds`."""
        with self._ended:
            return self._ended.wait_for(lambda: not self.connected, seconds)

    def set_control(self, bits: int) -> None:
        """Tell all processes, including future ones, to record, pause or stop."""
        with self._lock:
            self._control = bits
            for target in self._targets:
                target.header.set_control(bits)

    def set_control_of(self, pid: int, bits: int) -> bool:
        """Set one process's control word; False if it is not connected."""
        with self._lock:
            found = [target for target in self._targets if target.pid == pid]
            for target in found:
                target.header.set_control(bits)
            return bool(found)

    def stop(self) -> None:
        """Take the last rows of everything, including our own, and end the thread."""
        self._stopping.set()
        os.write(self._wake_write, b"x")
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            for target in list(self._targets):
                self._retire(target, "unknown")
            for watched in self._waited:
                watched.close()
            for connection, _ in self._strangers:
                connection.close()
            self._waited.clear()
            self._strangers.clear()
            self._own_drainer.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def close_segments(self) -> None:
        """Write the contents of the rings, open blocks included, and close the segments; under :meth:`locked`."""
        self._visit(True)
        self._rotated_at += self._unrotated()
        for drainer in (*(t.drainer for t in self._targets), self._own_drainer):
            drainer.rotate()

    def forget_endings(self, kept: set[str]) -> None:
        """Drop the exits of processes that left nothing else behind, because a ring may run for weeks."""
        with self._lock:
            self.endings = [ending for ending in self.endings if ending.arena in kept]

    def flush(self, seconds: float, *, forced: bool = False) -> None:
        """Have the processes hand over complete records (all records if `forced`), waiting only a limited time."""
        for target in self.running:
            target.header.ask_flush(forced=forced)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(t.header.flushed for t in self.running):
            time.sleep(BUSY_S)

    def _run(self) -> None:
        checkpoint, rotate = _Timer(_CHECKPOINT_S), _Timer(self._rotate_s)
        pause = BUSY_S
        while not self._stopping.is_set():
            self._sleep(pause)
            with self._lock:
                self._hear()
                self._notice_endings()
                second = checkpoint.due()
                if second:
                    self._bound.look()
                blocks = 0 if self._bound.waiting else self._visit(second)
                pause = BUSY_S if blocks else min(pause * 1.25, IDLE_S)
                if rotate.due() or self._unrotated() >= _ROTATE_BYTES:
                    self._rotate()
                if self._bound.full and not self._control & STOP:
                    self.set_control(STOP)
            self.cpu_ns = time.thread_time_ns()

    def _sleep(self, seconds: float) -> None:
        """Wait until the next visit is due, or until a process connects or exits."""
        with self._lock:
            descriptors = [self._listener.socket.fileno(), self._wake_read]
            descriptors += [c.fileno() for c, _ in self._strangers]
            for watched in (*self._targets, *self._waited):
                descriptors += watched.descriptors()
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        began = time.monotonic()
        if poll.poll(seconds * 1000):
            # A descriptor that stays readable (a zombie that nobody reaps) must not turn this into a busy loop.
            time.sleep(max(0.0, min(BUSY_S - (time.monotonic() - began), BUSY_S)) / 2)

    def _hear(self) -> None:
        while (connection := self._listener.accept()) is not None:
            self._strangers.append((connection, time.monotonic()))
        while self._listener.refused:
            pid, uid = self._listener.refused.pop()
            self._own.loss(
                "launcher",
                f"process {pid} is user {uid}'s and no child of this recording: it is not recorded",
            )
        for stranger in list(self._strangers):
            connection, since = stranger
            try:
                hello = listener.hear(connection)
            except BlockingIOError:
                if time.monotonic() - since < _HELLO_S:
                    continue
                hello = None
            except (OSError, ValueError) as error:
                listener.answer(connection, f"no {error}")
                hello = None
            self._strangers.remove(stranger)
            if hello is None:
                connection.close()
            else:
                self._admit(connection, hello)
        if not self.connected:
            self._ended.notify_all()

    def _admit(self, connection: socket.socket, hello: Hello) -> None:
        pid, _ = listener.peer(connection)
        if hello.request:
            self._pass_on(connection, hello.request)
            return
        if hello.fd < 0:
            self._waited.append(AwaitedProcess(connection, pid))
            listener.answer(connection, "ok")
            return
        folder = self._folder / RAW / hello.arena
        try:
            target = DrainTarget(connection, pid, hello.fd, folder, self._listener.arenas)
        except (OSError, ValueError) as error:
            listener.answer(connection, f"no {error}")
            connection.close()
            os.close(hello.fd)
            self._own.loss("launcher", f"process {pid} could not be added: {error}")
            return
        for earlier in [t for t in self._targets if t.pid == pid > 0 and t.hung_up()]:
            stopped = earlier.header.state == layout.STATE_STOPPED
            self._retire(earlier, "unknown" if stopped else "exec")  # the same process came again
        self._targets.append(target)
        self.seen += 1
        listener.answer(connection, f"ok {self._control} {folder}")
        if self.on_target is not None:
            self.on_target(target)

    def _pass_on(self, connection: socket.socket, request: str) -> None:
        if self.on_request is not None:
            self.on_request(connection, request)
            return
        listener.answer(connection, "no it takes no requests")
        connection.close()

    def _notice_endings(self) -> None:
        for target in list(self._targets):
            how = target.ended()
            if how is not None:
                self._retire(target, how)
        for watched in list(self._waited):
            if watched.dead or (watched.pidfd < 0 and watched.hung_up()):
                watched.close()
                self._waited.remove(watched)
            else:
                watched.hung_up()  # it closes its end before it becomes the program: nothing more to listen for
        if not self.connected:
            self._ended.notify_all()

    def _retire(self, target: DrainTarget, how: str) -> None:
        """Take the last rows of a process and drop it."""
        self._targets.remove(target)
        abrupt = target.header.state not in (layout.STATE_STOPPED, layout.STATE_EXITED)
        target.drainer.poll(True)
        self.drained_bytes += target.drainer.bytes
        self.lost_rows += target.drainer.lost_rows
        for site, (calls, time_ns) in target.header.own_time().items():
            known = self.own_time.get(site, (0, 0))
            self.own_time[site] = known[0] + calls, known[1] + time_ns
        self._note_error(target.drainer.write_error)
        self._note_error(-target.finish())
        ending = Ending(target.pid, target.arena, how, time.monotonic_ns(), abrupt)
        self.endings.append(ending)
        if self.on_ending is not None:
            self.on_ending(ending)
        self._ended.notify_all()

    def _visit(self, checkpoint: bool) -> int:
        blocks = 0
        for drainer in (*(t.drainer for t in self._targets), self._own_drainer):
            result = drainer.poll(checkpoint)
            if result < 0:
                self._note_error(-result)
            else:
                blocks += result
        return blocks

    def _note_error(self, error: int) -> None:
        if error > 0 and not self.write_error:
            self.write_error = error
            self._bound.say_write_error(error)
            print(f"warpsight: {self._folder} cannot be written ({os.strerror(error)}); the program continues, but rows are lost",
                  file=sys.stderr)  # fmt: skip

    def _unrotated(self) -> int:
        return sum(t.drainer.bytes for t in self._targets) + self.drained_bytes - self._rotated_at

    _rotated_at = 0

    def _rotate(self) -> None:
        self._rotated_at += self._unrotated()
        rotated = [drainer.rotate() for drainer in (*(t.drainer for t in self._targets), self._own_drainer)]
        if (any(rotated) or self.endings) and self.on_segments is not None:
            self.on_segments()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the loop from running inside the block."""
        with self._lock:
            yield


class _Timer:
    """Signals once per period."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True

"""Host samples: the state of each Python thread of the recorded processes, read from outside 100 times a second."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any

from warpsight import _native
from warpsight.capture.segments import layout
from warpsight.recorder.drain.arena import LOSS_NOTE, OwnRows
from warpsight.recorder.drain.drain_loop import DrainLoop

#: Share of a core that sampling may take before it becomes rarer.
_MOST_CPU = 0.02
_LEAST_HZ = 1.0
#: A process without a readable interpreter is tried again this often, and this many times.
_RETRY_S, _TRIES = 1.0, 60
_ADAPT_S = 1.0


class HostSampler:
    """A thread that samples every connected process. Recording does not depend on it: a failure costs only samples."""

    def __init__(self, rows: OwnRows, loop: DrainLoop, hz: float, *, ranged: bool) -> None:
        """`ranged`: only while a process records, which its own range decides (--capture-range)."""
        self._ranged = ranged
        self._rows = rows
        self._loop = loop
        self.hz = hz
        self._library = _native.load()
        self._open: dict[int, Any] = {}
        self._tries: dict[int, tuple[int, float]] = {}
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_ns = 0
        self._cpu_checked = (time.monotonic(), 0)

    def start(self) -> None:
        """Begin, unless sampling is off."""
        if self.hz > 0:
            self._thread = threading.Thread(target=self._run, name="host samples", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread and release its resources."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            running = [target for target in self._loop.running if target.pid > 0]
            for pid in set(self._open) - {target.pid for target in running}:
                self._close(pid)
            for target in running:
                if not self._ranged or target.header.state == layout.STATE_RECORDING:
                    self._sample(target.pid)
            self.cpu_ns = time.thread_time_ns()
            self._adapt()
            due = max(due + 1 / self.hz, time.monotonic())
            self._stopping.wait(due - time.monotonic())
        for pid in list(self._open):
            self._close(pid)

    def _sample(self, pid: int) -> None:
        handle = self._open.get(pid) or self._find(pid)
        if handle is None:
            return
        result = int(self._library.ws_sampler_sample(handle))
        if result >= 0:
            return
        self._close(pid)
        if -result not in (errno.ESRCH, errno.EAGAIN):
            self._tries[pid] = (_TRIES, 0.0)
            self._rows.loss(
                "samples", f"process {pid} cannot be sampled: errno {-result}", severity=LOSS_NOTE
            )

    def _find(self, pid: int) -> int | None:
        """A sampler for a process, or None if it is not a Python program, or not ready yet."""
        tries, again = self._tries.get(pid, (0, 0.0))
        now = time.monotonic()
        if tries >= _TRIES or now < again:
            return None
        handle: int | None = self._library.ws_sampler_open(pid)
        if handle:
            self._open[pid] = handle
            self._tries.pop(pid, None)
            return handle
        self._tries[pid] = (tries + 1, now + _RETRY_S)
        return None

    def _close(self, pid: int) -> None:
        self._library.ws_sampler_close(self._open.pop(pid))

    def _adapt(self) -> None:
        """Halve the rate if sampling takes too much of a core, and note that."""
        now = time.monotonic()
        since, cpu = self._cpu_checked
        if now - since < _ADAPT_S:
            return
        share = (self.cpu_ns - cpu) / 1e9 / (now - since)
        self._cpu_checked = (now, self.cpu_ns)
        if share > _MOST_CPU and self.hz > _LEAST_HZ:
            self.hz = max(self.hz / 2, _LEAST_HZ)
            self._rows.loss("samples", f"host sampling took {share:.1%} of a core and goes on at {self.hz:g} Hz",
                            severity=LOSS_NOTE)  # fmt: skip

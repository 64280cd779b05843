"""The flight recorder of one launcher: follows segments, accepts triggers, writes traces of the window."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warpsight.capture.converter import WINDOW
from warpsight.capture.segments.segment import Batch
from warpsight.errors import WarpsightError
from warpsight.model.storage import manifest
from warpsight.recorder.drain.arena import LOSS_NOTE, OwnRows
from warpsight.recorder.drain.converter import ConverterProcess
from warpsight.recorder.drain.drain_loop import DrainLoop
from warpsight.recorder.drain.target import Ending, crashed
from warpsight.recorder.output import RAW
from warpsight.recorder.ring import progress, snapshot, steps
from warpsight.recorder.ring.bound import LONGEST_S
from warpsight.recorder.ring.nccl import NcclDumps
from warpsight.recorder.ring.store import Closed, RingStore
from warpsight.recorder.ring.tail import News, Tail
from warpsight.recorder.ring.triggers import MOST_AUTOMATIC, Triggers

#: Domain of markers that ask for a trace (`ws.trigger`, warpsight_trigger).
_DOMAIN = "warpsight.trigger"
_INSTANT = 5
_COMPACT_S = 10.0
_TICK_S = 0.25
#: By then, a closed segment holds the result of a forced flush.
_FORCED_S = 2.5
#: A process that crashed is often the last one; then the recording's own trace holds it and no other is needed.
_CRASH_GRACE_NS = 1_000_000_000


#: Says that the size was reached before the time.
_SHORT = {
    "source": "ring",
    "severity": "note",
    "count": 1,
    "cause": "the window was cut short by its size (--ring)",
}


@dataclass
class Trigger:
    """One request for a trace of the window."""

    reason: str
    #: CLOCK_MONOTONIC ns of the moment the window is about.
    time: int
    automatic: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    path: Path | None = None
    error: str = ""
    summary: dict[str, Any] = field(default_factory=dict)


class RingRecorder:
    """One thread reads closed segments, another writes traces. Both end with :meth:`stop`."""

    def __init__(self, folder: Path, loop: DrainLoop, store: RingStore, own: OwnRows, triggers: Triggers, after_s: float,
                 describe: Callable[[], dict[str, Any]]) -> None:  # fmt: skip
        """`describe` returns the converter's current `finish` request."""
        self._folder = folder
        self._loop = loop
        self.store = store
        self._own = own
        self._triggers = triggers
        self._after_s = after_s
        self._describe = describe
        self.progress: dict[str, progress.Progress] = {}
        self._follow = bool(triggers.hang_s)
        #: Arena → end of its last work when its hang was reported; → when a flush was forced.
        self._hung: dict[str, int] = {}
        self._flushed: dict[str, float] = {}
        self._slow = (
            steps.SlowSteps(triggers.slow_factor, triggers.slow_pattern) if triggers.slow_factor else None
        )
        self._closed: queue.SimpleQueue[list[Closed] | threading.Event | None] = queue.SimpleQueue()
        self._wanted: queue.SimpleQueue[Trigger | None] = queue.SimpleQueue()
        self._automatic_until = 0
        self._automatic = 0
        self._warm: ConverterProcess | None = None
        self._busy: ConverterProcess | None = None
        self._crashes: list[tuple[int, str]] = []
        self._nccl = NcclDumps(folder / "nccl") if triggers.nccl else None
        self._stopping = threading.Event()
        self.written: list[Trigger] = []
        self.on_news: list[Callable[[News], None]] = []
        self.on_ending: list[Callable[[Ending], None]] = []
        self.on_trace: Callable[[Trigger], None] | None = None
        #: Called at a trigger with the pid of each recorded process, and its work that hangs.
        self.on_trigger: Callable[[int, progress.Outstanding | None], None] | None = None
        self._taken: set[Path] = set()
        self.cpu_ns = 0
        store.on_closed = self._closed.put
        self._reader = threading.Thread(target=self._read, name="ring events", daemon=True)
        self._writer = threading.Thread(target=self._write, name="ring traces", daemon=True)

    def follow_progress(self) -> None:
        """Maintain :attr:`progress` for every process; call before :meth:`start`."""
        self._follow = True

    def start(self) -> None:
        """Begin."""
        self._warm = ConverterProcess(None)
        self._reader.start()
        self._writer.start()

    @property
    def converters(self) -> frozenset[int]:
        """Children of this process that are converting, or about to."""
        return frozenset(one.pid for one in (self._warm, self._busy) if one is not None)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Variables that the armed triggers need; those in `base` stay unchanged."""
        return self._nccl.environment(base) if self._nccl is not None else {}

    def note_ending(self, ending: Ending) -> None:
        """Note the exit of a process: a crash is a trigger, except for the last process, whose trace is written anyway."""
        self.store.ended[ending.arena] = time.monotonic()
        for listener in self.on_ending:
            listener(ending)
        if crashed(ending.exit):
            self._crashes.append((ending.end, f"crash: process {ending.pid} ended by {ending.exit}"))
        elif ending.exit == "unknown" and ending.abrupt:  # its parent has waited for it before we could look
            self._crashes.append(
                (ending.end, f"crash: process {ending.pid} was killed, aborted or left by _exit")
            )

    def trigger(self, reason: str, *, at: int = 0, automatic: bool = False,
                hung: Mapping[int, progress.Outstanding] | None = None) -> Trigger:  # fmt: skip
        """Request a trace of the window before now (or `at`, ns); it is being written when this returns.

        Automatic triggers give one trace per window, and at most :data:`MOST_AUTOMATIC` in all.
        """
        one = Trigger(reason, at or time.monotonic_ns(), automatic)
        if (tell := self.on_trigger) is not None:
            for target in self._loop.running:
                tell(target.pid, (hung or {}).get(target.pid))
        if automatic and (one.time < self._automatic_until or self._automatic >= MOST_AUTOMATIC):
            one.error = (
                "another trace covers it" if one.time < self._automatic_until else "enough automatic traces"
            )
            self._own.loss("ring", f"no trace was written for {reason}: {one.error}", severity=LOSS_NOTE)
            one.done.set()
            return one
        if automatic:
            self._automatic += 1
            self._automatic_until = one.time + int(max(self.store.bound.seconds, self._after_s) * 1e9)
        self._wanted.put(one)
        return one

    def settle(self, seconds: float) -> bool:
        """Wait until all segments closed so far have been examined."""
        seen = threading.Event()
        self._closed.put(seen)
        return seen.wait(seconds)

    def stop(self) -> None:
        """Write requested traces without waiting for later segments, and end the threads."""
        self._stopping.set()
        self._wanted.put(None)
        self._closed.put(None)
        for thread in (self._writer, self._reader):
            if thread.ident is not None:
                thread.join()

    def final(self, request: dict[str, Any], show: Callable[[dict[str, Any]], None] | None) -> dict[str, Any]:
        """Make the trace of the last window in the recording's own folder, after everything has been drained.

        Raises:
            ConverterError: when it failed; the raw data is kept.
        """
        if self._nccl is not None:
            self._nccl.close()
        now = int(self.store.held_at * 1e9) or time.monotonic_ns()
        reason = self._crashes[-1][1] if self._crashes else "the program ended"
        wanted = max(now - int(self.store.bound.seconds * 1e9), 0)
        gone = int(self.store.gone_until * 1e9)
        short = bool(gone) and gone > wanted and self.store.bound.seconds < LONGEST_S
        window = snapshot.RingSnapshot(max(wanted, gone), now, now, reason, short)
        request["loss"] = [*request["loss"], *([_SHORT] if short else [])]
        manifest.write_json(self._folder / RAW / WINDOW, window.to_json())
        converter, self._warm = self._warm or ConverterProcess(None), None
        return snapshot.convert(converter, self._folder, request, show)

    def close(self) -> None:
        """End the waiting converter."""
        if self._warm is not None:
            self._warm.close()
            self._warm = None

    # -- what passes by

    def _read(self) -> None:
        kinds = {*steps.KINDS, *(progress.KINDS if self._follow else ())}
        tail = Tail(kinds)
        compacted = time.monotonic()
        while True:
            try:
                closed = self._closed.get(timeout=_TICK_S)
            except queue.Empty:
                closed = []
            if closed is None:
                return
            if isinstance(closed, threading.Event):
                closed.set()
                continue
            for news in tail.read(closed):
                self._take(news)
            self._look_around()
            if time.monotonic() - compacted > _COMPACT_S:
                compacted = time.monotonic()
                self.store.compact()
                self._forget(tail)
            self.cpu_ns = time.thread_time_ns()

    def _look_around(self) -> None:
        """Triggers that are not rows."""
        if self._triggers.hang_s:
            self._look_for_hangs(time.monotonic())
        if self._nccl is not None:
            for reason in self._nccl.look():
                self.trigger(reason, automatic=True)
        while self._crashes and self._triggers.crash:
            at, reason = self._crashes[0]
            if time.monotonic_ns() - at < _CRASH_GRACE_NS and not self._stopping.is_set():
                break
            del self._crashes[0]
            if not self._stopping.is_set():
                self.trigger(reason, at=at, automatic=True)

    def _look_for_hangs(self, now: float) -> None:
        """Detect hangs: nothing completed for a while although work is outstanding, and a forced flush brought nothing."""
        for target in self._loop.running:
            found = self.progress.get(target.arena)
            outstanding = found.outstanding() if found is not None else None
            if found is None or outstanding is None or self._hung.get(target.arena) == found.last_end:
                continue
            quiet = now - max(found.last_end, outstanding.oldest) / 1e9
            asked = self._flushed.get(target.arena, 0.0)
            if quiet < self._triggers.hang_s:
                continue
            if (
                asked < now - quiet
            ):  # records of completed work may be held back: force them out, and check again
                self._flushed[target.arena] = now
                target.header.ask_flush(forced=True)
            elif now - asked > _FORCED_S:
                self._hung[target.arena] = found.last_end
                reason = f"hang: nothing completed in process {target.pid} for {quiet:.0f} s"
                self.trigger(reason, automatic=True, hung={target.pid: outstanding})

    def _forget(self, tail: Tail) -> None:
        for name in set(tail.arenas) - {path.name for path in self.store.arenas()}:
            tail.forget(name)
            self.progress.pop(name, None)
            self._hung.pop(name, None)
            self._flushed.pop(name, None)
        self._loop.forget_endings({path.name for path in self.store.arenas()})

    def _take(self, news: News) -> None:
        if self._follow and news.arena.name != self._own.arena:
            self.progress.setdefault(news.arena.name, progress.Progress()).take(news)
        if "Marker" in news.batches:
            self._asked_for(news, news.batches["Marker"])
        if self._slow is not None:
            for slow in self._slow.take(news):
                self.trigger(str(slow), at=slow.end, automatic=True)
        for listener in self.on_news:
            listener(news)

    def _asked_for(self, news: News, batch: Batch) -> None:
        rows = batch.rows[batch.rows["phase"] == _INSTANT]
        for moment, name, domain in rows[["time", "name", "domain"]].tolist():
            if news.arena.text(domain) == _DOMAIN:
                self.trigger(f"program: {news.arena.text(name) or 'asked for'}", at=moment)

    # -- what gets written

    def _write(self) -> None:
        while (one := self._wanted.get()) is not None:
            self._await_after(one)
            try:
                self._write_one(one)
            except (WarpsightError, OSError) as error:
                one.error = str(error)
            one.done.set()
            if self.on_trace is not None:
                self.on_trace(one)

    def _await_after(self, one: Trigger) -> None:
        """Wait for `--after` to pass, unless the program ends first."""
        until = one.time / 1e9 + self._after_s
        while (
            self._after_s
            and (left := until - time.monotonic()) > 0
            and not self._stopping.wait(min(left, _TICK_S))
        ):
            pass

    def _write_one(self, one: Trigger) -> None:
        path = snapshot.name_beside(self._folder, one.reason, self._taken)
        self._taken.add(path)
        window = snapshot.take(self._loop, self.store, path, one.reason, one.time)
        request = self._describe()
        if window.short:
            request["loss"].append(_SHORT)
        self._busy, self._warm = self._warm or ConverterProcess(None), None
        try:
            one.summary = snapshot.convert(self._busy, path, request)
        finally:
            self._busy = None
        one.path = path
        self.written.append(one)
        if not self._stopping.is_set():
            self._warm = ConverterProcess(None)

"""The watch over one recorded program: suspects, confirms, gathers, and ends the program if requested."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from warpsight.recorder.drain.target import DrainTarget, Ending, crashed
from warpsight.recorder.inspect import look
from warpsight.recorder.ring.progress import Progress
from warpsight.recorder.ring.recorder import RingRecorder
from warpsight.recorder.server import Server
from warpsight.recorder.watch import coredump, counters, suspicion
from warpsight.recorder.watch.event import Incident, StuckProcess
from warpsight.recorder.watch.suspicion import StallLimits, Suspicion, Watched

ON_HANG = ("report", "dump", "kill")
_TICK_S = 0.25
_FLUSH_S, _LOOK_S, _TRACE_S, _DUMP_S = 2.0, 8.0, 20.0, 60.0
#: A process that was interrupted has this long to end by itself.
_GRACE_S = 1.0
#: A crash of the last process is reported from its final trace.
_CRASH_GRACE_S = 1.5
_KILL_S = 3.0
_MOST_DUMPS = 8
_LONGEST_PAUSE_S = 300.0


@dataclass(frozen=True)
class WatchOptions:
    """What the watch does. `dumps`: core dumps are armed, so the device's work is not recorded."""

    limits: StallLimits
    on_hang: str
    dumps: bool = False
    gzip: bool = False
    #: Template of dump files (see coredump.file_template): a program may crash before it can be looked at.
    template: str = ""


class Watch:
    """A thread that runs alongside a launch. It calls `on_event` with everything it gathered; `say` prints one line."""

    def __init__(
        self,
        server: Server,
        options: WatchOptions,
        say: Callable[[str], None],
        on_event: Callable[[Incident], None],
    ) -> None:
        assert server.ring is not None
        self._server = server
        self._ring: RingRecorder = server.ring
        self._options = options
        self._say = say
        self._on_event = on_event
        self._watched: dict[str, Watched] = {}
        self._files: dict[int, list[str]] = {}
        pattern = [coredump.any_process(options.template)] if options.template else []
        self._before = set(coredump.existing(pattern))
        self._ended: queue.SimpleQueue[tuple[float, Ending]] = queue.SimpleQueue()
        self._crashes: list[tuple[float, Ending]] = []
        self._interrupted = 0.0
        self._reported_interrupt = False
        self._ended_by_us = False
        self._stopping = threading.Event()
        self.events: list[Incident] = []
        self._ring.follow_progress()
        self._ring.on_ending.append(lambda ending: self._ended.put((time.monotonic(), ending)))
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; a report in progress is finished."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def interrupt(self) -> None:
        """Handle Ctrl-C: the first reports a stuck program, the next one ends it."""
        if self._reported_interrupt or (self._interrupted and self.events):
            self.end_tree("interrupted again")
        elif not self._interrupted:
            self._interrupted = time.monotonic()

    def crash(self) -> Incident | None:
        """The crash that ended the program, reported with the final trace; None if the program did not crash."""
        self._take_endings()
        known = self._reported()
        for _, ending in self._crashes:
            dumps = self._dumps(ending.pid)
            if ending.pid not in known and (dumps or self._crashed(ending)):
                return self._crash_event(ending, dumps)
        return self._unseen_crash()

    def _unseen_crash(self) -> Incident | None:
        """The dump of a process that exited before it connected."""
        if not self._options.template:
            return None
        known = {dump.path for event in self.events for dump in event.dumps}
        found = coredump.existing([coredump.any_process(self._options.template)])
        new = [path for path in found if path not in self._before and path not in known]
        if not new:
            return None
        event = Incident("crash", "crash: a GPU core dump was written", time.monotonic_ns())
        event.dumps = [
            coredump.CoreDump(0, path, "" if coredump.complete(path) else "the dump is not complete")
            for path in new
        ]
        return event

    def end_tree(self, why: str) -> None:
        """End the program and its descendants with SIGTERM, then SIGKILL."""
        self._ended_by_us = True
        pids = [pid for pid in look.descendants(os.getpid())[1:] if pid not in self._server.own_processes]
        self._say(f"ending {len(pids)} process{'es' if len(pids) != 1 else ''}: {why}")
        for number, seconds in ((signal.SIGTERM, _KILL_S), (signal.SIGKILL, 0.0)):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            until = time.monotonic() + seconds
            while time.monotonic() < until and any(_alive(pid) for pid in pids):
                time.sleep(0.05)

    # -- one look after the other

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_S):
            now = time.monotonic()
            targets = {target.arena: target for target in self._server.targets}
            for target in targets.values():
                self._notice(target, now)
            for arena in set(self._watched) - set(targets):
                del self._watched[arena]
            self._take_endings()
            self._look_for_crashes(now)
            if self._interrupted and not self._reported_interrupt:
                self._look_after_interrupt(now)
            for target in targets.values():
                found = self._suspect(target, now)
                if found is not None and self._confirm(target, found):
                    break

    def _notice(self, target: DrainTarget, now: float) -> None:
        one = self._watched.get(target.arena)
        if one is None:
            one = self._watched[target.arena] = Watched(target.pid, target.arena)
            self._files[target.pid] = coredump.file_patterns(target.pid)
        if suspicion.stopped(target.pid):
            one.paused = now
        drained = target.drainer.bytes
        if drained != one.drained:
            one.drained, one.heard = drained, now

    def _progress(self, arena: str) -> Progress | None:
        return self._ring.progress.get(arena)

    def _suspect(self, target: DrainTarget, now: float) -> Suspicion | None:
        one = self._watched[target.arena]
        progress = self._progress(target.arena)
        completions = _shown(progress)
        if one.told_at is not None and completions != one.told_at and self._went_on(one, progress):
            self._say(f"process {one.pid} continued: work has completed again")
            one.told_at = None
        if now < one.inspect_after:
            return None
        # without CUPTI no completion is ever seen: only the host's threads show a hang
        found = None if self._options.dumps else suspicion.judge(one, progress, self._options.limits, now)
        return found or (self._suspect_by_threads(one, progress, now) if one.told_at is None else None)

    def _went_on(self, one: Watched, progress: Progress | None) -> bool:
        """Whether something happened after the hang was reported."""
        if progress is None:
            return False
        after = progress.heard_at if self._options.dumps else progress.last_end / 1e9
        return after > one.told_quiet + _TICK_S

    def _quiet(self, one: Watched, progress: Progress | None) -> float:
        """The time since which a process has shown no progress."""
        if progress is None:
            return max(one.since, one.paused)
        if self._options.dumps:  # calls that return are all there is to see
            return max(one.since, one.paused, progress.heard_at)
        return suspicion.quiet_since(one, progress)

    def _suspect_by_threads(self, one: Watched, progress: Progress | None, now: float) -> Suspicion | None:
        """A host thread that has been in the same wait for this long: it may wait for something other than a known launch."""
        limit = self._options.limits.hang_after
        seen = progress is not None and (progress.launches or progress.completions)
        if not limit or not (self._options.dumps or seen):
            return None
        quiet = self._quiet(one, progress)
        if progress is not None:
            quiet = max(quiet, progress.heard_at)
        if now - quiet < limit / 2:
            one.waits, one.pause = frozenset(), 0.0
            return None
        waits = frozenset(look.waits(look.look([one.pid], _LOOK_S)))
        same = waits & one.waits
        if not waits:
            one.pause = min(max(one.pause * 2, limit / 2), _LONGEST_PAUSE_S)
        one.inspect_after = now + (limit / 4 if waits else one.pause)
        if not same:
            one.waits, one.waits_since = waits, now
            return None
        since = max(one.waits_since, quiet)
        return (
            Suspicion("hang", quiet, None, limit)
            if now - since >= limit / 2 and now - quiet >= limit
            else None
        )

    # -- from a suspicion to a report

    def _confirm(self, target: DrainTarget, found: Suspicion) -> bool:
        """Force a flush and inspect the host; True if it was a hang, which is then reported."""
        one, progress = self._watched[target.arena], self._progress(target.arena)
        before = _shown(progress)
        answered = self._flush(target)
        if (
            _shown(self._progress(target.arena)) != before
            or suspicion.stopped(target.pid)
            or not _alive(target.pid)
        ):
            return False
        known = found.outstanding is not None
        silent = f"the recorder in it did not answer within {_FLUSH_S:g} s: it is in the driver itself"
        evidence = [silent] if not answered else ["a forced flush brought no completion"] if known else []
        processes = look.look([target.pid], _LOOK_S)
        waits = sorted(
            {f"thread {w.thread} of process {w.pid} waits in {w.function}" for w in look.waits(processes)}
        )
        evidence += waits[:4]
        if found.kind == "hang" and not waits:
            still = counters.unchanged_and_busy()
            if not still:  # the program is at other work: ask again later
                one.inspect_after = time.monotonic() + self._options.limits.hang_after / 2
                return False
            evidence.append(still)
        self._report(self._gather(found, evidence, processes))
        return True

    def _flush(self, target: DrainTarget) -> bool:
        """Whether the process answered; its rows have been read when this returns."""
        try:
            target.header.ask_flush(forced=True)
            until = time.monotonic() + _FLUSH_S
            while not (answered := target.header.flushed) and time.monotonic() < until:
                time.sleep(0.01)
        except ValueError:  # it exited, and its arena is closed
            return False
        self._server.close_segments()
        self._ring.settle(_FLUSH_S)
        return answered

    def _gather(self, found: Suspicion, evidence: list[str], processes: list[dict[str, object]]) -> Incident:
        now = time.monotonic()
        suspects = self._suspects(now, found)
        quiet = now - found.quiet_since
        reasons = {
            "hang": f"kernel running for {quiet:.0f} s, nothing completed since",
            "kernel-timeout": f"a kernel has been running for {quiet:.0f} s (--kernel-timeout {found.limit:g})",
            "no-data-timeout": f"no data for {quiet:.0f} s while a kernel runs (--no-data-timeout {found.limit:g})",
        }
        reason = reasons[found.kind]
        if found.outstanding is None and found.kind == "hang":
            reason = f"host threads wait for the device for {quiet:.0f} s, nothing completed since"
        event = Incident(found.kind, reason, time.monotonic_ns(), suspects, evidence, ends=found.kind != "hang" or
                      self._options.on_hang == "kill")  # fmt: skip
        self._fill(event, {int(str(one["pid"])): one for one in processes}, now)
        return event

    def _suspects(self, now: float, found: Suspicion) -> list[StuckProcess]:
        """The processes that have been stuck about as long as the given one: a collective holds all its ranks."""
        out = []
        least = 0.5 * min(found.limit, now - found.quiet_since)
        for one in self._watched.values():
            progress = self._progress(one.arena)
            outstanding, quiet = progress.outstanding() if progress else None, self._quiet(one, progress)
            if (outstanding is None and not one.waits) or now - quiet < least:
                continue
            out.append(
                StuckProcess(one.pid, now - quiet, outstanding, progress.completions if progress else 0)
            )
            one.told_at, one.told_quiet = _shown(progress), now
        return out

    def _fill(self, event: Incident, known: dict[int, dict[str, object]], began: float) -> None:
        """Gather everything that a report shows, the dump last because it kills the kernels."""
        trigger = self._ring.trigger(f"{event.kind}: {event.reason}")
        pids = [pid for pid in look.descendants(os.getpid())[1:] if pid not in self._server.own_processes]
        rest = look.look([pid for pid in pids if pid not in known], _LOOK_S)
        event.processes = [*known.values(), *rest]
        trigger.done.wait(_TRACE_S)
        event.trace = trigger.path
        if trigger.path is None:
            event.notes.append(f"no trace of the window: {trigger.error or 'it took too long'}")
        if self._options.on_hang in ("dump", "kill"):
            self._dump(event)
        event.took_s = time.monotonic() - began

    def _dump(self, event: Incident) -> None:
        for suspect in event.suspects[:_MOST_DUMPS]:
            if coredump.pipe_of(suspect.pid) is not None:
                self._say(f"taking the GPU core dump of process {suspect.pid}: this ends its stuck kernels, and the program will "
                          "get a CUDA error or abort")  # fmt: skip
            dump = coredump.take(suspect.pid, _DUMP_S, self._say)
            if dump.path is not None and not dump.problem and self._options.gzip:
                dump.path = coredump.compress(dump.path)
            event.dumps.append(dump)

    def _report(self, event: Incident) -> None:
        self.events.append(event)
        self._on_event(event)
        if event.ends:
            self.end_tree(event.reason)

    # -- crashes

    def _take_endings(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                at, ending = self._ended.get_nowait()
                self._crashes.append((at, ending))
        del self._crashes[:-256]

    def _reported(self) -> set[int]:
        """Processes whose exit needs no report: theirs was written, or we killed them with a dump."""
        return {e.pid for e in self.events if e.kind == "crash"} | {
            d.pid for e in self.events for d in e.dumps if d.path
        }

    def _crashed(self, ending: Ending) -> bool:
        """Whether a process was killed by a signal that indicates a crash."""
        return crashed(ending.exit) and not any(event.ends for event in self.events) and not self._ended_by_us

    def _dumps(self, pid: int) -> list[Path]:
        known = self._files.get(pid)
        if not known:  # it exited before its environment could be read
            known = [coredump.expanded(self._options.template, pid)] if self._options.template else []
        return [path for path in coredump.existing(known) if path not in self._before]

    def _look_for_crashes(self, now: float) -> None:
        """Look for a process that crashed while others continue; the last one's crash is reported from the final trace."""
        for at, ending in list(self._crashes):
            if now - at < _CRASH_GRACE_S:
                continue
            self._crashes.remove((at, ending))
            dumps = self._dumps(ending.pid)
            if ending.pid in self._reported() or not (dumps or self._crashed(ending)):
                self._files.pop(ending.pid, None)
                continue
            event = self._crash_event(ending, dumps)
            trigger = self._ring.trigger(event.reason, at=ending.end)
            trigger.done.wait(_TRACE_S)
            event.trace = trigger.path
            self._report(event)

    def _crash_event(self, ending: Ending, dumps: list[Path]) -> Incident:
        reason = f"crash: process {ending.pid} ended by {ending.exit}" + (
            ", after a GPU core dump" if dumps else ""
        )
        event = Incident("crash", reason, ending.end, exit=ending.exit, pid=ending.pid)
        for path in dumps:
            problem = "" if coredump.complete(path) else "the dump is not complete"
            if self._options.gzip and not problem:
                path = coredump.compress(path)
            event.dumps.append(coredump.CoreDump(ending.pid, path, problem))
        return event

    def _look_after_interrupt(self, now: float) -> None:
        """Write a report if Ctrl-C did not end the program because it is stuck."""
        if now - self._interrupted < _GRACE_S:
            return
        if self._stopping.is_set() or not self._watched:
            self._interrupted = 0.0
            return
        processes = look.look([one.pid for one in self._watched.values()], _LOOK_S)
        waits = list(look.waits(processes))
        if not waits:
            self._interrupted = 0.0
            return
        self._reported_interrupt = True
        self._say("the program waits for the device and does not see Ctrl-C: reporting; Ctrl-C again ends it")
        evidence = sorted({f"thread {w.thread} of process {w.pid} waits in {w.function}" for w in waits})[:4]
        event = Incident(
            "interrupt",
            "interrupted while the program waits for the device",
            time.monotonic_ns(),
            evidence=evidence,
        )
        event.suspects = self._suspects(now, Suspicion("hang", now, None, 0.0))
        self._fill(event, {int(one["pid"]): one for one in processes}, now)
        self._report(event)


def _shown(progress: Progress | None) -> int:
    """A number that grows when a process makes progress: completions, and launches."""
    return progress.completions + progress.launches if progress is not None else 0


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

"""Signals of the launcher while a program runs: they are passed on if the program did not receive them itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: siginfo's si_code of a signal the kernel made: a key on the terminal, which the whole process group got.
_FROM_KERNEL = 0x80
_TICK_S = 0.25


@contextlib.contextmanager
def without_signals() -> Iterator[None]:
    """Start threads inside that receive no signals, such as libraries' threads: signals are for the main thread."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Signals:
    """Holds back signals from entry on, so that none is lost around the program's start."""

    def __init__(self) -> None:
        self._held = {s for s in _FORWARDED if signal.getsignal(s) is not signal.SIG_IGN}
        self._waited = {*self._held, signal.SIGCHLD}
        self._before: set[int] = set()
        #: Whoever started us ignores ends of children, so the kernel would throw exit codes away.
        self._childless = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        #: Signals that came, the newest last.
        self.seen: list[int] = []

    def __enter__(self) -> Signals:
        self._before = {int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)}
        if self._childless:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, *_: object) -> None:
        # Signals received after the end were meant for a launcher that has nothing left to do.
        while _next(self._waited, 0) is not None:
            pass
        if self.restore is not None:
            self.restore()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    @property
    def restore(self) -> Callable[[], object] | None:
        """The function that the child calls before the program begins, to restore signal handling as we found it; or None."""
        return partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN) if self._childless else None

    @contextlib.contextmanager
    def open_for_child(self) -> Iterator[None]:
        """Restore our original signal mask while the program starts, since it inherits the current one.

        A handler remembers signals that arrive inside the block, and :meth:`wait` gets them.
        """
        came: list[int] = []
        # Python sees None for a handler that a preloaded library installed. It could not be restored, so it stays in place.
        replaced = [s for s in self._held if signal.getsignal(s) is not None]
        handlers = {s: signal.signal(s, lambda number, _: came.append(number)) for s in replaced}
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for one in came:
                os.kill(os.getpid(), one)

    @contextlib.contextmanager
    def impatience(self, act: Callable[[int], None]) -> Iterator[None]:
        """Call `act` in a thread at each Ctrl-C within the block, with their number so far."""
        ended = threading.Event()

        def watch() -> None:
            count = 0
            while not ended.is_set():
                if _next([signal.SIGINT] if signal.SIGINT in self._held else [], _TICK_S / 5):
                    count += 1
                    act(count)

        thread = threading.Thread(target=watch, name="interrupts", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def wait(self, done: Callable[[], bool], act: Callable[[int, bool], None]) -> None:
        """Call `act(signal, whole_group)` for every signal until `done()`, which is called after each signal and each tick."""
        while not done():
            number, code = _next(self._waited, _TICK_S) or (signal.SIGCHLD, 0)
            if number != signal.SIGCHLD:
                self.seen.append(number)
                act(number, code == _FROM_KERNEL)


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, below: bool = False
) -> int:
    """Run a program that shares our terminal: its exit code, 128 + signal.

    Signals sent to us go to it, or to all processes below it, so that a tool outlives its program and reports. Signals from keys
    reach them directly. Only the main thread passes signals on.

    Raises:
        OSError: when it cannot be started.
    """

    def pass_on(number: int, whole_group: bool) -> None:
        from warpsight.recorder.inspect.look import descendants

        if whole_group:
            return
        for pid in (descendants(child.pid)[1:] if below else ()) or (child.pid,):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    sys.stdout.flush()
    sys.stderr.flush()
    if threading.current_thread() is not threading.main_thread():
        code = subprocess.call(command, env=environment, close_fds=False)
    else:
        with Signals() as signals:
            with signals.open_for_child():
                child = subprocess.Popen(
                    command, env=environment, close_fds=False, preexec_fn=signals.restore
                )
            signals.wait(lambda: child.poll() is not None, pass_on)
        code = child.returncode
    return 128 - code if code < 0 else code


def _next(waited: Iterable[int], seconds: float) -> tuple[int, int] | None:
    """Number and si_code of the next held signal; None if none arrives in time, or the wait was interrupted.

    Not Python's sigtimedwait: stopped and continued for longer than it waits, it returns memory that nothing was written to.
    """
    chosen = sum(1 << (number - 1) for number in waited).to_bytes(128, "little")
    info = (ctypes.c_int * 32)()
    whole = int(seconds)
    timeout = (ctypes.c_long * 2)(whole, int((seconds - whole) * 1e9))
    number = ctypes.CDLL(None).sigtimedwait(chosen, info, timeout)
    return (number, info[2]) if number > 0 else None

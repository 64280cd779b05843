"""A program's own ranges, events, counters and marks while it is recorded. They cost almost nothing when nothing records."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from warpsight.inside import values

_SOCKET = "WARPSIGHT_SOCKET"


class _Library:
    """libwarpsight in this process, loaded when there is a recording."""

    def __init__(self) -> None:
        self.loaded: ctypes.CDLL | None = None
        self.recording: Callable[[], int] = self._look
        self._tried = False
        self._first = threading.Lock()  # held while the first use connects: other threads' events wait for it

    def _look(self) -> int:
        """`recording` before the library is loaded."""
        return 0 if self.get() is None else self.recording()

    def get(self) -> ctypes.CDLL | None:
        """The library if this process may be recorded, else None."""
        if self._tried:
            return self.loaded
        with self._first:
            if not self._tried and os.environ.get(
                _SOCKET
            ):  # under `warpsight record`; a GPU program is connected already
                self._connect()
            self._tried = True
        return self.loaded

    def _connect(self) -> None:
        from warpsight import _native
        from warpsight.errors import WarpsightError

        with contextlib.suppress(WarpsightError, OSError):
            _native.load().ws_start(None)
            self.use()

    def use(self) -> ctypes.CDLL:
        """Load it now.

        Raises:
            NativeMissingError: when this installation has no compiled parts.
        """
        if self.loaded is not None:
            return self.loaded
        from warpsight import _native

        self.loaded = found = _native.load()
        # Through PyDLL, which keeps the GIL: the call takes a tenth of a microsecond and never blocks.
        self.recording = ctypes.PyDLL(found._name).ws_recording
        self._tried = True
        return found

    def forget(self) -> None:
        """In a forked child: it connects for itself on its first event."""
        self._tried = False
        self._first = threading.Lock()
        self.loaded = None
        self.recording = self._look


library = _Library()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=library.forget)


_Function = TypeVar("_Function", bound=Callable[..., Any])


class annotate:
    """Mark a range of the calling thread: `with ws.annotate("forward"):` or `@ws.annotate("forward")`; ranges nest.

    `attributes` appear in table `marker` as a JSON object; values that JSON cannot hold become text.

    Raises:
        TypeError: when `name` is not text.
    """

    def __init__(self, name: str, **attributes: object) -> None:
        if type(name) is not str:
            values.check_text(name, "name")
        self.name = name
        self.attributes = attributes
        self._library: ctypes.CDLL | None = None

    def __call__(self, function: _Function) -> _Function:
        """Make each call of a function such a range."""

        @functools.wraps(function)
        def ranged(*arguments: object, **options: object) -> object:
            # One of its own for each call: several threads may be inside, and one more than once.
            with annotate(self.name, **self.attributes):
                return function(*arguments, **options)

        return cast(_Function, ranged)

    def __enter__(self) -> annotate:
        if library.recording():
            self._library = found = library.use()
            found.ws_push(values.encoded(self.name), values.attributes(self.attributes))
        return self

    def __exit__(self, *_: object) -> None:
        found, self._library = self._library, None
        if found is not None:
            found.ws_pop()


def emit(
    name: str,
    start: float | None = None,
    duration: float = 0,
    kind: str = "user",
    **attributes: object,
) -> None:
    """Add an event to table `user_event`.

    Args:
        name: what happened.
        start: in ns of `time.monotonic_ns()`; 0 and the default mean now.
        duration: in ns, rounded; numbers of any library are accepted.
        kind: your own word to group events.
        attributes: kept as a JSON object; values that JSON cannot hold become text.

    Raises:
        TypeError: for a name or kind that is not text, or a time that is not a number; also while nothing records.
        ValueError: for a time below zero, not finite, or beyond 2^63-1 ns.
    """
    if type(name) is not str:
        values.check_text(name, "name")
    if type(kind) is not str:
        values.check_text(kind, "kind")
    begin = 0 if start is None else values.nanoseconds(start, "start")
    length = values.nanoseconds(duration, "duration")
    if begin + length > values.MOST_TIME:
        raise ValueError(f"start + duration must be a number of ns up to {values.MOST_TIME}")
    if library.recording():
        library.use().ws_emit(
            values.encoded(name), begin, length, values.encoded(kind), values.attributes(attributes)
        )


def counter(name: str, value: float, unit: str = "1") -> None:
    """Add the current value of a counter of your own to table `counter`.

    `value` may be a number of any library, including infinity and NaN; a one-element tensor is read only while something records.

    Raises:
        TypeError: for a name or unit that is not text, or a value that is not a single number; also while nothing records.
    """
    if type(name) is not str:
        values.check_text(name, "name")
    if type(unit) is not str:
        values.check_text(unit, "unit")
    if type(value) is not float:
        values.check_number(value, "value")
    if library.recording():
        library.use().ws_counter(
            values.encoded(name), values.number(value, "value"), values.encoded(unit), -1
        )


def trigger(reason: str = "asked for") -> None:
    """Have a flight recorder (`warpsight record --ring …`) write a trace of its window within seconds.

    Without a ring this only adds a mark to the trace.

    Raises:
        TypeError: when `reason` is not text.
    """
    if type(reason) is not str:
        values.check_text(reason, "reason")
    if library.recording():
        library.use().ws_instant(values.encoded(reason), b"warpsight.trigger")


def mark(name: str, **attributes: object) -> None:
    """Add an instant of kind `mark` to table `user_event`.

    Raises:
        TypeError: when `name` is not text.
    """
    if type(name) is not str:
        values.check_text(name, "name")
    if library.recording():
        library.use().ws_emit(values.encoded(name), 0, 0, b"mark", values.attributes(attributes))

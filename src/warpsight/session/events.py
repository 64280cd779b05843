"""What a program says about itself while it is recorded: ranges, events, counters, marks. Free when nothing records."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

_SOCKET = "WARPSIGHT_SOCKET"


class _Library:
    """libwarpsight in this process, loaded when there is something to record to."""

    def __init__(self) -> None:
        self.loaded: ctypes.CDLL | None = None
        self.recording: Callable[[], int] = self._look
        self._tried = False

    def _look(self) -> int:
        """`recording` before the library is loaded."""
        return 0 if self._tried or self.get() is None else self.recording()

    def get(self) -> ctypes.CDLL | None:
        """The library when this process may be recorded, else None."""
        if self._tried:
            return self.loaded
        self._tried = True
        if os.environ.get(_SOCKET):  # started under `warpsight record`; a GPU program is connected already
            from warpsight.errors import WarpsightError

            try:
                self.use().ws_start(None)
            except (WarpsightError, OSError):
                self.loaded, self.recording = None, self._look
        return self.loaded

    def use(self) -> ctypes.CDLL:
        """Load it now.

        Raises:
            NativeMissingError: when this installation has no compiled parts.
        """
        if self.loaded is not None:
            return self.loaded
        from warpsight import _native

        self._tried = True
        self.loaded = found = _native.load()
        # Through PyDLL, which keeps the GIL: asking costs a tenth of a microsecond, and nobody waits for anything.
        self.recording = ctypes.PyDLL(found._name).ws_recording
        return found

    def forget(self) -> None:
        """In a forked child: it connects for itself when it has something to say."""
        self._tried = False
        self.loaded = None
        self.recording = self._look


library = _Library()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=library.forget)


class annotate(ContextDecorator):
    """A named range of the calling thread: `with ws.annotate("forward"):` or `@ws.annotate("forward")`; ranges nest.

    `attributes` must be JSON values; they appear with the range in table `marker`.
    """

    def __init__(self, name: str, **attributes: Any) -> None:
        self.name = name
        self.attributes = attributes
        self._library: ctypes.CDLL | None = None

    def _recreate_cm(self) -> annotate:
        return annotate(
            self.name, **self.attributes
        )  # a decorated function may be entered by several threads

    def __enter__(self) -> annotate:
        if library.recording():
            self._library = found = library.use()
            found.ws_push(self.name.encode(), _json(self.attributes))
        return self

    def __exit__(self, *_: object) -> None:
        found, self._library = self._library, None
        if found is not None:
            found.ws_pop()


def emit(
    name: str, start: int | None = None, duration: int = 0, kind: str = "user", **attributes: Any
) -> None:
    """Add an event to table `user_event`.

    Args:
        name: what happened.
        start: begin in ns of `time.monotonic_ns()`; now by default.
        duration: in ns.
        kind: a word of your own that groups events.
        attributes: JSON values that belong to it.
    """
    if library.recording():
        library.use().ws_emit(name.encode(), start or 0, duration, kind.encode(), _json(attributes))


def counter(name: str, value: float, unit: str = "1") -> None:
    """Add a value of a counter of your own, as it is now, to table `counter`."""
    if library.recording():
        library.use().ws_counter(name.encode(), value, unit.encode(), -1)


def trigger(reason: str = "asked for") -> None:
    """Have a flight recorder (`warpsight record --ring …`) write a trace of its window; it is written within seconds.

    In a recording without a ring it is a mark in the trace and nothing more.
    """
    if library.recording():
        library.use().ws_instant(reason.encode(), b"warpsight.trigger")


def mark(name: str, **attributes: Any) -> None:
    """Add a moment to table `user_event`: an event of kind `mark` without duration."""
    emit(name, kind="mark", **attributes)


def _json(attributes: dict[str, Any]) -> bytes | None:
    if not attributes:
        return None
    try:
        return json.dumps(attributes, default=str, allow_nan=False).encode()
    except ValueError:  # JSON has no NaN and no infinity: they are told as texts
        loose = json.dumps(attributes, default=str)
        return json.dumps(json.loads(loose, parse_constant=str)).encode()

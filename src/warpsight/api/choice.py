"""The selecting options that most questions share, as values from Python or texts from the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

#: A time since the trace's start: a text with a unit (`"1.5s"`, `"200ms"`), or seconds.
Time = str | float
Numbers = int | Sequence[int]
Words = str | Sequence[str]
_TIME = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|h)?\s*$")
_SCALE = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}


def nanoseconds(value: Time | None, name: str) -> int | None:
    """A duration like `1.5s`, `200ms`, `12us`, or a number of seconds (`5`, 0.25), as ns.

    Raises:
        UsageError: for an invalid time.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        if isinstance(value, bool) or not math.isfinite(value) or value < 0:
            raise UsageError(f"{name} {value!r} is not a time: seconds from 0, or a text like 200ms")
        return round(value * 10**9)
    match = _TIME.match(value)
    if match is None:
        raise UsageError(f"{name} {value!r} is not a time: write 1.5s, 200ms, 12us or 800ns")
    from decimal import Decimal

    return int(Decimal(match[1]) * _SCALE[match[2] or "s"])


def numbers(value: Numbers | None) -> tuple[int, ...]:
    """One number or several as a tuple; None becomes an empty one."""
    return () if value is None else (value,) if isinstance(value, int) else tuple(value)


def words(value: Words | None) -> tuple[str, ...]:
    """One text or several as a tuple; None becomes an empty one."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def window(trace: StoredTrace, begin: Time | None, end: Time | None) -> tuple[int | None, int | None]:
    """Times on the trace's clock from times since its start.

    Raises:
        UsageError: for anything that is not a time, and for a window that ends before it begins.
    """
    from warpsight.model.selection import begin_of

    times = nanoseconds(begin, "begin"), nanoseconds(end, "end")
    if times[0] is not None and times[1] is not None and times[1] <= times[0]:
        raise UsageError(f"the time window is empty: the end, {end}, is not after the begin, {begin}")
    origin = begin_of(trace) if any(t is not None for t in times) else 0
    first, last = (None if t is None else origin + t for t in times)
    return first, last


def rows(
    trace: StoredTrace, begin: Time | None = None, end: Time | None = None, device: Numbers | None = (),
    stream: Numbers | None = (), process: Numbers | None = (), name: str | None = None,
) -> Rows:  # fmt: skip
    """The rows that the options choose in a trace.

    Raises:
        UsageError: for anything that is not a time, and for a device that is not in the trace.
    """
    from warpsight.model import device_ids
    from warpsight.model.selection import Rows

    device_ids.check(trace, numbers(device))
    first, last = window(trace, begin, end)
    return Rows(first, last, numbers(device), numbers(stream), numbers(process), name)

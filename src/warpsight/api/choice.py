"""The selection options that most questions share, as Python values or command-line strings."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpsight.errors import UsageError

if TYPE_CHECKING:
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

#: A time since the trace's start: a string with a unit (`"1.5s"`, `"200ms"`), or seconds.
Time = str | float
Numbers = int | Sequence[int]
Words = str | Sequence[str]
_TIME = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s|min|h)?\s*$")
#: Maximum numbers listed in a message.
_MOST_LISTED = 20
#: Tables whose rows name a stream or process, besides the one that defines it.
_NAMING = {
    "stream": ("kernel_ids", "memcpy", "memset", "sync", "event", "memory"),
    "process": (
        "kernel_ids",
        "memcpy",
        "memset",
        "launch",
        "api",
        "marker",
        "op",
        "sample",
        "counter",
        "memory",
        "user_event",
    ),
}
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
    """One string or several as a tuple; None becomes an empty tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def window(trace: StoredTrace, begin: Time | None, end: Time | None) -> tuple[int | None, int | None]:
    """Times on the trace's clock from times since its start.

    Raises:
        UsageError: for anything that is not a time, and for a window that ends before it begins or begins after the recording.
    """
    from warpsight.analysis.base.words import moment
    from warpsight.model.selection import begin_of, end_of

    times = nanoseconds(begin, "begin"), nanoseconds(end, "end")
    if times[0] is not None and times[1] is not None and times[1] <= times[0]:
        raise UsageError(f"the time window is empty: its end, {end}, is not after its beginning, {begin}")
    origin = begin_of(trace) if any(t is not None for t in times) else 0
    first, last = (None if t is None else origin + t for t in times)
    if first is not None and first > (latest := end_of(trace)) > 0:
        raise UsageError(
            f"nothing was recorded from {begin} on: the recording ends at {moment(latest - origin)}"
        )
    return first, last


def rows(
    trace: StoredTrace, begin: Time | None = None, end: Time | None = None, device: Numbers | None = (),
    stream: Numbers | None = (), process: Numbers | None = (), name: str | None = None,
) -> Rows:  # fmt: skip
    """The rows that the options choose in a trace.

    Raises:
        UsageError: for anything that is not a time or a regular expression, and for numbers that are not in the trace.
    """
    from warpsight.model.selection import Rows

    check(trace, numbers(device), numbers(stream), numbers(process), name)
    first, last = window(trace, begin, end)
    return Rows(first, last, numbers(device), numbers(stream), numbers(process), name)


def check(
    trace: StoredTrace, device: Sequence[int], stream: Sequence[int], process: Sequence[int], name: str | None
) -> None:
    """Refuse numbers that are not in a trace, and a name that is not a regular expression.

    Raises:
        UsageError: when a check fails; the message lists what the trace has.
    """
    from warpsight.model import device_ids

    device_ids.check(trace, device)
    for column, chosen in (("stream", stream), ("process", process)):
        if not chosen:
            continue
        known = _numbers(trace, column, (column,))
        if not known.issuperset(chosen):  # other tools' files may not define them all
            known |= _numbers(trace, column, _NAMING[column])
        for number in chosen:
            if number not in known:
                raise UsageError(f"there is no {column} {number}; the trace has {_listed(known)}")
    if name is not None:
        import duckdb

        try:
            trace.sql("SELECT regexp_matches('', $name)", name=name).fetchall()
        except duckdb.Error as error:
            reason = str(error).removeprefix("Invalid Input Error: ")
            raise UsageError(f"{name!r} is not a regular expression: {reason}") from None


def _numbers(trace: StoredTrace, column: str, tables: Sequence[str]) -> set[int]:
    each = " UNION ".join(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL" for table in tables)
    return {number for (number,) in trace.sql(each).fetchall()}


def _listed(known: set[int]) -> str:
    shown = sorted(known)[:_MOST_LISTED]
    more = f" and {len(known) - len(shown):,} more" if len(known) > len(shown) else ""
    return ", ".join(map(str, shown)) + more if shown else "none"

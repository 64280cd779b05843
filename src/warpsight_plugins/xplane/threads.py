"""Matches each line of ranges with the line of driver calls of the same thread.

XLA's collectors number the driver's calls by the system's thread ids, and the framework's ranges by the library's, so one thread
has two lines. Calls of a thread are inside its ranges, and no range of it begins or ends inside a call; with ranges of another
thread, that would be a rare coincidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from warpsight_plugins.xplane.space import Plane

Column = npt.NDArray[Any]
#: Calls that a match needs, the share of them inside of ranges, and the share that may hold an end of a range.
_LEAST, _INSIDE, _CROSSED = 8, 0.9, 0.02


def numbers(plane: Plane, is_call: Callable[[str], bool]) -> dict[int, int]:
    """For each line of ranges, the id of the line with its thread's driver calls; by the id of the ranges' line."""
    calls: dict[int, tuple[Column, Column]] = {}
    ranges: dict[int, tuple[Column, Column]] = {}
    for line in plane.lines():
        events = [e for e in line.events if e.duration_ps]
        if not events:
            continue
        begin = np.array([_time(line.timestamp_ns + e.offset_ps // 1000) for e in events], np.int64)
        end = begin + np.array([_time(e.duration_ps // 1000) for e in events], np.int64)
        known = {e.metadata_id for e in events}
        if all(is_call(plane.event_name(number)) for number in known):
            calls[line.id] = begin, end
        elif not any(is_call(plane.event_name(number)) for number in known):
            ranges[line.id] = begin, end
    out: dict[int, int] = {}
    for number, (begin, end) in sorted(calls.items(), key=lambda one: -len(one[1][0])):
        fitting = [
            line
            for line, of in ranges.items()
            if line not in out and number not in ranges and _nested(begin, end, *of)
        ]
        if fitting:
            out[max(fitting, key=lambda line: len(ranges[line][0]))] = number
    return out


def _time(ns: int) -> int:
    return max(min(ns, 1 << 61), -(1 << 61))


def _nested(begin: Column, end: Column, start: Column, stop: Column) -> bool:
    """Whether calls are nested inside ranges as they are on the ranges' own thread."""
    if len(begin) < _LEAST:
        return False
    depth = np.searchsorted(np.sort(start), begin, "right") - np.searchsorted(np.sort(stop), begin, "right")
    edges = np.sort(np.concatenate([start, stop]))
    crossed = np.searchsorted(edges, end, "left") > np.searchsorted(edges, begin, "right")
    return bool((depth > 0).mean() >= _INSIDE and crossed.mean() <= _CROSSED)

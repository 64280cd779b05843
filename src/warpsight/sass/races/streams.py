"""Races of two launches: unordered accesses to the same global memory from two streams, one of them a write.

Launches of one stream are in order. Between streams, order comes from an event that one records and the other waits for, and from
a host that has waited for an event, a stream or the device. Where this is not exact, it sees too much order: work of the legacy
default stream counts as ordered with everything, and so does work of several host threads. Copies between launches and kernels of
graphs are not checked. For a program that polls (`cudaEventQuery`) and then launches, the answer is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.sass.events.trace import EventTrace, TracedLaunch
from warpsight.sass.races.accesses import Accesses, accesses
from warpsight.sass.races.witness import Race, side

Array = npt.NDArray[Any]
#: Handles of the legacy default stream.
_DEFAULT = (0, 1)
_GRANULE = 4
REASON = "two streams, and no event orders the launches"


@dataclass(frozen=True)
class _Touched:
    """A launch's accesses to global memory, with the pieces that it reads and writes, ascending."""

    launch: TracedLaunch
    own: Accesses
    written: Array
    touched: Array


def stream_races(trace: EventTrace) -> tuple[Race, ...]:
    """One race, with a witness, per pair of racing kernels."""
    ordered = _Order(trace)
    candidates = [launch for launch in trace.launches.values() if _may_race(launch)]
    if len({launch.said["stream"] for launch in candidates}) < 2:
        return ()
    touched = [_touched(trace, launch) for launch in candidates]
    found: dict[tuple[str, str], Race] = {}
    for first, second in combinations(touched, 2):
        pair = (first.launch.name, second.launch.name)
        if pair in found or ordered.before(first.launch.number, second.launch.number):
            continue
        common = np.union1d(
            np.intersect1d(first.written, second.touched), np.intersect1d(first.touched, second.written)
        )
        if len(common):
            found[pair] = _race(trace, first, second, int(common[0]), len(common))
    return tuple(found.values())


def _may_race(launch: TracedLaunch) -> bool:
    return launch.said["stream"] not in _DEFAULT and not launch.said["graph"]


def _touched(trace: EventTrace, launch: TracedLaunch) -> _Touched:
    own = accesses(trace, launch, trace.of_launch(launch.number))
    pieces = own.address // np.uint64(_GRANULE)
    return _Touched(launch, own, np.unique(pieces[~own.shared & own.write]), np.unique(pieces[~own.shared]))


def _race(trace: EventTrace, first: _Touched, second: _Touched, piece: int, count: int) -> Race:
    rows = [_row(first, piece), _row(second, piece)]
    sides = [
        side(trace, one.launch, trace.of_launch(one.launch.number), one.own, row)
        for one, row in zip((first, second), rows, strict=True)
    ]
    name = f"{first.launch.name} and {second.launch.name}"
    return Race(name, second.launch.number, "global", piece * _GRANULE, count, REASON, sides[0], sides[1])


def _row(one: _Touched, piece: int) -> int:
    """An access to a piece of memory, preferably a write."""
    rows = np.flatnonzero(~one.own.shared & (one.own.address // np.uint64(_GRANULE) == piece))
    writes = rows[one.own.write[rows]]
    return int(writes[0] if len(writes) else rows[0])


class _Order:
    """Which launches are before which: for each stream and the host, how many launches of each stream are known to be done."""

    def __init__(self, trace: EventTrace) -> None:
        self._place: dict[int, tuple[int, int]] = {}
        self._known: dict[int, dict[int, int]] = {}
        streams: dict[int, dict[int, int]] = defaultdict(dict)
        events: dict[int, dict[int, int]] = {}
        host: dict[int, int] = {}
        everything: dict[int, int] = {}  # after which the next launch of any stream comes
        for said in trace.file.order:
            stream = 0 if said["stream"] in _DEFAULT else int(said["stream"])
            own = streams[stream]
            if "launch" in said:
                for known in (host, everything, *(streams.values() if stream == 0 else ())):
                    _learn(own, known)
                self._known[int(said["launch"])] = dict(own)
                own[stream] = own.get(stream, 0) + 1
                self._place[int(said["launch"])] = (stream, own[stream])
                if stream == 0:
                    _learn(everything, own)
            elif said["what"] == "record":
                events[said["event"]] = dict(own)
            elif said["what"] == "wait":
                _learn(own, events.get(said["event"], {}))
            elif said["what"] == "event":
                _learn(host, events.get(said["event"], {}))
            elif said["what"] == "stream":
                _learn(host, own)
            elif said["what"] == "context":
                for known in streams.values():
                    _learn(host, known)

    def before(self, earlier: int, later: int) -> bool:
        """Whether one launch ends before the other begins."""
        stream, count = self._place[earlier]
        return self._place[later][0] == stream or self._known[later].get(stream, 0) >= count


def _learn(own: dict[int, int], other: dict[int, int]) -> None:
    for stream, count in other.items():
        own[stream] = max(own.get(stream, 0), count)

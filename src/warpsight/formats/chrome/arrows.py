"""Arrows from calls to the device work that they issued, the link between both in files without correlations.

RPD's converter (`api_op`) and other tools that draw launches write them. Each end of an arrow lies inside its event, on that
event's track, usually at the event's start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from warpsight.formats.chrome.events import ChromeEvent, text
from warpsight.formats.chrome.times import MISSING, nanoseconds
from warpsight.formats.chrome.tracks import Tracks, key

#: Correlations derived from arrows begin here, above those of runtimes.
_FIRST = 1 << 40
_Track = tuple[Any, Any]
_End = tuple[_Track, int]
#: An event: its track, start and duration.
_Place = tuple[_Track, int, int]


class LaunchArrows:
    """Finds the events that arrows lead from and to, and gives both one correlation."""

    def __init__(self, tracks: Tracks) -> None:
        """`tracks` classifies device tracks once it has read the whole file."""
        self._tracks = tracks
        self._host: dict[tuple[str, str], _End] = {}
        self._device: list[tuple[tuple[str, str], _End]] = []
        self._ends: list[tuple[tuple[str, str], ChromeEvent, int]] = []
        self._times: dict[_Track, list[int]] = {}
        self._around: dict[_End, _Place] = {}
        self._correlation: dict[_Place, int] = {}
        self._joined: set[tuple[str, str]] = set()

    def learn(self, events: Iterable[ChromeEvent]) -> None:
        """Register the ends of arrows."""
        arrows = [event for event in events if event.ph in ("s", "t", "f")]
        for event, time in zip(arrows, nanoseconds([event.ts for event in arrows]).tolist(), strict=True):
            if time != MISSING:
                short = ChromeEvent(ph=event.ph, pid=event.pid, tid=event.tid)
                self._ends.append(((text(event.cat), str(event.id)), short, time))

    def launching(self) -> bool:
        """Whether some arrows lead from a host's track to a device's."""
        for arrow, event, time in self._ends:
            end = (_track(event), time)
            if self._tracks.of_a_device(event):
                self._device.append((arrow, end))
            elif event.ph == "s":
                self._host[arrow] = end
        self._ends = []
        self._device = [(arrow, end) for arrow, end in self._device if arrow in self._host]
        for track, time in [
            *(end for _, end in self._device),
            *(self._host[arrow] for arrow, _ in self._device),
        ]:
            self._times.setdefault(track, []).append(time)
        for times in self._times.values():
            times.sort()
        return bool(self._device)

    def find(self, events: Iterable[ChromeEvent]) -> None:
        """Look for the event that each end belongs to: one that begins there, otherwise the shortest around it."""
        mine = [event for event in events if event.ph == "X" and _track(event) in self._times]
        begins = nanoseconds([event.ts for event in mine]).tolist()
        lengths = nanoseconds([bytes(event.dur) or b"0" for event in mine]).tolist()
        for event, begin, length in zip(mine, begins, lengths, strict=True):
            if MISSING in (begin, length):
                continue
            track = _track(event)
            times = self._times[track]
            for time in times[bisect_left(times, begin) : bisect_left(times, begin + length + 1)]:
                known = self._around.get((track, time))
                if known is None or (begin != time, length) < (known[1] != time, known[2]):
                    self._around[track, time] = (track, begin, length)

    def join(self) -> None:
        """Number the pairs. A call's device work shares a number, and belongs to its calls' process if there is only one."""
        callers: dict[Any, set[Any]] = {}
        for arrow, end in self._device:
            call, work = self._around.get(self._host[arrow]), self._around.get(end)
            if call is not None and work is not None:
                number = self._correlation.setdefault(call, _FIRST + len(self._correlation))
                self._correlation[work] = number
                self._joined.add(arrow)
                callers.setdefault(work[0][0], set()).add(call[0][0])
        for device, processes in callers.items():
            if len(processes) == 1:
                self._tracks.adopt(device, processes.pop())

    def leads(self, event: ChromeEvent) -> bool:
        """Whether an event is an end of an arrow from a call to its work."""
        return (text(event.cat), str(event.id)) in self._joined

    def correlation(self, event: ChromeEvent, begin: int, length: int) -> int | None:
        """The number of an event, None for events without such an arrow."""
        return self._correlation.get((_track(event), begin, length)) if self._correlation else None


def _track(event: ChromeEvent) -> _Track:
    return key(event.pid), key(event.tid)

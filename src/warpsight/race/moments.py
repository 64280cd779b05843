"""What the warps of two racing accesses did before and after, from the event trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.formats.events.kinds import CLASSES, KINDS, READ, WRITE
from warpsight.formats.events.records import Events
from warpsight.race.points import ACCESSES
from warpsight.race.suspects import Suspect, line_of
from warpsight.sass.events.trace import EventTrace, TracedLaunch

#: Maximum events of a warp shown before and after its access.
_AROUND = 9
_SYNCHRONIZES = frozenset(kind.name for name in ("barriers", "mbarrier", "cluster") for kind in CLASSES[name])
_COPIES = frozenset(kind.name for kind in CLASSES["tma"]) | {"copy_async"}


@dataclass(frozen=True)
class _Moment:
    """An instruction of a warp.

    Attributes:
        ns: since the first one shown; sort: load, store, atomic, copy, synchronization or other.
        what: the instruction; line: `file:line`, innermost; racing: whether it is the access of the race.
    """

    ns: int
    sort: str
    what: str
    line: str
    racing: bool


@dataclass(frozen=True)
class WarpMoments:
    """A warp's actions, in order."""

    name: str
    moments: tuple[_Moment, ...]


@dataclass(frozen=True)
class _Seat:
    """A warp of a launch and the row of its access among the launch's events; -1 if it has none."""

    launch: TracedLaunch
    block: int
    warp: int
    event: int


def moments(traces: Sequence[EventTrace], suspect: Suspect) -> tuple[WarpMoments, ...]:
    """The actions of the warps of a suspect's accesses; empty without a trace."""
    for trace in traces:
        seats = _seats(trace, suspect)
        if seats:
            return _recorded_moments(trace, seats)
    return ()


def _seats(trace: EventTrace, suspect: Suspect) -> list[_Seat]:
    race = suspect.race
    if race is None:
        return _by_lines(trace, suspect)
    found = [(trace.launches.get(side.launch), side) for side in (race.first, race.second)]
    seats = [_Seat(launch, side.block, side.thread // 32, side.event) for launch, side in found if launch]
    names = [seat.launch.name for seat in seats]
    return seats if race.kernel in (*names, " and ".join(names)) else []


def _by_lines(trace: EventTrace, suspect: Suspect) -> list[_Seat]:
    """If no event trace contains the race: the first access at its line, and the one of another warp that is nearest in time."""
    for launch in trace.launches.values():
        events = trace.of_launch(launch.number)
        first = _at_line(trace, launch, events, suspect.first.line)
        if not len(first):
            continue
        at = int(first[0])
        other = events.block != events.block[at]
        if suspect.second is not None:
            other |= events.warp != events.warp[at]
            other &= np.isin(np.arange(len(events)), _at_line(trace, launch, events, suspect.second.line))
        seats = [_Seat(launch, int(events.block[at]), int(events.warp[at]), at)]
        if other.any():
            rows = np.flatnonzero(other)
            distance = np.abs(events.time[rows].astype(np.int64) - int(events.time[at]))
            row = int(rows[np.argmin(distance)])
            marked = row if suspect.second is not None else -1
            seats.append(_Seat(launch, int(events.block[row]), int(events.warp[row]), marked))
        return seats
    return []


def _at_line(trace: EventTrace, launch: TracedLaunch, events: Events, line: str) -> npt.NDArray[np.int64]:
    """Rows of a launch's events with this innermost line, only accesses if there are any."""
    pcs = np.unique(events.pc)
    places = trace.places(launch, pcs)
    there = [line_of(trace.chain(place)) == line for place in places]
    rows = np.flatnonzero(np.isin(events.pc, pcs[there])) if line else np.empty(0, np.int64)
    accesses = rows[[KINDS[kind].name in ACCESSES for kind in events.kind[rows].tolist()]]
    return accesses if len(accesses) else rows


def _recorded_moments(trace: EventTrace, seats: Sequence[_Seat]) -> tuple[WarpMoments, ...]:
    rows = [(seat, *_rows(trace, seat)) for seat in seats]
    begin = min(int(events.time[row]) for _, events, chosen in rows for row in chosen)
    several = len({seat.launch.number for seat in seats}) > 1
    return tuple(
        WarpMoments(
            (f"{seat.launch.name}, " if several else "") + f"block {seat.block}, warp {seat.warp}",
            tuple(_moment(trace, seat, events, row, begin) for row in chosen),
        )
        for seat, events, chosen in rows
    )


def _rows(trace: EventTrace, seat: _Seat) -> tuple[Events, list[int]]:
    """The launch's events, and the rows of a warp to show: some before its access and some after it."""
    events = trace.of_launch(seat.launch.number)
    own = np.flatnonzero((events.block == seat.block) & (events.warp == seat.warp))
    own = own[np.argsort(events.time[own], kind="stable")]
    at = int(np.flatnonzero(own == seat.event)[0]) if seat.event in own else len(own) - 1
    return events, own[max(at - _AROUND, 0) : at + _AROUND + 1].tolist()


def _moment(trace: EventTrace, seat: _Seat, events: Events, row: int, begin: int) -> _Moment:
    place = trace.places(seat.launch, events.pc[row : row + 1])[0]
    kind, flags = KINDS[int(events.kind[row])], int(events.flags[row])
    return _Moment(
        int(events.time[row]) - begin, _sort(kind.name, kind.space, flags), trace.sass(place) or kind.name,
        line_of(trace.chain(place)), row == seat.event,
    )  # fmt: skip


def _sort(name: str, space: str, flags: int) -> str:
    if name in _COPIES:
        return "copy"
    if name in _SYNCHRONIZES:
        return "synchronization"
    if not space:
        return "other"
    both = READ | WRITE
    return "atomic" if flags & both == both else "store" if flags & WRITE else "load"

"""Joins launches and ends, which TraceSmith's recorders write as two events without a duration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpsight.formats.varint import Column
from warpsight_plugins.sbt.events import SbtEvents, nothing

#: Types of events that begin something, and those that end it.
_ENDS = {1: 2, 18: 19, 20: 21}
#: Begins that wait for their end at most.
_WAITING = 1 << 20


@dataclass(frozen=True)
class Ready:
    """Events to place.

    `ordinal` is their place in the file, `length` the duration that an end gives (else 0); those not `alone` get a row; the
    others only give the length of another event.
    """

    events: SbtEvents
    ordinal: Column
    length: Column
    alone: Column


class PairedEvents:
    """Holds begin events until their end events arrive."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._held, self._ordinal = nothing(), np.empty(0, np.int64)
        #: Launches of kernels whose end never came.
        self.unended = 0

    def take(self, events: SbtEvents, ordinal: Column) -> Ready:
        """Events that can be placed now, given that these come next."""
        silent = events.duration == 0
        begins = np.isin(events.kind, list(_ENDS)) & silent & (events.correlation != 0)
        ends = np.isin(events.kind, list(_ENDS.values())) & silent
        if not len(self._held) and not begins.any() and not ends.any():
            return Ready(events, ordinal, np.zeros(len(events), np.int64), ends)
        before = len(self._held)
        if before:
            events, ordinal = self._held.followed_by(events), np.concatenate([self._ordinal, ordinal])
            begins = np.concatenate([np.ones(before, bool), begins])
            ends = np.concatenate([np.zeros(before, bool), ends])
        length = np.zeros(len(events), np.int64)
        first, last = _matched(events, np.flatnonzero(begins), np.flatnonzero(ends))
        took = (events.time[last] - events.time[first]).view(np.int64)
        later = took > 0
        length[first[later]] = took[later]
        waiting = begins & (length == 0)
        if int(waiting.sum()) > _WAITING:
            self.unended += int((waiting & (events.kind == 1)).sum())
            waiting[:] = False
        self._held, self._ordinal = events.take(np.flatnonzero(waiting)), ordinal[waiting]
        rows = np.flatnonzero(~waiting)
        return Ready(events.take(rows), ordinal[rows], length[rows], ends[rows])

    def rest(self) -> Ready:
        """Begins whose end never came."""
        count = len(self._held)
        self.unended += int((self._held.kind == 1).sum())
        ready = Ready(self._held, self._ordinal, np.zeros(count, np.int64), np.zeros(count, bool))
        self._held, self._ordinal = nothing(), np.empty(0, np.int64)
        return ready


def _matched(events: SbtEvents, begins: Column, ends: Column) -> tuple[Column, Column]:
    """Match begins with ends of the same type, device and correlation: first with first, second with second."""
    order = np.arange(256)
    order[list(_ENDS.values())] = list(_ENDS)
    keys = np.stack([order[events.kind].astype(np.uint64), events.device, events.correlation], axis=1)
    both = np.concatenate([begins, ends])
    _, group = np.unique(keys[both], axis=0, return_inverse=True)
    group = group.ravel()
    mine, theirs = _numbered(group[: len(begins)]), _numbered(group[len(begins) :])
    _, left, right = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return begins[left], ends[right]


def _numbered(group: Column) -> Column:
    """Each row's group and its position in the group, as one number."""
    order = np.argsort(group, kind="stable")
    ranked = group[order]
    first = np.concatenate([[0], np.flatnonzero(ranked[1:] != ranked[:-1]) + 1]) if len(ranked) else ranked
    place = np.empty(len(group), np.int64)
    place[order] = np.arange(len(group)) - np.repeat(first, np.diff(np.concatenate([first, [len(group)]])))
    numbered: Column = group.astype(np.int64) * np.int64(1 << 31) + place
    return numbered

"""An analysis drawn over a timeline: segments on their own track, and arrows between the rows of a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.formats.writing.batch import TrackBatch
from warpsight.formats.writing.timeline import CATEGORY, Column, Slices, Texts, Track

#: Arrows of a row: into its start, out of its start, into its end, out of its end; 0 means none.
BEGIN_IN, BEGIN_OUT, END_IN, END_OUT = range(4)
#: Arrow numbers have these bits set, so that they do not collide with other flows.
_SALT = np.uint64(0xC << 60)
_CALLS = (CATEGORY["launch"], CATEGORY["api"])


@dataclass(frozen=True)
class OnPath:
    """Rows on a path, identified by process, start and place (a thread or stream id).

    `arrows` has four numbers for each, 0 for none.
    """

    process: Column
    start: Column
    place: Column
    arrows: Column

    def of(self, process: int, start: Column, place: Column) -> Column:
        """The arrows of other rows; zeros for rows off the path."""
        out = np.zeros((len(start), 4), np.uint64)
        own = np.flatnonzero(self.process == process)
        if not len(own) or not len(start):
            return out
        # Each start and each place gets a number, in order, so that a pair is one number.
        starts, places = np.unique(self.start[own]), np.unique(self.place[own])
        width = len(places)
        keys = np.searchsorted(starts, self.start[own]) * width + np.searchsorted(places, self.place[own])
        order = np.argsort(keys, kind="stable")
        at = np.minimum(np.searchsorted(starts, start), len(starts) - 1)
        also = np.minimum(np.searchsorted(places, place), width - 1)
        known = np.flatnonzero((starts[at] == start) & (places[also] == place))
        wanted = at[known] * width + also[known]
        found = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
        hit = keys[order[found]] == wanted
        out[known[hit]] = self.arrows[own[order[found[hit]]]]
        return out


@dataclass(frozen=True)
class Overlay:
    """Non-overlapping segments in time order, named by `labels[label]`; for a path, its rows.

    Overlays with the same `group` are below one track of that name.
    """

    name: str
    start: Column
    end: Column
    label: Column
    labels: Sequence[str]
    category: str
    device: OnPath | None = None
    host: OnPath | None = None
    group: str = ""
    #: More about each label: members of a JSON object without its braces
    attributes: Sequence[str] = ()

    def slices(self, track: Track, texts: Texts, begin: int | None, end: int | None) -> Slices:
        """The segments that overlap a time window, as slices of a track."""
        keep = np.ones(len(self.start), bool)
        if begin is not None:
            keep &= self.end > begin
        if end is not None:
            keep &= self.start < end
        names = np.array([texts.name(text) for text in self.labels], np.int64)
        count = int(keep.sum())
        category = np.full(count, CATEGORY[self.category], np.int8)
        about = np.array(self.attributes, object)[self.label[keep]] if self.attributes else None
        return Slices(
            self.start[keep], self.end[keep], names[self.label[keep]], category, attributes=about, track=track
        )

    def connect(self, batch: TrackBatch, process: int, streams: Sequence[int] | None) -> None:
        """Assign arrows to those rows of a batch that are on the path.

        `streams` are the ids behind the keys of device work, from key 1 on; None for rows of the host.
        """
        side = self.host if streams is None else self.device
        if side is None or not len(batch):
            return
        if streams is None:
            rows = np.flatnonzero(np.isin(batch.category, _CALLS))
            place = batch.key[rows] >> 1
        else:
            rows = np.flatnonzero(batch.key > 0)  # waits of the host have keys below 0
            place = np.array(streams, np.int64)[batch.key[rows] - 1]
        arrows = np.zeros((len(batch), 4), np.uint64)
        arrows[rows] = side.of(process, batch.start[rows], place)
        if arrows.any():
            batch.arrows = np.where(arrows > 0, arrows ^ _SALT, np.uint64(0))

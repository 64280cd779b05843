"""Rows of several tables together, before they are placed on tracks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.formats.writing.timeline import COLUMNS, Column, SliceColumns, Slices, Track


@dataclass(kw_only=True)
class TrackBatch(SliceColumns):
    """Rows with the key of the track they belong to."""

    key: Column

    def take(self, rows: Column | slice) -> TrackBatch:
        """Some of the rows, without their key."""
        return TrackBatch(key=self.key[:0], **{name: values[rows] for name, values in self.columns().items()})

    def slices(self, track: Track, source: bool) -> Slices:
        """The rows as slices of a track."""
        return Slices(track=track, source=source, **self.columns())


def nothing() -> TrackBatch:
    """No rows."""
    none = np.empty(0, np.int64)
    return TrackBatch(none, none, none, np.empty(0, np.int8), key=none)


def concat(batches: list[TrackBatch]) -> TrackBatch:
    """All rows; a column that only some batches have is 0 (or an empty string) in the other rows."""
    batches = [b for b in batches if len(b)] or [nothing()]
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, Column] = {}
    for name in ("key", *COLUMNS):
        values = [getattr(b, name) for b in batches]
        kind = next((one.dtype for one in values if one is not None), None)
        if kind is not None:
            columns[name] = np.concatenate([
                _absent(len(b), kind) if one is None else one for b, one in zip(batches, values, strict=True)
            ])  # fmt: skip
    return TrackBatch(**columns)


def _absent(rows: int, kind: np.dtype[Any]) -> Column:
    return np.full(rows, "" if kind.hasobject else 0, kind)


def by_key(batch: TrackBatch) -> Iterator[tuple[int, Column | slice]]:
    """Row numbers of every key, in order of start."""
    import pyarrow as pa

    if not len(batch):
        return
    rows: Column | None = None
    if not bool((batch.start[1:] >= batch.start[:-1]).all()):
        rows = np.argsort(batch.start, kind="stable")
    key = batch.key if rows is None else batch.key[rows]
    coded = pa.array(key).dictionary_encode()
    values = coded.dictionary.to_numpy()
    if len(values) == 1:
        yield int(values[0]), slice(None) if rows is None else rows
        return
    # NumPy sorts short integers by radix.
    place = coded.indices.to_numpy().astype(np.int16 if len(values) < 32768 else np.int32)
    order = np.argsort(place, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(place))])
    order = order if rows is None else rows[order]
    for i in np.argsort(values):
        yield int(values[i]), order[bounds[i] : bounds[i + 1]]

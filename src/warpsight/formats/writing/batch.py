"""Rows of several tables side by side, before they are placed on tracks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.formats.writing.timeline import Column, Slices, Track

#: Columns that a slice may have; see :class:`Slices`.
OPTIONAL = (
    "correlation",
    "shape",
    "stack",
    "bytes",
    "graph",
    "node",
    "source_address",
    "destination_address",
    "address",
    "flow",
    "waited",
    "waits",
    "arrows",
    "attributes",
)
_ALWAYS = ("key", "start", "end", "name", "category")


@dataclass
class TrackBatch:
    """Rows with the key of the track they belong to; optional columns are None or full."""

    key: Column
    start: Column
    end: Column
    name: Column
    category: Column
    correlation: Column | None = None
    shape: Column | None = None
    stack: Column | None = None
    bytes: Column | None = None
    graph: Column | None = None
    node: Column | None = None
    source_address: Column | None = None
    destination_address: Column | None = None
    address: Column | None = None
    flow: Column | None = None
    waited: Column | None = None
    waits: Column | None = None
    arrows: Column | None = None
    attributes: Column | None = None

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.start)

    def take(self, rows: Column | slice) -> TrackBatch:
        """Some of the rows, without their key."""
        columns: dict[str, Any] = {c: getattr(self, c) for c in (*_ALWAYS[1:], *OPTIONAL)}
        taken: dict[str, Any] = {c: None if v is None else v[rows] for c, v in columns.items()}
        return TrackBatch(self.key[:0], **taken)

    def slices(self, track: Track, source: bool) -> Slices:
        """The rows as slices of a track."""
        optional = {c: getattr(self, c) for c in OPTIONAL}
        return Slices(track, self.start, self.end, self.name, self.category, source=source, **optional)


def nothing() -> TrackBatch:
    """No rows."""
    none = np.empty(0, np.int64)
    return TrackBatch(none, none, none, none, np.empty(0, np.int8))


def concat(batches: list[TrackBatch]) -> TrackBatch:
    """All rows; a column that only some batches have is 0 (of texts: empty) for the rows of the others."""
    batches = [b for b in batches if len(b)] or [nothing()]
    if len(batches) == 1:
        return batches[0]
    columns: dict[str, Any] = {c: np.concatenate([getattr(b, c) for b in batches]) for c in _ALWAYS}
    for column in OPTIONAL:
        present = [getattr(b, column) for b in batches if getattr(b, column) is not None]
        if present:
            columns[column] = np.concatenate([
                _absent(len(b), present[0].dtype) if getattr(b, column) is None else getattr(b, column) for b in batches
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

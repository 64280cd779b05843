"""Writing a trace as a Perfetto trace, sequence by sequence."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

from warpsight.formats.perfetto import packets, wire
from warpsight.formats.rows import Reader
from warpsight.formats.selection import Selection
from warpsight.formats.timeline import Slices, Track, load_stacks, load_texts

if TYPE_CHECKING:
    from warpsight.trace import Trace

#: Rows encoded by one task.
_TASK_ROWS = 8 * wire.CHUNK_ROWS


def write(trace: Trace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the selected part of a trace; returns what was written: slices, samples, tracks, unplaced kernels."""
    texts = load_texts(trace)
    reader = Reader(trace, selection, texts)
    file.write(packets.head(reader.origin, _realtime(trace, reader.origin)))
    written = {"slices": 0, "samples": 0, "tracks": 0, "unplaced": reader.unfinished}
    described: set[int] = set()
    sequence = 1
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        for piece in reader.pieces():
            rows = len(piece)
            if not rows:
                continue
            sequence += 1
            for track in (*reader.parents(piece.track), piece.track):
                _describe(file, track, described)
            if isinstance(piece, Slices):
                load_stacks(trace, texts, piece)
                opening, parts = packets.slices(sequence, piece, texts, reader.origin)
                written["slices"] += rows
            else:
                opening, parts = packets.counter(sequence, piece, reader.origin)
                written["samples"] += rows
            file.write(opening)
            for data in _encoded(pool, parts, rows):
                file.write(data)
    written["tracks"] = len(described)
    return written


def _describe(file: IO[bytes], track: Track, described: set[int]) -> None:
    if track.uuid not in described:
        described.add(track.uuid)
        file.write(packets.describe(track))


def _encoded(pool: ThreadPoolExecutor, parts: Sequence[wire.Part], rows: int) -> Iterator[bytes]:
    """The rows' bytes in order; a few tasks run ahead, so memory stays bounded. NumPy works without the GIL."""
    waiting: deque[Future[bytes]] = deque()
    for begin in range(0, rows, _TASK_ROWS):
        waiting.append(pool.submit(wire.encode, parts, begin, min(begin + _TASK_ROWS, rows)))
        if len(waiting) > 8:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _realtime(trace: Trace, moment: int) -> int | None:
    """The wall clock at a moment, by the nearest pair of readings; None when the trace has none."""
    rows = trace.sql(
        f"SELECT realtime + ({moment} - monotonic) FROM clock ORDER BY abs({moment} - monotonic) LIMIT 1"
    ).fetchall()
    return int(rows[0][0]) if rows and rows[0][0] is not None else None

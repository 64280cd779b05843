"""Writing a trace as a Perfetto trace, sequence by sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import IO, TYPE_CHECKING

from warpsight.formats.enclosed import writing as enclosed
from warpsight.formats.perfetto import packets, wire
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight.formats.writing.rows import ExportReader
from warpsight.formats.writing.timeline import CounterTrack, Slices, Texts, load_stacks, load_texts
from warpsight.model.workers import processors, workers

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "device work by stream, calls, operators, ranges and own events by thread, with all their fields",
        "arrows from launches and between dependent work; samples, builds, overhead, counters, allocated "
        "bytes; the wall clock",
    ),
    lost=("rows of table `attribute`; losses; devices beyond their names",),
    tested=("Perfetto's message definitions, trace processor and page",),
)
#: Maximum runs of slices being encoded or waiting to be written while more are read: they hold the memory of about one window.
_TASKS_AHEAD = 12


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the selected part of a trace; returns counts of slices, samples, tracks and unplaced kernels."""
    texts = load_texts(trace)
    reader = ExportReader(trace, selection, texts)
    summed = enclosed.Summed(file)
    summed.write(packets.head(reader.origin, _realtime(trace, reader.origin), enclosed.marker(selection)))
    written = {"slices": 0, "samples": 0, "tracks": 0, "unplaced": reader.unfinished}
    described: set[int] = set()
    sequence = 1
    with workers(min(4, processors())) as pool:
        queue = _Queue(summed, pool)
        for piece in reader.pieces():
            rows = len(piece)
            if not rows:
                continue
            sequence += 1
            for track in (*reader.parents(piece.track), piece.track):
                if track.uuid not in described:
                    described.add(track.uuid)
                    queue.put(packets.describe(track))
            written["slices" if isinstance(piece, Slices) else "samples"] += rows
            queue.encode(partial(_encode, trace, texts, piece, sequence, reader.origin))
        queue.drain(0)
    enclosed.as_packets(trace, selection, summed)
    written["tracks"] = len(described)
    return written


def _encode(
    trace: StoredTrace, texts: Texts, piece: Slices | CounterTrack, sequence: int, origin: int
) -> list[bytes | bytearray]:
    """A packet sequence: its opening packets and its rows."""
    if isinstance(piece, Slices):
        load_stacks(trace, texts, piece)
        opening, parts = packets.slices(sequence, piece, texts, origin)
    else:
        opening, parts = packets.counter(sequence, piece, origin)
    return [opening, *wire.encode(parts, 0, len(piece))]


class _Queue:
    """The queue of items to write, in order.

    Encoding runs ahead on other threads, a bounded number of tasks: NumPy works without the interpreter's lock, so the
    next rows are read and placed meanwhile.
    """

    def __init__(self, file: enclosed.Summed, pool: ThreadPoolExecutor) -> None:
        self._file = file
        self._pool = pool
        self._waiting: deque[bytes | Future[list[bytes | bytearray]]] = deque()

    def put(self, data: bytes) -> None:
        self._waiting.append(data)

    def encode(self, task: Callable[[], list[bytes | bytearray]]) -> None:
        self._waiting.append(self._pool.submit(task))
        self.drain(_TASKS_AHEAD)

    def drain(self, keep: int) -> None:
        """Write ready items, waiting until at most `keep` are left."""
        while self._waiting:
            item = self._waiting[0]
            if isinstance(item, bytes):
                self._file.write(item)
            elif len(self._waiting) > keep or item.done():
                for piece in item.result():
                    self._file.write(piece)
            else:
                return
            self._waiting.popleft()


def _realtime(trace: StoredTrace, moment: int) -> int | None:
    """The wall clock at a moment, by the nearest pair of readings; None if the trace has no readings."""
    rows = trace.sql(
        f"SELECT realtime + ({moment} - monotonic) FROM clock ORDER BY abs({moment} - monotonic) LIMIT 1"
    ).fetchall()
    return int(rows[0][0]) if rows and rows[0][0] is not None else None

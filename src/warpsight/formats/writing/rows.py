"""Reading a trace's rows as the slices and counters of a timeline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from warpsight.formats.selection import Selection
from warpsight.formats.writing.batch import TrackBatch, by_key
from warpsight.formats.writing.counters import counters
from warpsight.formats.writing.placing import Depths, LaneAllocator
from warpsight.formats.writing.queries import Queries, TimeWindow
from warpsight.formats.writing.timeline import Column, CounterTrack, Slices, Texts, Track
from warpsight.model.workers import workers

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: Row numbers of a batch, or all of them
Rows = Column | slice
#: Order of the groups and tracks within a process; threads come first in every viewer.
_RANGES, _OVERLAPPING, _SAMPLES, _BUILDS, _OVERHEAD, _DEVICES = 1, 2, 3, 4, 5, 10
_EXPLICIT = np.uint64(1 << 63)
#: The stream id of a wait for all streams of a context.
_NO_STREAM = -1


class ExportReader:
    """Reads one trace for one export; `pieces` yields the contents in time windows."""

    def __init__(self, trace: StoredTrace, selection: Selection, texts: Texts) -> None:
        """Prepare; only sums are read yet."""
        self.trace = trace
        self.selection = selection
        self.texts = texts
        self.queries = Queries(trace, selection, texts)
        self.origin = self.queries.origin
        self._uuids = count(1)
        self._parents: dict[int, Track] = {}
        #: Tracks per device, one for each process that used it; None: the processes themselves.
        self.groups: dict[int | None, list[Track]] = {}
        #: Flows of the process read last that end at more than one slice: kernels of one graph launch.
        self.shared_flows: Column = np.empty(0, np.uint64)
        #: Kernels that were launched but never reported by the device: they have no place on a timeline.
        self.unfinished = self.queries.scalar("SELECT count(*) FROM kernel_ids WHERE start IS NULL")

    def parents(self, track: Track) -> list[Track]:
        """The tracks above a track, outermost first."""
        above = self._parents.get(track.parent or 0)
        return [] if above is None else [*self.parents(above), above]

    def group(self, track: Track, device: int | None = None) -> Track:
        """Remember a process's or a device's track, under which counters may be placed."""
        self.groups.setdefault(device, []).append(track)
        return self.below(track)

    def below(self, track: Track) -> Track:
        """Remember a track under which others are placed."""
        self._parents[track.uuid] = track
        return track

    def uuid(self) -> int:
        """The next unused track number (`uuid`)."""
        return next(self._uuids)

    def pieces(self) -> Iterator[Slices | CounterTrack]:
        """The overlays, every process's threads and devices, then counters."""
        above: dict[str, Track] = {}
        for overlay in self.selection.overlays:
            if overlay.group and overlay.group not in above:
                above[overlay.group] = self.below(Track(self.uuid(), overlay.group))
            parent = above[overlay.group].uuid if overlay.group else None
            track = Track(self.uuid(), overlay.name, parent=parent)
            yield overlay.slices(track, self.texts, self.selection.begin, self.selection.end)
        with workers(1, "read") as pool:
            for track, process in self.processes():
                tracks = _ProcessTracks(self, track, process)
                for device, host in self._batches(process, pool):
                    yield from tracks.threads(host)
                    yield from tracks.streams(device)
                yield from tracks.others()
        yield from counters(self.queries, self.uuid, self._only_groups())

    def _only_groups(self) -> dict[int | None, Track]:
        """The group of each device used by only one process, and of the only process: counters go below them."""
        groups: dict[int | None, Track] = {}
        for device, tracks in self.groups.items():
            if len(tracks) == 1:
                groups[device] = tracks[0]
        return groups

    def processes(self) -> Iterator[tuple[Track, int]]:
        """Track and id of every selected process; a process id that occurs twice (two hosts) is replaced."""
        seen: set[int] = set()
        rows = self.trace.sql("SELECT process, pid, command, rank FROM process ORDER BY process").fetchall()
        for process, pid, command, rank in rows:
            if self.selection.processes and process not in self.selection.processes:
                continue
            pid = pid if pid not in seen else 1_000_000_000 + process
            seen.add(pid)
            name = _program(command) if rank is None else f"rank {rank}: {_program(command)}"
            yield self.group(Track(self.uuid(), name, pid=pid, command=command, is_group=True)), process

    def _batches(self, process: int, pool: ThreadPoolExecutor) -> Iterator[tuple[TrackBatch, TrackBatch]]:
        """Device and host rows window by window; the next window is read while the last is written."""
        joined = self.queries.correlations(process) if self.selection.flows else None
        self.shared_flows = np.empty(0, np.uint64) if joined is None else joined.shared
        edges = self.queries.edges(process)
        overlays = self.selection.overlays if self.selection.flows else ()

        def read(window: TimeWindow) -> tuple[TrackBatch, TrackBatch]:
            device, host = self.queries.device(process, window), self.queries.host(process, window)
            if joined is not None:
                joined.connect(device)
                joined.connect(host)
            _depend(device, edges, process)
            for overlay in overlays:
                overlay.connect(device, process, [stream for _, _, stream in self.queries.places(process)])
                overlay.connect(host, process, None)
            return device, host

        ahead: deque[Future[tuple[TrackBatch, TrackBatch]]] = deque()
        for window in self.queries.windows(process):
            ahead.append(pool.submit(read, window))
            if len(ahead) > 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


class _ProcessTracks:
    """The tracks of one process, created with their first slice."""

    def __init__(self, reader: ExportReader, track: Track, process: int) -> None:
        self.reader = reader
        self.track = track
        self.process = process
        trace = reader.trace
        self._threads = dict(
            trace.sql(f"SELECT thread, name FROM thread WHERE process = {process}").fetchall()
        )
        self._devices = {
            device: f"{'Device' if platform == 'opencl' else 'GPU'} {device}: {name}"
            for device, name, platform in trace.sql("SELECT device, name, platform FROM device").fetchall()
        }
        self._streams: dict[tuple[int, int], str] = {
            (context, stream): name
            for context, stream, name in trace.sql(
                f"SELECT context, stream, name FROM stream WHERE process = {process} AND name IS NOT NULL"
            ).fetchall()
        }
        self._defaults = set(
            trace.sql(f"SELECT context, null_stream FROM context WHERE process = {process}").fetchall()
        )
        self._known: dict[tuple[object, ...], Track] = {}
        self._lanes: dict[object, LaneAllocator] = {}
        self._depths: dict[int, Depths] = {}

    # -- devices

    def streams(self, batch: TrackBatch) -> Iterator[Slices]:
        """Device work of a window, stream by stream."""
        places = self.reader.queries.places(self.process)
        several = len({context for _, context, _ in places}) > 1
        for key, rows in by_key(batch):
            device, context, stream = places[abs(key) - 1]
            name = "Context" if key < 0 and stream == _NO_STREAM else self._stream(context, stream)
            name = f"{name}, context {context}" if several else name
            name = f"{name}: waits" if key < 0 else name
            yield from self._laned(batch, rows, name, self._device(device), 2 * abs(key) + (key < 0))

    def _stream(self, context: int, stream: int) -> str:
        name = self._streams.get((context, stream))
        if name:
            return name
        return f"Stream {stream} (default)" if (context, stream) in self._defaults else f"Stream {stream}"

    def _device(self, device: int) -> Track:
        label = self._devices.get(device, f"GPU {device}") if device >= 0 else "GPU"
        return self._made(
            ("device", device),
            lambda: self.reader.group(
                Track(
                    self.reader.uuid(),
                    label,
                    self.track.uuid,
                    _DEVICES + device,
                    self.track.pid,
                    is_group=True,
                ),
                device,
            ),
        )

    def _made(self, key: tuple[object, ...], make: Callable[[], Track]) -> Track:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _laned(
        self, batch: TrackBatch, rows: Rows, name: str, parent: Track, rank: int, source: bool = False
    ) -> Iterator[Slices]:
        """One track per lane; the Perfetto UI merges tracks of one name."""
        lanes = self._lanes.setdefault((parent.uuid, name), LaneAllocator())
        place = lanes.place(batch.start[rows], batch.end[rows])

        def track(lane: int) -> Track:
            return self._made(
                (parent.uuid, name, lane),
                lambda: Track(self.reader.uuid(), name, parent.uuid, rank, self.track.pid),
            )

        yield from _split(batch, rows, place, track, source)

    # -- threads

    def threads(self, batch: TrackBatch) -> Iterator[Slices]:
        """Calls and ranges of a window, thread by thread."""
        for key, rows in by_key(batch):
            home = self._thread(key >> 1)
            if key & 1:  # ranges that may end on another thread, in any order
                yield from self._laned(batch, rows, "Ranges", home, _RANGES, True)
                continue
            start, end = batch.start[rows], batch.end[rows]
            if not bool((start[1:] > start[:-1]).all()):
                order = np.lexsort((-end, start))
                rows, start, end = _among(rows, order), start[order], end[order]
            depth = self._depths.setdefault(key, Depths()).place(start, end)
            yield from _split(batch, rows, depth, _only(home), True)
            crossing = np.flatnonzero(depth < 0)
            if len(crossing):
                yield from self._laned(batch, _among(rows, crossing), "Overlapping", home, _OVERLAPPING, True)

    def _thread(self, thread: int) -> Track:
        label = self._threads.get(thread) or f"thread {thread}"
        return self._made(
            ("thread", thread),
            lambda: self.reader.below(
                Track(self.reader.uuid(), label, self.track.uuid, 0, self.track.pid, thread)
            ),
        )

    # -- the rest

    def others(self) -> Iterator[Slices]:
        """Samples, builds and the recorder's own time."""
        queries = self.reader.queries
        samples = queries.samples(self.process)
        for key, rows in by_key(samples):
            yield from self._laned(samples, rows, "Samples", self._thread(key), _SAMPLES)
        for name, rank, batch in (
            ("Builds", _BUILDS, queries.build(self.process)),
            ("Recorder overhead", _OVERHEAD, queries.overhead(self.process)),
        ):
            for _, rows in by_key(batch):
                yield from self._laned(batch, rows, name, self.track, rank)


def _only(track: Track) -> Callable[[int], Track]:
    return lambda _: track


def _program(command: str) -> str:
    """A command line as a track's name: without folders (viewers cut a name at its last slash), at most 60 characters."""
    words = [word.strip("'").rsplit("/", 1)[-1] for word in command.split() if word]
    if "-c" in words:
        words = [*words[: words.index("-c") + 1], "…"]
    name = " ".join(words)
    return name if len(name) <= 60 else f"{name[:59]}…"


def _among(rows: Rows, which: Column) -> Column:
    """Some of the chosen rows; a slice means all rows."""
    return which if isinstance(rows, slice) else rows[which]


def _split(
    batch: TrackBatch, rows: Rows, place: Column, track: Callable[[int], Track], source: bool
) -> Iterator[Slices]:
    """One run of slices per lane or depth."""
    if len(place) and int(place.min()) == int(place.max()) >= 0:
        yield batch.take(rows).slices(track(int(place[0])), source)
        return
    for i in range(int(place.max(initial=-1)) + 1):
        chosen = np.flatnonzero(place == i)
        if len(chosen):
            yield batch.take(_among(rows, chosen)).slices(track(i), source)


def _depend(device: TrackBatch, edges: tuple[Column, Column], process: int) -> None:
    """Give work that others wait for explicitly, and the waiting work, one flow per awaited correlation.

    Work that waits for several gets the arrow from the one that was submitted last.
    """
    awaited, waiting = edges
    if not len(awaited) or device.correlation is None:
        return
    salt = np.uint64((process + 1) << 48) ^ _EXPLICIT
    device.waited = np.where(
        np.isin(device.correlation, awaited), device.correlation.astype(np.uint64) ^ salt, np.uint64(0)
    )
    order = np.lexsort((awaited, waiting))
    awaited, waiting = awaited[order], waiting[order]
    last = np.searchsorted(waiting, device.correlation, "right") - 1
    found = (last >= 0) & (waiting[last] == device.correlation)
    device.waits = np.where(found, awaited[last].astype(np.uint64) ^ salt, np.uint64(0))

"""The current state of a running recording, read from the segments that its drainer writes: for `top`.

The recording is neither queried nor changed. Segment files are append-only, and the converter deletes those it has taken, so each
look reads the new part of the remaining files. Rows arrive a moment late (the GPU's own buffers are handed over a few times a
second), so rates cover a window that ends slightly before now.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.capture.segments import layout
from warpsight.capture.segments.blocks import BlockTracker
from warpsight.capture.segments.segment import Batch, Block, gather, open_segment, strings
from warpsight.device_code.demangle import demangle
from warpsight.errors import UsageError, WarpsightError
from warpsight.model.sharing import secrets
from warpsight.recorder import attach, output
from warpsight.recorder import find as search
from warpsight.recorder.drain import listener
from warpsight.recorder.environment import SOCKET
from warpsight.recorder.live import stacks as live_stacks
from warpsight.recorder.live.stacks import LiveStacks, TopStack

Array = npt.NDArray[Any]
#: Kinds of rows that are read, besides strings.
_WORK = ("Kernel", "Memcpy", "Memset")
_TIMED = (*_WORK, "Api", "CopyCall", "Sample")
_KINDS = (*_TIMED, "Counter", "Loss", "Device", "Process", "Frame", "Stack")
_WANTED = frozenset(layout.BY_NAME[name].kind for name in (*_KINDS, "String"))
_PROCESS = layout.BY_NAME["Process"].kind
#: How far the window ends before now, in ns: GPU rows arrive up to this late.
LAG_NS = 600_000_000
#: Timeout for the answer of a recording that is asked for its output folder.
_ANSWER_S = 10.0
#: Api.flags and Loss.severity.
_LAUNCH, _LOST = 1, 2
_NO_TIME = np.uint64(2**64 - 1)
#: Maximum calls remembered for the work they requested, which may run much later; a launch takes some 3 µs.
_CALLS = 2_000_000


@dataclass(frozen=True)
class TopKernel:
    """One kernel name in the window: count, time (ns), and share of all kernels' time (0 to 1)."""

    name: str
    count: int
    time_ns: int
    share: float


@dataclass(frozen=True)
class Reading:
    """The latest value of one counter."""

    name: str
    value: float
    unit: str
    device: int | None


@dataclass(frozen=True)
class Snapshot:
    """The events of the window in numbers; rates are per second, busy shares are unions (0 to 1) by device.

    Attributes:
        folder: The recording.
        recording: Whether it still runs.
        elapsed_s: Seconds since it began.
        window_s: Length of the window.
        processes: Process ids seen.
        launches: Launches per second.
        kernels: Kernels per second.
        copies: Copies and sets per second.
        copied: Bytes copied and set per second.
        busy: Device → share of the window in which it worked.
        recent: The same for the time since the previous look.
        top: Kernels with the most time.
        stacks: The code that launched the GPU work: stacks that end in the kernel or copy, those with the most time.
        samples: Where the host's threads were: stacks that end in running or waiting, those with the most samples.
        counters: Latest readings.
        lost: (count, who and why) since the first look, and losses noted before.
    """

    folder: str
    recording: bool
    elapsed_s: float
    window_s: float
    processes: tuple[int, ...]
    launches: float
    kernels: float
    copies: float
    copied: float
    busy: dict[str, float]
    recent: dict[str, float]
    top: tuple[TopKernel, ...]
    stacks: tuple[TopStack, ...]
    samples: tuple[TopStack, ...]
    counters: tuple[Reading, ...]
    lost: tuple[tuple[int, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def find(what: str | None) -> Path:
    """The recording in a folder, of a process or its launcher, or the newest one running on this machine.

    Raises:
        UsageError: when it does not exist.
        WarpsightError: when the folder or process is not being recorded.
    """
    if what is None:
        alive = [
            (live.start, path)
            for path in Path().glob("*.warp")
            if (live := output.announced(path)) and live.alive()
        ]
        if not alive:
            raise UsageError(
                "nothing is being recorded in this folder; name the recording: warpsight top FOLDER, or PID"
            )
        return max(alive)[1]
    folder = Path(what)
    if what.isdigit() and not folder.exists():
        return Path(listener.ask(_launcher(int(what)), {"do": "status"}, _ANSWER_S)["folder"])
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    live = output.announced(folder)
    if live is None or not live.alive():
        raise WarpsightError(
            f"{folder} is not being recorded; warpsight info {folder} describes a finished recording"
        )
    return folder


def _launcher(pid: int) -> str:
    """The socket of a process's recording, whether it was started in it or attached to it."""
    if attach.door(pid) is not None and not search.environment(pid).get(SOCKET):
        return attach.launcher_of(pid)
    return search.socket_of_process(pid)


@dataclass
class _Arena:
    """One process: its strings, and how far its files have been read (segment's name without `.open` → slots)."""

    texts: dict[int, str] = field(default_factory=dict)
    blocks: BlockTracker = field(default_factory=lambda: BlockTracker(anywhere=True))
    definitions: BlockTracker = field(default_factory=lambda: BlockTracker(anywhere=True))
    read: dict[str, int] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    stacks: LiveStacks = field(default_factory=LiveStacks)


class Live:
    """Follows one recording; call :meth:`look` as often as you like."""

    def __init__(self, folder: Path, window_s: float = 5.0) -> None:
        """`window_s`: the length of time that a snapshot covers."""
        self.folder = folder
        self._window = int(window_s * 1e9)
        self._arenas: dict[str, _Arena] = {}
        self._rows: dict[str, list[dict[str, Array]]] = defaultdict(list)
        self._counters: dict[tuple[str, int], Reading] = {}
        self._lost: dict[str, int] = _noted(folder)
        self._processes: set[int] = set()
        announced = output.announced(folder)
        self._started = announced.start if announced else time.time()
        self._first = time.monotonic_ns() - int((time.time() - self._started) * 1e9)
        self._looked = 0

    def look(self, top: int = 10, stacks: int = 10) -> Snapshot:
        """Read the new rows and return a snapshot with the given numbers of kernels and stacks."""
        raw = self.folder / output.RAW
        for place in sorted(p for p in raw.glob("*") if p.is_dir()):
            arena = self._arenas.setdefault(place.name, _Arena())
            self._read(arena, place, "definitions", arena.definitions)
            self._read(arena, place, "data", arena.blocks)
        end = time.monotonic_ns() - LAG_NS
        # A recording younger than the window is divided by its own age.
        begin = max(end - self._window, min(self._first, end - 1))
        self._forget(begin)
        before, self._looked = max(min(self._looked, end - 1), begin), end
        return self._snapshot(begin, before, end, top, stacks)

    def _read(self, arena: _Arena, place: Path, prefix: str, tracker: BlockTracker) -> None:
        blocks: list[Block] = []
        for path in place.glob(f"{prefix}-*.seg*"):
            name = path.name.removesuffix(".open")
            try:
                segment = open_segment(path)
            except (FileNotFoundError, ValueError):  # converted, or renamed, at this moment
                continue
            # The last block may have been open: it comes again, sealed, behind it.
            blocks += segment.blocks(arena.read.get(name, 0), _WANTED)
            arena.read[name] = segment.slots
        # A ring's blocks in their own order: the file with the lowest number can hold the newest of them.
        blocks.sort(key=lambda block: (block.writer, block.sequence, len(block.payload)))
        found: dict[int, list[tuple[Block, Array]]] = {}
        for block in blocks:
            skip = tracker.fresh(block)
            if skip is None:
                continue
            if (
                block.kind == _PROCESS
            ):  # the launcher's own rows, samples and counters, are no process of the program
                self._processes.add(block.pid)
            if layout.BY_KIND[block.kind].variable:
                texts, _ = strings(block.payload, skip)
                arena.texts.update((number, secrets.secretless(text)) for number, text in texts)
            else:
                found.setdefault(block.kind, []).append((block, block.body(skip)))
        for kind, parts in found.items():
            self._take(arena, place.name, layout.BY_KIND[kind].name, gather(parts, kind))

    def _take(self, arena: _Arena, name: str, kind: str, batch: Batch) -> None:
        rows = batch.rows
        if kind == "Device":
            for row in rows:
                arena.devices[int(row["device"])] = arena.texts.get(int(row["name"]), "")
        elif kind == "Frame":
            arena.stacks.add_frames(rows)
        elif kind == "Stack":
            arena.stacks.add_stacks(rows)
        elif kind == "Counter":
            for row in rows[-512:]:
                device = int(row["device"])
                text, unit = (arena.texts.get(int(row[c]), "?") for c in ("name", "unit"))
                self._counters[text, device] = Reading(
                    text, float(row["value"]), "" if unit == "1" else unit, None if device < 0 else device
                )
        elif kind == "Loss":
            for row in rows[rows["severity"] >= _LOST]:
                why = f"{arena.texts.get(int(row['source']), '?')}: {arena.texts.get(int(row['cause']), '?')}"
                self._lost[why] = self._lost.get(why, 0) + int(row["count"])
        elif kind in _TIMED:
            self._keep(kind, batch, list(self._arenas).index(name))

    def _keep(self, kind: str, batch: Batch, arena: int) -> None:
        """The columns of timed rows. `key` joins work with its call; for a sample, `name` is whether its thread waited."""
        rows = batch.rows
        names = dict.fromkeys(("start", "end", "device", "name", "bytes", "stack"))
        columns: dict[str, Array] = {
            column: rows[column].astype(np.int64) for column in names if column in (rows.dtype.names or ())
        }
        columns["arena"] = np.full(len(rows), arena, np.int64)
        if kind == "Sample":
            columns["start"] = columns["end"] = rows["time"].astype(np.int64)
            columns["name"] = (rows["state"] != ord("R")).astype(np.int64)
        else:
            columns["key"] = batch.session << 32 | rows["correlation"] | np.int64(arena) << 48
        if kind in _WORK:
            chosen = (rows["end"] != 0) & (rows["end"] != _NO_TIME)
        elif kind == "Sample":
            chosen = np.ones(len(rows), bool)
        else:
            columns["launch"] = (rows["flags"] & _LAUNCH) != 0
            chosen = columns["launch"] | (columns["stack"] != 0)
        zeros = np.zeros(len(rows), np.int64)
        self._rows["Api" if kind == "CopyCall" else kind].append(
            {column: columns.get(column, zeros)[chosen] for column in (*names, *columns)}
        )

    def _forget(self, begin: int) -> None:
        for kind, pieces in self._rows.items():
            last = "start" if kind == "Api" else "end"
            newer = np.cumsum([0, *(len(piece[last]) for piece in pieces[::-1])])[
                -2::-1
            ]  # rows behind each piece
            self._rows[kind] = [
                piece
                for piece, behind in zip(pieces, newer.tolist(), strict=True)
                if len(piece[last])
                and (int(piece[last].max()) >= begin or (kind == "Api" and behind < _CALLS))
            ]

    def _column(self, kind: str, name: str) -> Array:
        pieces = [piece[name] for piece in self._rows.get(kind, ())]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def _snapshot(self, begin: int, before: int, end: int, top: int, stacks: int) -> Snapshot:
        seconds = (end - begin) / 1e9
        launches = self._column("Api", "start")[self._column("Api", "launch").astype(bool)]
        inside = {k: (self._column(k, "end") > begin) & (self._column(k, "start") < end) for k in _WORK}
        started = {k: (self._column(k, "start") >= begin) & inside[k] for k in inside}
        copied = sum(int(self._column(k, "bytes")[started[k]].sum()) for k in ("Memcpy", "Memset"))
        live = output.announced(self.folder)
        return Snapshot(
            str(self.folder), live is not None and live.alive(), round(time.time() - self._started, 1), round(seconds, 3),
            tuple(sorted(self._processes)), float(((launches >= begin) & (launches < end)).sum() / seconds),
            float(started["Kernel"].sum() / seconds), float((started["Memcpy"].sum() + started["Memset"].sum()) / seconds),
            copied / seconds, self._busy(begin, end), self._busy(before, end), self._top(inside["Kernel"], begin, end, top),
            self._launching(inside, begin, end, stacks), self._sampled(begin, end, stacks),
            tuple(self._counters[key] for key in sorted(self._counters)),
            tuple(sorted(((n, why) for why, n in self._lost.items()), reverse=True)),
        )  # fmt: skip

    def _busy(self, begin: int, end: int) -> dict[str, float]:
        """Union of the work of each device; processes of one host number their devices alike."""
        start, stop, device = (
            np.concatenate([self._column(k, c) for k in _WORK]) for c in ("start", "end", "device")
        )
        names = {d: text for arena in self._arenas.values() for d, text in arena.devices.items()}
        out: dict[str, float] = {}
        for one in sorted({*np.unique(device).tolist(), *names}):
            mine = device == one
            order = np.argsort(start[mine], kind="stable")
            first, last = np.maximum(start[mine][order], begin), np.minimum(stop[mine][order], end)
            reach = np.maximum.accumulate(last) if len(last) else last
            covered = last - np.maximum(first, np.append(begin, reach[:-1])) if len(last) else last
            number = int(one) & 0xFF  # the byte above is the kind of device
            out[f"{number} {names.get(one, '')}".strip()] = float(
                np.maximum(covered, 0).sum() / (end - begin)
            )
        return out

    def _spent(self, kind: str, inside: Array, begin: int, end: int) -> Array:
        return (
            np.minimum(self._column(kind, "end"), end)[inside]
            - np.maximum(self._column(kind, "start"), begin)[inside]
        )

    def _top(self, inside: Array, begin: int, end: int, most: int) -> tuple[TopKernel, ...]:
        arena, name = self._column("Kernel", "arena")[inside], self._column("Kernel", "name")[inside]
        spent = self._spent("Kernel", inside, begin, end)
        merged: dict[str, list[int]] = {}
        counts = live_stacks.grouped([arena, name], np.ones(len(spent), np.int64))
        for (key, time_ns), (_, count) in zip(live_stacks.grouped([arena, name], spent), counts, strict=True):
            total = merged.setdefault(self._kernel(*key), [0, 0])
            total[0] += time_ns
            total[1] += count
        whole = max(sum(t for t, _ in merged.values()), 1)
        best = sorted(merged.items(), key=lambda item: (-item[1][0], item[0]))[:most]
        return tuple(TopKernel(text, n, t, t / whole) for text, (t, n) in best)

    def _launching(self, inside: dict[str, Array], begin: int, end: int, most: int) -> tuple[TopStack, ...]:
        """GPU time by the stack that launched it and by what ran."""
        call, stack = self._column("Api", "key"), self._column("Api", "stack")
        call, stack = call[stack != 0], stack[stack != 0]
        found = []
        for kind, leaf in (("Kernel", ""), ("Memcpy", "copy"), ("Memset", "set")):
            key, arena, name = (self._column(kind, c)[inside[kind]] for c in ("key", "arena", "name"))
            columns = [arena, live_stacks.joined(key, call, stack), name]
            for (owner, number, text), spent in live_stacks.grouped(
                columns, self._spent(kind, inside[kind], begin, end)
            ):
                found.append((self._frames(owner, number, leaf or self._kernel(owner, text)), spent))
        return live_stacks.heaviest(found, most)

    def _sampled(self, begin: int, end: int, most: int) -> tuple[TopStack, ...]:
        """Samples of the host's threads by stack and state."""
        at = self._column("Sample", "start")
        arena, stack, waiting = (
            self._column("Sample", c)[(at >= begin) & (at < end)] for c in ("arena", "stack", "name")
        )
        found = live_stacks.grouped([arena, stack, waiting], np.ones(len(arena), np.int64))
        return live_stacks.heaviest(
            ((self._frames(a, s, "waiting" if w else "running"), count) for (a, s, w), count in found), most
        )

    def _owner(self, arena: int) -> _Arena:
        return list(self._arenas.values())[arena]

    def _kernel(self, arena: int, name: int) -> str:
        return demangle(self._owner(arena).texts.get(name, "?"))

    def _frames(self, arena: int, stack: int, leaf: str) -> tuple[str, ...]:
        owner = self._owner(arena)
        return (*owner.stacks.frames(stack, owner.texts), leaf)


def _noted(folder: Path) -> dict[str, int]:
    """Losses that the conversion has noted so far."""
    try:
        commit = json.loads((folder / output.RAW / "journal.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    out: dict[str, int] = {}
    for row in commit.get("losses", ()):
        if row.get("severity") != "note":
            why = f"{row.get('source', '?')}: {row.get('cause', '?')}"
            out[why] = out.get(why, 0) + int(row.get("count") or 0)
    return out

"""Ids for the rows of one Kineto file: the process, thread, device, context and stream of each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.formats.kineto.group import EventGroup, integer, text, value
from warpsight.formats.target import Target

Int32 = NDArray[np.int32]

#: The process of the file, whatever its pid turns out to be.
_MAIN = "the process"


class Placing:
    """Assigns ids. A file is about one process; device work does not name its process and is assigned to it."""

    def __init__(self, target: Target) -> None:
        """Ids are those of `target`."""
        self.target = target
        self.pid: int | None = None
        self.main = target.process(_MAIN)
        #: Device numbers of the file -> ids of the trace.
        self.devices: dict[object, int] = {}
        #: Those of them that have kernels, copies or fills.
        self.working: set[Any] = set()
        self._processes: dict[Any, int] = {}
        self._threads: dict[tuple[int, Any], int] = {}
        self._streams: dict[tuple[Any, Any, Any], tuple[int, int, int]] = {}
        self._shapes: dict[Any, int | None] = {}
        self._names: dict[bytes, int] = {}

    def where(self, group: EventGroup) -> dict[str, Int32]:
        """Columns process and thread of host events; pid 0 (torch's value for unknown threads) means the process."""
        codes, listed = group.combinations(".pid", ".tid")
        known = np.array([self._where(value(pid), value(tid)) for pid, tid in listed], np.int32)
        return {"process": known[codes, 0], "thread": known[codes, 1]}

    def _where(self, pid: object, tid: object) -> tuple[int, int]:
        process = self.process(pid)
        return process, self.thread(process, tid)

    def process(self, pid: object) -> int:
        """Id of the process with a pid of the file."""
        known = self._processes.get(pid)
        if known is not None:
            return known
        number = self.main
        if isinstance(pid, int) and pid > 0:
            if self.pid is None:
                self.pid = pid
                self.target.process(_MAIN, pid=pid if pid < 1 << 31 else 0)
            elif pid != self.pid:
                number = self.target.process(pid)
        self._processes[pid] = number
        return number

    def thread(self, process: int, tid: object, name: str | None = None) -> int:
        """Id of one thread."""
        known = self._threads.get((process, tid))
        if known is None or name is not None:
            known = self._threads[process, tid] = self.target.thread(process, tid, name)
        return known

    def streams(self, group: EventGroup, *peers: str) -> dict[str, Any]:
        """Columns device, context and stream of device work: from its arguments, otherwise by pid and tid.

        `peers`: for copies between devices, the fields that give device and context instead.
        """
        fields = (
            "device",
            "context",
            "stream",
            ".pid",
            ".tid",
            *peers,
        )
        codes, listed = group.combinations(*fields)
        places = []
        for own, within, stream, pid, tid, *peer in listed:
            number, context, queue = integer(own), integer(within), integer(stream)
            if peer and number is None:
                number, context = map(integer, peer)
            key = (value(pid) if number is None else number, context, value(tid) if queue is None else queue)
            if key not in self._streams:
                self._streams[key] = self._place(*key)
            places.append(self._streams[key])
        device, context, stream = np.array(places, np.int64)[codes].T
        return {"device": device.astype(np.int16), "context": context.astype(np.int32), "stream": stream}

    def _place(self, device: object, context: object, stream: object) -> tuple[int, int, int]:
        number = self.device(device)
        self.working.add(device)
        where = self.target.context(self.main, 0 if context is None else context, device=number)
        return number, where, self.target.stream(self.main, where, stream, device=number)

    def device(self, number: object) -> int:
        """Id of a device by its number in the file."""
        if number not in self.devices:
            columns = {"index": number} if isinstance(number, int) and 0 <= number < 1 << 31 else {}
            self.devices[number] = self.target.device((self.target.scope, number), **columns)
        return self.devices[number]

    def names(self, group: EventGroup) -> Int32:
        """Ids of the events' names."""
        codes, texts = group.codes(".name")
        ids = [self._cached(self._names, raw, lambda raw: self.target.name(text(raw) or "")) for raw in texts]
        ids.append(self.target.name("") if bool((codes < 0).any()) else 0)
        return np.array(ids, np.int32)[codes]

    def names_for(self, fits: Callable[[str], bool]) -> frozenset[int]:
        """Ids of the events' names that a condition holds for."""
        return frozenset(number for raw, number in self._names.items() if fits(text(raw) or ""))

    def _cached(self, cache: dict[Any, Any], key: object, make: Callable[[Any], Any]) -> object:
        found = cache.get(key)
        if found is None:
            found = cache[key] = make(key)
        return found

    def shapes(self, group: EventGroup) -> pa.Array:
        """Ids of launch shapes, or null. Kineto has static and dynamic shared memory as one number."""
        fields = ("grid", "block", "registers per thread", "shared memory")
        return group.mapped(
            lambda *key: self._shapes.setdefault(key, self._shape(*map(value, key))), pa.int32(), *fields
        )

    def _shape(self, grid: object, block: object, registers: object, shared: object) -> int | None:
        if not (is_triple(grid) and is_triple(block)):
            return None
        columns = dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True))
        columns |= dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
        numbers = [n if isinstance(n, int) else 0 for n in (registers, shared)]
        columns |= {"registers": numbers[0], "shared_dynamic": numbers[1]}
        if max(columns.values()) > (1 << 31) - 1 or min(columns.values()) < 0:
            return None
        return self.target.shape(**columns)

    def name_stream(self, device: object, stream: object, name: str) -> None:
        """Name a stream that has rows."""
        for (number, _, key), (_, context, _) in list(self._streams.items()):
            if number == device and key == stream:
                self.target.stream(self.main, context, key, name=name)


def is_triple(found: object) -> TypeGuard[list[int]]:
    """Whether a JSON value is a grid or a block: three integers."""
    return isinstance(found, list) and len(found) == 3 and all(type(n) is int for n in found)

"""Ids for the rows of one Kineto file: which process, thread, device, context and stream an event belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsight.formats.kineto.events import NO_ARGS, Event, Triple
from warpsight.formats.target import Target

#: The process of the file, whatever its pid turns out to be.
_MAIN = "the process"


class Placing:
    """Hands out ids. A file tells of one process; device work names no process and is taken to be its."""

    def __init__(self, target: Target) -> None:
        """Ids are those of `target`."""
        self.target = target
        self.pid: int | None = None
        self.main = target.process(_MAIN)
        #: Device numbers of the file -> ids of the trace.
        self.devices: dict[int, int] = {}
        #: Those of them that have kernels, copies or fills.
        self.working: set[Any] = set()
        self._processes: dict[Any, int] = {}
        self._threads: dict[tuple[int, Any], int] = {}
        self._streams: dict[tuple[Any, Any, Any], tuple[int, int, int]] = {}
        self._shapes: dict[Any, int] = {}
        self._names: dict[str, int] = {}

    def where(self, events: Sequence[Event]) -> dict[str, Any]:
        """Columns process and thread of host events; pid 0 (which torch gives threads it does not know) is the process."""
        keys = [(e.pid, e.tid) for e in events]
        if keys.count(keys[0]) == len(keys):
            process, thread = self._where(keys[0])
            return {
                "process": np.full(len(keys), process, np.int32),
                "thread": np.full(len(keys), thread, np.int32),
            }
        known = {key: self._where(key) for key in dict.fromkeys(keys)}
        return {"process": [known[k][0] for k in keys], "thread": [known[k][1] for k in keys]}

    def _where(self, key: tuple[Any, Any]) -> tuple[int, int]:
        process = self.process(key[0])
        return process, self.thread(process, key[1])

    def process(self, pid: Any) -> int:
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

    def thread(self, process: int, tid: Any, name: str | None = None) -> int:
        """Id of one thread."""
        known = self._threads.get((process, tid))
        if known is None or name is not None:
            known = self._threads[process, tid] = self.target.thread(process, tid, name)
        return known

    def streams(self, events: Sequence[Event]) -> dict[str, list[int]]:
        """Columns device, context and stream of device work: as its arguments say, else by pid and tid."""
        keys = []
        for e in events:
            a = e.args or NO_ARGS
            keys.append(
                (
                    e.pid if a.device is None else a.device,
                    a.context,
                    e.tid if a.stream is None else a.stream,
                )
            )
        known = self._streams
        for key in set(keys) - known.keys():
            known[key] = self._place(*key)
        columns = list(zip(*(known[key] for key in keys), strict=True))
        return dict(zip(("device", "context", "stream"), map(list, columns), strict=True)) if keys else {}

    def _place(self, device: Any, context: Any, stream: Any) -> tuple[int, int, int]:
        number = self.device(device)
        self.working.add(device)
        where = self.target.context(self.main, 0 if context is None else context, device=number)
        return number, where, self.target.stream(self.main, where, stream, device=number)

    def device(self, number: Any) -> int:
        """Id of a device by its number in the file."""
        if number not in self.devices:
            columns = {"index": number} if isinstance(number, int) and 0 <= number < 1 << 31 else {}
            self.devices[number] = self.target.device((self.target.scope, number), **columns)
        return self.devices[number]

    def names(self, events: Sequence[Event]) -> list[int]:
        """Ids of the events' names."""
        known = self._names
        try:
            return [known[e.name] for e in events]
        except KeyError:
            for name in dict.fromkeys(e.name for e in events):
                known[name] = self.target.name(name)
            return [known[e.name] for e in events]

    def shape(
        self, grid: Triple | None, block: Triple | None, registers: int | None, shared: int | None
    ) -> int | None:
        """Id of a launch shape; Kineto tells static and dynamic shared memory as one number."""
        key = (grid, block, registers, shared)
        known = self._shapes.get(key)
        if known is not None:
            return known
        if grid is None or block is None:
            return None
        columns = dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True))
        columns |= dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
        columns |= {"registers": registers or 0, "shared_dynamic": shared or 0}
        if max(columns.values()) > (1 << 31) - 1 or min(columns.values()) < 0:
            return None
        known = self._shapes[key] = self.target.shape(**columns)
        return known

    def name_stream(self, device: Any, stream: Any, name: str) -> None:
        """Name a stream that has rows."""
        for (number, _, key), (_, context, _) in list(self._streams.items()):
            if number == device and key == stream:
                self.target.stream(self.main, context, key, name=name)

"""Ids of processes, threads, devices, contexts and streams, given by the source's own keys."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from warpsight.errors import UsageError
from warpsight.model.device_ids import new_id
from warpsight.model.schema import TABLES

#: Numbers that rows can hold unchanged: operating systems number threads from 0, other ids may be signed.
_THREADS = range(1 << 31)
_CONTEXTS = range(-(1 << 31), 1 << 31)
_STREAMS = range(-(1 << 63), 1 << 63)


class Identities:
    """Rows of the tables that identify processes, threads, devices and streams, filled in over time."""

    def __init__(self) -> None:
        self._processes: dict[Any, int] = {}
        self._devices: dict[Any, int] = {}
        self._threads, self._contexts, self._streams = map(_Numbers, (_THREADS, _CONTEXTS, _STREAMS))
        self._rows: dict[str, dict[Any, dict[str, Any]]] = {
            table: {} for table in ("process", "thread", "device", "context", "stream")
        }

    def process(self, key: object, pid: object, columns: Mapping[str, Any]) -> int:
        """Id of a process, from 0."""
        number = self._processes.setdefault(key, len(self._processes))
        start: dict[str, Any] = {
            "process": number,
            "pid": pid if _is_in(_THREADS, pid) else 0,
            "host": "",
            "command": "",
            "executable": "",
        }
        self._complete("process", number, start, columns)
        return number

    def thread(self, process: int, tid: object, name: str | None) -> int:
        """Id of a thread."""
        number = self._threads.of(process, tid)
        start = {"thread": number, "name": None if number == tid else str(tid), "process": process}
        self._complete("thread", (process, number), start, {} if name is None else {"name": name})
        return number

    def device(self, key: object, columns: Mapping[str, Any]) -> int:
        """Id of a device: its index when first described, unless another device has that id."""
        number = self._devices.get(key)
        if number is None:
            number = self._devices[key] = new_id(columns.get("index"), self._rows["device"])
        start = {
            "device": number,
            "index": number,
            "uuid": key if isinstance(key, str) else "",
            "name": "",
            "vendor": "",
            "platform": "",
        }
        self._complete("device", number, start, columns)
        return number

    def context(self, process: int, context: object, columns: Mapping[str, Any]) -> int:
        """Id of a context."""
        number = self._contexts.of(process, context)
        start = {"context": number, "api": "cuda", "process": process}
        self._complete("context", (process, number), start, columns)
        return number

    def stream(self, process: int, context: int, stream: object, columns: Mapping[str, Any]) -> int:
        """Id of a stream."""
        number = self._streams.of((process, context), stream)
        start: dict[str, Any] = {"stream": number, "context": context, "process": process}
        if number != stream:
            start["name"] = str(stream)
        self._complete("stream", (process, context, number), start, columns)
        return number

    def rows(self, spans: Mapping[int, tuple[int, int]]) -> dict[str, list[dict[str, Any]]]:
        """All rows by table; `spans` gives the first and last times for processes that lack them."""
        for number, row in self._rows["process"].items():
            first, last = spans.get(number, (0, None))
            row.setdefault("start", first)
            row.setdefault("end", last)
        return {table: list(rows.values()) for table, rows in self._rows.items()}

    def _complete(self, table: str, key: object, start: dict[str, Any], columns: Mapping[str, Any]) -> None:
        row = self._rows[table].get(key)
        if row is None:
            row = self._rows[table][key] = start
        if columns:
            unknown = set(columns) - {column.name for column in TABLES[table].columns}
            if unknown:
                raise UsageError(f"table {table} has no column {sorted(unknown)[0]}")
            row.update({name: value for name, value in columns.items() if value is not None})


class _Numbers:
    """The numbers that rows hold in place of a source's own keys, per owner (a process, or a process and context)."""

    def __init__(self, kept: range) -> None:
        """Keys that are numbers in `kept` stay unchanged."""
        self._kept = kept
        self._known: dict[tuple[Any, Any], int] = {}
        self._taken: set[tuple[Any, int]] = set()
        self._last: dict[Any, int] = {}

    def of(self, owner: Hashable, key: Any) -> int:
        """The key itself if it fits and is free, otherwise a new negative number."""
        number = self._known.get((owner, key))
        if number is None:
            number = int(key) if _is_in(self._kept, key) else self._free(owner)
            if (owner, number) in self._taken:
                number = self._free(owner)
            self._taken.add((owner, number))
            self._known[owner, key] = number
        return number

    def _free(self, owner: object) -> int:
        """The greatest unused negative number of the owner."""
        number = self._last.get(owner, 0) - 1
        while (owner, number) in self._taken:
            number -= 1
        self._last[owner] = number
        return number


def _is_in(kept: range, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in kept

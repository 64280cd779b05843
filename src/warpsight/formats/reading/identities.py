"""Ids of processes, threads, devices, contexts and streams, given by the source's own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warpsight.errors import UsageError
from warpsight.model.schema import TABLES

_INT32_MAX = 2**31 - 1


class Identities:
    """Rows of the tables that say who did something and where, while they become complete."""

    def __init__(self) -> None:
        self._processes: dict[Any, int] = {}
        self._devices: dict[Any, int] = {}
        self._threads: dict[tuple[int, Any], int] = {}
        self._contexts: dict[tuple[int, Any], int] = {}
        self._streams: dict[tuple[int, int, Any], int] = {}
        self._rows: dict[str, dict[Any, dict[str, Any]]] = {
            table: {} for table in ("process", "thread", "device", "context", "stream")
        }
        self._next: dict[tuple[Any, ...], int] = {}

    def process(self, key: Any, pid: Any, columns: Mapping[str, Any]) -> int:
        """Id of a process, from 0."""
        number = self._processes.setdefault(key, len(self._processes))
        start: dict[str, Any] = {
            "process": number,
            "pid": pid if _fits(pid) else 0,
            "host": "",
            "command": "",
            "executable": "",
        }
        self._complete("process", number, start, columns)
        return number

    def thread(self, process: int, tid: Any, name: str | None) -> int:
        """Id of a thread."""
        number = self._kept(self._threads, (process, tid), tid, ("thread", process))
        start = {"thread": number, "name": None if number == tid else str(tid), "process": process}
        self._complete("thread", (process, number), start, {} if name is None else {"name": name})
        return number

    def device(self, key: Any, columns: Mapping[str, Any]) -> int:
        """Id of a device, from 0."""
        number = self._devices.setdefault(key, len(self._devices))
        if number > 32767:
            raise UsageError("more than 32,767 devices")
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

    def context(self, process: int, context: Any, columns: Mapping[str, Any]) -> int:
        """Id of a context."""
        number = self._kept(self._contexts, (process, context), context, ("context", process))
        start = {"context": number, "api": "cuda", "process": process}
        self._complete("context", (process, number), start, columns)
        return number

    def stream(self, process: int, context: int, stream: Any, columns: Mapping[str, Any]) -> int:
        """Id of a stream."""
        number = self._kept(self._streams, (process, context, stream), stream, ("stream", process, context))
        start: dict[str, Any] = {"stream": number, "context": context, "process": process}
        if number != stream:
            start["name"] = str(stream)
        self._complete("stream", (process, context, number), start, columns)
        return number

    def rows(self, spans: Mapping[int, tuple[int, int]]) -> dict[str, list[dict[str, Any]]]:
        """All rows by table; `spans` gives first and last moment of processes that tell none themselves."""
        for number, row in self._rows["process"].items():
            first, last = spans.get(number, (0, None))
            row.setdefault("start", first)
            row.setdefault("end", last)
        return {table: list(rows.values()) for table, rows in self._rows.items()}

    def _kept(self, known: dict[Any, int], key: Any, value: Any, series: tuple[Any, ...]) -> int:
        """The value itself when it is a number that fits, else the next negative number of its series."""
        number = known.get(key)
        if number is None:
            if _fits(value):
                number = int(value)
            else:
                number = self._next[series] = self._next.get(series, 0) - 1
            known[key] = number
        return number

    def _complete(self, table: str, key: Any, start: dict[str, Any], columns: Mapping[str, Any]) -> None:
        row = self._rows[table].get(key)
        if row is None:
            row = self._rows[table][key] = start
        if columns:
            unknown = set(columns) - {column.name for column in TABLES[table].columns}
            if unknown:
                raise UsageError(f"table {table} has no column {sorted(unknown)[0]}")
            row.update({name: value for name, value in columns.items() if value is not None})


def _fits(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX

"""Data shared by all tables of a report: strings, processes, threads, devices and streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading.databases import ForeignRows, Tables, distinct, distinct_rows, numbered, whole

if TYPE_CHECKING:
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
INT, REAL, TEXT, ADDRESS = pa.int64(), pa.float64(), pa.string(), pa.uint64()
#: CUPTI's id for no context, no stream and no device.
INVALID = 0xFFFFFFFF
#: cudaLaunchKernel_v7000: the runtime's functions carry the CUDA version that introduced them.
_VERSION = re.compile(r"_v\d{4,5}$")


class Report:
    """An opened export and its target trace."""

    def __init__(self, tables: Tables, target: Target) -> None:
        self.tables = tables
        self.target = target
        #: Tables that were read, so that the others can be named.
        self.read: set[str] = set()
        self._processes: dict[int, int] = {}

    def rows(self, table: str, columns: Mapping[str, pa.DataType]) -> ForeignRows:
        """A small table as a whole."""
        self.read.add(table)
        return whole(self.tables, table, columns)

    # Strings

    @cached_property
    def _strings(self) -> tuple[Array, pa.ChunkedArray]:
        rows = self.rows("StringIds", {"id": INT, "value": TEXT})
        ids = rows.numbers("id")
        order = np.argsort(ids, kind="stable")
        return ids[order], rows.column("value").take(pa.array(order))

    def has_text(self, ids: Array) -> Array:
        """Which string ids have a string."""
        known, _ = self._strings
        if not len(known):
            return np.zeros(len(ids), bool)
        hits: Array = known[np.minimum(np.searchsorted(known, ids), len(known) - 1)] == ids
        return hits

    def texts(self, ids: Array) -> list[str | None]:
        """Texts of string ids, or None."""
        known, values = self._strings
        if not len(known):
            return [None] * len(ids)
        hits = self.has_text(ids)
        places = np.searchsorted(known, ids)
        return values.take(pa.array(np.where(hits, places, 0), mask=~hits)).to_pylist()  # type: ignore[no-any-return]

    def matching(self, pattern: re.Pattern[str]) -> list[int]:
        """Ids of the strings that a pattern matches."""
        known, values = self._strings
        return [
            n
            for n, text in zip(known.tolist(), values.to_pylist(), strict=True)
            if text and pattern.match(text)
        ]

    def strings(self, rows: ForeignRows, column: str) -> pa.Array:
        """A column of string ids as dictionary-encoded strings."""
        known, places = distinct(rows.numbers(column, -1))
        return pa.array(self.texts(known), TEXT).take(places).dictionary_encode()

    def name_ids(self, rows: ForeignRows, column: str) -> pa.Array:
        """A column of string ids as ids of the trace's names."""
        known, places = distinct(rows.numbers(column, -1))
        return pa.array(self.target.names(self.texts(known)), pa.int32()).take(places)

    def functions(self, rows: ForeignRows, column: str = "nameId") -> pa.Array:
        """Names of API functions as the API spells them."""
        known, places = distinct(rows.numbers(column, -1))
        texts = [_VERSION.sub("", text or "unknown function") for text in self.texts(known)]
        return pa.array(texts, TEXT).take(places).dictionary_encode()

    # Who

    @cached_property
    def _process_facts(self) -> dict[int, dict[str, Any]]:
        """The report's facts about each process, by pid and machine (globalPid without its hardware id bits)."""
        names = self.rows("PROCESSES", {"globalPid": INT, "pid": INT, "name": TEXT})
        ranks = self.rows("MPI_RANKS", {"globalTid": INT, "rank": INT})
        known: dict[int, dict[str, Any]] = {}
        for row in names.data.to_pylist():
            if row["globalPid"] is not None:
                known[row["globalPid"]] = {"command": row["name"] or ""}
        for row in ranks.data.to_pylist():
            if row["globalTid"] is not None and row["rank"] is not None:
                known.setdefault(row["globalTid"] & ~0xFFFFFF, {})["rank"] = row["rank"]
        return known

    @cached_property
    def _hosts(self) -> dict[int, str]:
        """Host names by machine (globalVid: the upper bits of every global id)."""
        rows = self.rows("TARGET_INFO_SYSTEM_ENV", {"globalVid": INT, "name": TEXT, "value": TEXT})
        return {
            (row["globalVid"] or 0) >> 48: row["value"] or ""
            for row in rows.data.to_pylist()
            if row["name"] == "Hostname"
        }

    def host(self, number: int = 0) -> str:
        """The host of a global id, or the only host."""
        hosts = self._hosts
        return hosts.get(number >> 48, next(iter(hosts.values()), "")) if hosts else ""

    def process(self, number: int) -> int:
        """Trace process id of a globalPid or globalTid: bits 24 to 47 are the pid, the higher ones the machine."""
        key = number & ~0xFFFFFF
        found = self._processes.get(key)
        if found is None:
            pid = (key >> 24) & 0xFFFFFF
            known = self._process_facts.get(key, {})
            # One pid of one machine is one process; the key keeps machines of a merged report apart.
            found = self.target.process(
                pid, scope=f"{self.target.scope}/{key >> 48}", host=self.host(key), **known
            )
            self._processes[key] = found
        return found

    def processes(self, values: Array) -> Array:
        """A column of global ids as process ids."""
        return numbered(values, self.process)

    def threads(self, values: Array) -> tuple[Array, Array]:
        """A column of globalTid as (thread, process) ids."""
        names = self._thread_names
        return (
            numbered(
                values, lambda one: self.target.thread(self.process(one), one & 0xFFFFFF, names.get(one))
            ),
            self.processes(values),
        )

    @cached_property
    def _thread_names(self) -> dict[int, str]:
        rows = self.rows("ThreadNames", {"nameId": INT, "globalTid": INT})
        texts = self.texts(rows.numbers("nameId", -1))
        return {
            tid: text for tid, text in zip(rows.numbers("globalTid", -1).tolist(), texts, strict=True) if text
        }

    # Where

    @cached_property
    def _cards(self) -> dict[int, dict[str, Any]]:
        from warpsight.formats.nsys.devices import cards

        return cards(self)

    @cached_property
    def _ordinals(self) -> dict[tuple[int, int], int]:
        """Physical device for each pid and CUDA ordinal: CUDA_VISIBLE_DEVICES makes ordinals process-specific."""
        rows = self.rows("TARGET_INFO_CUDA_DEVICE", {"gpuId": INT, "cudaId": INT, "pid": INT})
        return {(r["pid"], r["cudaId"]): r["gpuId"] for r in rows.data.to_pylist() if r["gpuId"] is not None}

    @cached_property
    def _first_ordinal(self) -> dict[int, int]:
        """CUDA ordinal of a card in the first process that lists it."""
        return {card: ordinal for (_, ordinal), card in reversed(self._ordinals.items())}

    def device(self, number: int, pid: int = -1) -> int:
        """Device id of a CUDA ordinal in a process."""
        return self.card(self._ordinals.get((pid, number), number), number)

    def card(self, number: int, ordinal: int | None = None) -> int:
        """Device id of a GPU of the machine by Nsight's own number."""
        known = dict(self._cards.get(number, {}))
        key = known.get("uuid") or (self.target.scope, "gpu", number)
        known["index"] = self._first_ordinal.get(number, number) if ordinal is None else ordinal
        known.setdefault("name", f"CUDA device {known['index']}")  # a report without its table of GPUs
        return self.target.device(key, vendor="NVIDIA", platform="cuda", host=self.host(), **known)

    def places(self, rows: ForeignRows) -> dict[str, Any]:
        """Columns device, context, stream and process of rows with deviceId, contextId, streamId and globalPid."""
        pids = rows.numbers("globalPid")
        process = self.processes(pids)
        pid = (pids >> 24) & 0xFFFFFF
        device = _by_pair(_known(rows.numbers("deviceId", -1)), pid, self.device)
        context = _known(rows.numbers("contextId", 0).astype(np.int64), 0)
        stream = _known(rows.numbers("streamId", -1))
        self._announce(process, pid, context, stream, device)
        return {
            "device": pa.array(device, mask=device < 0),
            "context": context,
            "stream": stream,
            "process": process,
        }

    @cached_property
    def _stream_info(self) -> dict[tuple[int, int, int], dict[str, Any]]:
        rows = self.rows(
            "TARGET_INFO_CUDA_STREAM",
            {"streamId": INT, "processId": INT, "contextId": INT, "priority": INT, "flag": INT},
        )
        return {
            (r["processId"], r["contextId"], r["streamId"]): {
                "priority": _signed(r["priority"]),
                "flags": _signed(r["flag"]),
            }
            for r in rows.data.to_pylist()
        }

    @cached_property
    def _context_info(self) -> dict[tuple[int, int], int | None]:
        columns = {"nullStreamId": INT, "processId": INT, "contextId": INT}
        rows = self.rows("TARGET_INFO_CUDA_CONTEXT_INFO", columns)
        return {(r["processId"], r["contextId"]): r["nullStreamId"] for r in rows.data.to_pylist()}

    def _announce(self, process: Array, pid: Array, context: Array, stream: Array, device: Array) -> None:
        """Add rows to tables context and stream for all that occur."""
        if not len(process):
            return
        occurring, _ = distinct_rows([process, pid, context, stream, device])
        for owner, number, ctx, strm, dev in occurring.tolist():
            null = self._context_info.get((number, ctx))
            where = {} if dev < 0 else {"device": dev}
            self.target.context(owner, ctx, null_stream=null, **where)
            if strm >= 0:
                info = self._stream_info.get((number, ctx, strm), {})
                self.target.stream(owner, ctx, strm, **where, **info)


def _known(values: Array, otherwise: int = -1) -> Array:
    """Ids, with `otherwise` in place of CUPTI's invalid one: memory can be allocated before there is a context."""
    return np.where(values == INVALID, otherwise, values)


def _by_pair(first: Array, second: Array, function: Callable[[int, int], int]) -> Array:
    known, places = distinct_rows([first, second])
    ids = [-1 if a < 0 else function(a, b) for a, b in known.tolist()]
    return np.array(ids, np.int64)[np.asarray(places)] if ids else np.empty(0, np.int64)


def _signed(value: int | None) -> int | None:
    """A 32-bit number that was exported as unsigned (priorities below 0 are the urgent ones)."""
    return None if value is None else (value + 2**31) % 2**32 - 2**31


def duration(rows: ForeignRows) -> Array:
    """End - start."""
    return rows.numbers("end") - rows.numbers("start")


def labels(rows: ForeignRows, column: str, known: Mapping[int, str], other: str = "unknown") -> pa.Array:
    """A column of enumeration values as words."""
    values, places = distinct(rows.numbers(column, -1))
    texts = pa.array([known.get(value, other) for value in values.tolist()], TEXT)
    return texts.take(places).dictionary_encode()


def nullable(values: Array, null: Array) -> pa.Array:
    """A column with nulls."""
    return pa.array(values, mask=null)


__all__ = ["ADDRESS", "INT", "INVALID", "REAL", "TEXT", "Report", "duration", "labels", "nullable"]

"""rocpd databases: rocprofv3's SQLite.

Rows say who and where inline (schema 3) or through a track (schema 4); their times are inline too, or in rocpd_timestamp. Tables
carry a run's id in their names, and views without it join them. Databases of rpd_tracer, whose
tables have like names, go to rpd_form.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.formats.reading.databases import ForeignRows, Sqlite, numbered, whole
from warpsight_plugins.rocprof.recording import RocprofRecording, blocks, family, kernel_name
from warpsight_plugins.rocprof.rpd_form import is_rpd, read_rpd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

Array = npt.NDArray[Any]
INT, REAL, TEXT = pa.int64(), pa.float64(), pa.string()
_WHO = ("pid", "tid", "agent_id", "queue_id", "stream_id")
_WHEN = ("start", "end", "start_id", "end_id")
_SIZES = tuple(f"{what}_size_{axis}" for what in ("workgroup", "grid") for axis in "xyz")


def read_database(source: Source, target: Target) -> None:
    """Read a database.

    Raises:
        FormatError: when it is damaged or has no rocpd tables.
    """
    with Sqlite(source) as tables:
        if is_rpd(tables):
            read_rpd(source, target, tables)
            return
        reader = _Reader(source, target, tables)
        target.source.update(
            tool="rocprofv3", schema=reader.version(), clock="ns of rocprofiler_get_timestamp"
        )
        reader.kernels()
        reader.copies()
        reader.regions()
        reader.memory()
        reader.counters()


class _Reader:
    def __init__(self, source: Source, target: Target, tables: Sqlite) -> None:
        self._target = target
        self._tables = tables
        self._source = source
        self._recording = RocprofRecording(target)
        if not self._name("kernel_dispatch") and not self._name("region"):
            raise source.error("has no rocpd tables")
        self._strings = self._texts("string", "string")
        self._tracks = self._by_id("track", _WHO)
        self._times = dict(self._column_by_id("timestamp", "value", INT))
        self._events = self._by_id("event", ("correlation_id", "stack_id", "category_id"))
        self._messages = self._texts("event", "extdata")
        self._hosts = self._texts("info_node", "hostname")
        self._processes = self._known_processes()
        self._threads = self._known_threads()
        self._agents = self._known_agents()

    # Tables

    def _name(self, table: str) -> str:
        """A table's name in this file: the view, or the only table with a run's id."""
        names = self._tables.names()
        if f"rocpd_{table}" in names:
            return f"rocpd_{table}"
        found = [name for name in names if name.startswith(f"rocpd_{table}_") and _is_run(name, table)]
        return found[0] if found else ""

    def _read(self, table: str, columns: Mapping[str, pa.DataType]) -> Iterator[ForeignRows]:
        yield from self._tables.read(self._name(table), columns)

    def _all(self, table: str, columns: Mapping[str, pa.DataType]) -> list[dict[str, Any]]:
        return whole(self._tables, self._name(table), columns).data.to_pylist()  # type: ignore[no-any-return]

    def _column_by_id(self, table: str, column: str, kind: pa.DataType) -> list[tuple[int, Any]]:
        return [(row["id"], row[column]) for row in self._all(table, {"id": INT, column: kind})]

    def _texts(self, table: str, column: str) -> dict[int, str]:
        return {number: text for number, text in self._column_by_id(table, column, TEXT) if text}

    def _by_id(self, table: str, columns: tuple[str, ...]) -> dict[int, dict[str, Any]]:
        return {row["id"]: row for row in self._all(table, {"id": INT, **dict.fromkeys(columns, INT)})}

    def version(self) -> str | None:
        """The schema's version."""
        rows = self._all("metadata", {"tag": TEXT, "value": TEXT})
        return next((row["value"] for row in rows if row["tag"] == "schema_version"), None)

    # Who and where

    def _known_processes(self) -> dict[int, int]:
        columns = dict.fromkeys(("id", "nid", "ppid", "pid", "init", "fini", "start", "end"), INT)
        return {
            row["id"]: self._target.process(
                row["pid"], scope=f"{self._target.scope}/{row['nid']}", parent=row["ppid"],
                host=self._hosts.get(row["nid"], ""), command=row["command"] or "",
                start=row["start"] or row["init"], end=row["end"] or row["fini"],
            )
            for row in self._all("info_process", {**columns, "command": TEXT})
        }  # fmt: skip

    def _process(self, number: int) -> int:
        found = self._processes.get(number)
        if found is None:
            found = self._processes[number] = self._target.process(number)
        return found

    def _known_threads(self) -> dict[int, int]:
        columns = {"id": INT, "pid": INT, "tid": INT, "name": TEXT}
        return {
            row["id"]: self._target.thread(self._process(row["pid"]), row["tid"], row["name"])
            for row in self._all("info_thread", columns)
        }

    def _known_agents(self) -> dict[int, int | None]:
        columns = {
            "id": INT, "nid": INT, "type": TEXT, "type_index": INT, "name": TEXT, "product_name": TEXT, "extdata": TEXT,
        }  # fmt: skip
        found: dict[int, int | None] = {}
        for row in self._all("info_agent", columns):
            more = _object(row["extdata"])
            found[row["id"]] = (
                self._recording.agent(
                    (self._target.scope, row["nid"], row["id"]),
                    index=row["type_index"],
                    name=f"{row['product_name'] or ''} ({row['name'] or ''})",
                    host=self._hosts.get(row["nid"], ""),
                    multiprocessors=more.get("cu_count"),
                    warp_size=more.get("wave_front_size"),
                )
                if row["type"] == "GPU"
                else None
            )
        return found

    def _columns(self, rows: ForeignRows) -> dict[str, Array]:
        """Columns pid, tid, agent_id, queue_id, stream_id (-1: none), start and end of rows, wherever the database keeps them."""
        tracks = rows.numbers("track_id", -1)
        found = {}
        for name in _WHO:
            values = rows.numbers(name, -1)
            if rows.given("track_id"):
                known = {
                    number: (row[name] if row[name] is not None else -1)
                    for number, row in self._tracks.items()
                }
                by_track = _looked_up(tracks, known)
                values = np.where(values < 0, by_track, values)
            found[name] = values
        for name in ("start", "end"):
            values = rows.numbers(name)
            if rows.given(f"{name}_id"):
                values = np.array(
                    [self._times.get(n, 0) for n in rows.numbers(f"{name}_id").tolist()], np.int64
                )
            found[name] = values
        return found

    def _places(self, who: dict[str, Array]) -> dict[str, Any]:
        process = numbered(who["pid"], self._process)
        stream = np.where(who["stream_id"] < 0, who["queue_id"], who["stream_id"])
        agents = [self._agents.get(number) for number in who["agent_id"].tolist()]
        return self._recording.places(process, agents, stream)

    def _correlations(self, rows: ForeignRows) -> pa.Array:
        """The correlation id of a row's event; rocprofv3 keeps its internal one as the stack id."""
        events = rows.column("event_id").to_pylist()
        known = [self._events.get(event, {}) for event in events]
        return pa.array([row.get("stack_id") or row.get("correlation_id") or None for row in known], INT)

    # Rows

    def kernels(self) -> None:
        """rocpd_kernel_dispatch."""
        symbols = {
            row["id"]: row
            for row in self._all(
                "info_kernel_symbol",
                {"id": INT, "kernel_name": TEXT, "display_name": TEXT, "arch_vgpr_count": INT, "accum_vgpr_count": INT,
                 "group_segment_size": INT},
            )
        }  # fmt: skip
        numbers = ("track_id", "kernel_id", "event_id", "private_segment_size", "group_segment_size", "graph_exec_id",
                   "graph_node_id", *_SIZES, *_WHO, *_WHEN)  # fmt: skip
        for rows in self._read("kernel_dispatch", dict.fromkeys(numbers, INT)):
            who = self._columns(rows)
            found = [symbols.get(number, {}) for number in rows.numbers("kernel_id").tolist()]
            names = [
                kernel_name(row.get("kernel_name") or row.get("display_name") or f"kernel {number}")
                for row, number in zip(found, rows.numbers("kernel_id").tolist(), strict=True)
            ]
            graph, node = rows.numbers("graph_exec_id"), rows.numbers("graph_node_id")
            self._recording.add_kernels(
                who["start"], who["end"], self._recording.names(names), self._shapes(rows, found), self._places(who),
                self._correlations(rows), graph=pa.array(graph, mask=graph == 0), graph_node=pa.array(node, mask=node == 0),
            )  # fmt: skip

    def _shapes(self, rows: ForeignRows, symbols: list[dict[str, Any]]) -> pa.Array:
        group = np.stack([rows.numbers(f"workgroup_size_{axis}", 1) for axis in "xyz"], axis=1)
        grid = blocks(np.stack([rows.numbers(f"grid_size_{axis}", 1) for axis in "xyz"], axis=1), group)
        registers = [(s.get("arch_vgpr_count") or 0) + (s.get("accum_vgpr_count") or 0) for s in symbols]
        static = np.array([s.get("group_segment_size") or 0 for s in symbols], np.int64)
        total = rows.numbers("group_segment_size")
        return self._recording.shapes(
            {
                **{f"grid_{axis}": grid[:, number] for number, axis in enumerate("xyz")},
                **{f"block_{axis}": group[:, number] for number, axis in enumerate("xyz")},
                "registers": np.array(registers, np.int64),
                "shared_static": np.minimum(static, total),
                "shared_dynamic": np.maximum(total - static, 0),
                "local_per_thread": rows.numbers("private_segment_size"),
            }
        )

    def copies(self) -> None:
        """rocpd_memory_copy."""
        numbers = ("track_id", "name_id", "size", "event_id", "dst_agent_id", "src_agent_id", *_WHO, *_WHEN)
        addresses = dict.fromkeys(("src_address", "dst_address"), pa.uint64())
        for rows in self._read("memory_copy", {**dict.fromkeys(numbers, INT), **addresses}):
            who = self._columns(rows)
            target, source = rows.numbers("dst_agent_id", -1), rows.numbers("src_agent_id", -1)
            gpu = np.array([self._agents.get(number) is not None for number in target.tolist()], bool)
            who["agent_id"] = np.where(gpu, target, source)
            peers = {
                "source_device": pa.array([self._agents.get(n) for n in source.tolist()], pa.int16()),
                "destination_device": pa.array([self._agents.get(n) for n in target.tolist()], pa.int16()),
                "source_address": _given(rows, "src_address"),
                "destination_address": _given(rows, "dst_address"),
            }
            directions = [self._strings.get(number, "") for number in rows.numbers("name_id").tolist()]
            self._recording.add_copies(
                who["start"], who["end"], rows.numbers("size"), directions, self._places(who),
                self._correlations(rows), **peers,
            )  # fmt: skip

    def regions(self) -> None:
        """rocpd_region: calls, and ROCTx ranges, which carry their message in the event."""
        categories = self._strings | self._texts("info_category", "name")
        for rows in self._read(
            "region", dict.fromkeys(("track_id", "name_id", "event_id", *_WHO, *_WHEN), INT)
        ):
            who = self._columns(rows)
            process = numbered(who["pid"], self._process)
            thread = np.array([self._threads.get(number, number) for number in who["tid"].tolist()], np.int64)
            names = [
                self._strings.get(number, f"name {number}") for number in rows.numbers("name_id").tolist()
            ]
            events = rows.column("event_id").to_pylist()
            texts = [
                categories.get(self._events.get(event, {}).get("category_id") or 0, "") for event in events
            ]
            marks = np.array(["MARKER" in text for text in texts], bool)
            if marks.any():
                chosen = np.flatnonzero(marks).tolist()
                said = [_object(self._messages.get(events[i], "")).get("message") or names[i] for i in chosen]
                self._recording.add_ranges(
                    who["start"][marks],
                    who["end"][marks],
                    [names[i] for i in chosen],
                    said,
                    thread[marks],
                    process[marks],
                )
            rest = ~marks
            if rest.any():
                self._recording.add_calls(
                    who["start"][rest], who["end"][rest], [names[i] for i in np.flatnonzero(rest)], thread[rest],
                    process[rest], self._correlations(rows).filter(pa.array(rest)),
                )  # fmt: skip

    def memory(self) -> None:
        """rocpd_memory_allocate."""
        columns = dict.fromkeys(("track_id", "address", "size", "event_id", *_WHO, *_WHEN), INT)
        for rows in self._read("memory_allocate", {**columns, "type": TEXT, "level": TEXT}):
            who = self._columns(rows)
            process = numbered(who["pid"], self._process).tolist()
            correlation = self._correlations(rows).to_pylist()
            types, levels = rows.column("type").to_pylist(), rows.column("level").to_pylist()
            address, size = rows.numbers("address").tolist(), rows.numbers("size").tolist()
            self._recording.add_memory(
                [
                    {
                        "time": int(who["start"][i]),
                        "operation": "free" if types[i] in ("FREE", "RECLAIM") else "allocate",
                        "address": address[i] & 0xFFFFFFFFFFFFFFFF,
                        "bytes": size[i],
                        "kind": "scratch" if levels[i] == "SCRATCH" else "device",
                        "device": self._agents.get(int(who["agent_id"][i])),
                        "correlation": correlation[i],
                        "allocator": family(levels[i] or ""),
                        "thread": self._threads.get(int(who["tid"][i])),
                        "process": process[i],
                    }
                    for i in range(len(rows))
                ]
            )

    def counters(self) -> None:
        """rocpd_pmc_event: counters of dispatches, at the dispatch's start."""
        if not self._tables.count(self._name("pmc_event")):
            return
        starts: dict[int, tuple[int, int, int]] = {}
        columns = dict.fromkeys(("track_id", "event_id", *_WHO, *_WHEN), INT)
        for rows in self._read("kernel_dispatch", columns):
            who = self._columns(rows)
            found = zip(who["start"].tolist(), who["agent_id"].tolist(), who["pid"].tolist(), strict=True)
            starts.update(zip(rows.numbers("event_id", -1).tolist(), found, strict=True))
        names = self._texts("info_pmc", "name")
        for rows in self._read("pmc_event", {"event_id": INT, "pmc_id": INT, "value": REAL}):
            events = [starts.get(number) for number in rows.numbers("event_id", -1).tolist()]
            kept = [i for i, event in enumerate(events) if event is not None]
            known = [event for event in events if event is not None]
            values, numbers = rows.column("value").to_pylist(), rows.numbers("pmc_id").tolist()
            if len(kept) < len(events):
                self._target.lost(
                    len(events) - len(kept), "counter values that belong to no dispatch", "counter"
                )
            if kept:
                self._recording.add_counters(
                    np.array([start for start, _, _ in known], np.int64),
                    [names.get(numbers[i], f"counter {numbers[i]}") for i in kept], [values[i] or 0.0 for i in kept],
                    [self._agents.get(agent) for _, agent, _ in known],
                    np.array([self._process(pid) for _, _, pid in known], np.int64),
                )  # fmt: skip


def _is_run(name: str, table: str) -> bool:
    """Whether a table's name is `rocpd_<table>_<run's id>`: ids are hexadecimal with underscores."""
    rest = name.removeprefix(f"rocpd_{table}_").replace("_", "")
    return bool(rest) and all(letter in "0123456789abcdefABCDEF" for letter in rest)


def _looked_up(values: Array, known: Mapping[int, int]) -> Array:
    return numbered(values, lambda number: known.get(number, -1))


def _given(rows: ForeignRows, column: str) -> pa.Array:
    """Addresses; 0 means none."""
    values = rows.numbers(column)
    return pa.array(values, mask=values == 0)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

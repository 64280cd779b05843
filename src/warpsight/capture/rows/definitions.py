"""Tables that describe processes, devices, contexts and streams, written once at the end."""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from warpsight.capture.identities import driver_index
from warpsight.machine.backends import registry
from warpsight.model.schema import TABLES
from warpsight.model.storage import store

if TYPE_CHECKING:
    from warpsight.capture.arena import Arena

Row = dict[str, Any]
_NODE_KINDS = (
    "kernel",
    "memcpy",
    "memset",
    "host",
    "graph",
    "empty",
    "wait event",
    "record event",
    "semaphore signal",
    "semaphore wait",
    "memory allocation",
    "memory free",
    "batch memory operation",
    "conditional",
)


def _platform(number: int) -> str:
    """The name of a device's or context's API."""
    found = registry.of_platform(number)
    return found.name if found is not None else "cuda"


def device(arena: Arena, row: np.void) -> Row:
    """A `Device` record as a row of table `device`, without its id."""
    text = arena.local.text
    major, minor = int(row["compute_major"]), int(row["compute_minor"])
    numbers = (
        "memory_bytes",
        "memory_bandwidth",
        "multiprocessors",
        "warp_size",
        "registers_per_multiprocessor",
        "shared_per_multiprocessor",
        "threads_per_multiprocessor",
        "blocks_per_multiprocessor",
        "clock_khz",
        "memory_clock_khz",
    )
    index = driver_index(int(row["device"]))
    return {
        "index": index,
        "uuid": text(int(row["uuid"])) or f"unknown-{index}",
        "name": text(int(row["name"])) or "unknown",
        "vendor": text(int(row["vendor"])) or "unknown",
        "platform": _platform(int(row["platform"])),
        "pci": text(int(row["pci"])) or None,
        **{name: int(row[name]) or None for name in numbers},
        "compute_capability": f"{major}.{minor}" if major else None,
        "driver": text(int(row["driver"])) or None,
        "runtime": text(int(row["runtime"])) or None,
        "host": _host(arena),
    }


def _host(arena: Arena) -> str:
    for rows in arena.kept["Process"]:
        return arena.local.text(int(rows[-1]["host"])) or platform.node()
    return platform.node()


def process(arena: Arena, ended: Mapping[str, Any]) -> Row:
    """The row of table `process`; `ended` is the launcher's information about its end."""
    text = arena.local.text
    end: Row = {"process": arena.process_id(), "end": ended.get("end"), "exit": ended.get("exit")}
    if not arena.kept["Process"]:
        return {
            "pid": ended.get("pid") or arena.pid,
            "host": platform.node(),
            "command": "",
            "executable": "",
            "start": 0,
            **end,
        }
    row = arena.kept["Process"][-1][-1]
    pairs = (line.partition("=") for line in text(int(row["environment"])).splitlines())
    environment = {name: value for name, _, value in pairs if name}
    command = [part for part in text(int(row["command"])).split("\0") if part]
    return {
        "pid": int(row["pid"]),
        "parent": int(row["parent"]) or None,
        "host": _host(arena),
        "rank": _or_none(row["rank"]),
        "local_rank": _or_none(row["local_rank"]),
        "world_size": _or_none(row["world_size"]),
        "command": shlex.join(command),
        "executable": text(int(row["executable"])),
        "environment": json.dumps(environment) if environment else None,
        "settings": text(int(row["settings"])) or None,
        "start": int(row["time"]),
        **end,
    }


def _or_none(number: float) -> int | None:
    return None if number < 0 else int(number)


def rows(arena: Arena) -> Iterator[tuple[str, list[Row]]]:
    """Rows of the tables of one process, by table."""
    number = arena.known_process()
    if number is None:
        return
    makers = {"thread": _threads, "context": _contexts, "stream": _streams, "module": _modules}
    for table, make in makers.items():
        yield table, [{**row, "process": number} for row in make(arena)]


def _last(arena: Arena, kind: str, *key: str) -> list[Any]:
    """The newest row for each key."""
    found = {tuple(int(row[k]) for k in key): row for part in arena.kept[kind] for row in part}
    return list(found.values())


def _threads(arena: Arena) -> Iterator[Row]:
    named = {
        int(row["thread"]): arena.local.text(int(row["name"])) or None
        for row in _last(arena, "Thread", "thread")
    }
    for thread in sorted(named.keys() | arena.threads):
        yield {"thread": thread, "name": named.get(thread)}


def _contexts(arena: Arena) -> Iterator[Row]:
    for row in _last(arena, "Context", "context"):
        yield {
            "context": _small(row["context"]),
            "device": arena.device(int(row["device"]) & 0xFFFF),
            "null_stream": int(row["null_stream"]),
            "api": _platform(int(row["api"])),
        }


def _streams(arena: Arena) -> Iterator[Row]:
    for row in _last(arena, "Stream", "context", "stream"):
        yield {
            "stream": int(row["stream"]),
            "context": _small(row["context"]),
            "priority": _small(row["priority"]),
            "device": arena.device(int(row["device"]) & 0xFFFF),
            "flags": _small(row["flags"]),
            "name": arena.local.text(int(row["name"])) or None,
        }


def _modules(arena: Arena) -> Iterator[Row]:
    for row in _last(arena, "Module", "id"):
        yield {
            "module": _small(row["id"]),
            "name": arena.local.text(int(row["name"])) or None,
            "checksum": int(row["checksum"]) or None,
            "bytes": int(row["size"]) or None,
            "context": _small(row["context"]),
            "device": arena.device(int(row["device"]) & 0xFFFF),
            "time": int(row["time"]) or None,
        }


def _small(number: int) -> int:
    """An unsigned 32-bit number in a signed column: real ids stay far below the limit, odd ones keep their bits."""
    return int(np.uint32(number).view(np.int32))


def graphs(arena: Arena) -> Iterator[tuple[str, pa.Table]]:
    """Tables of graphs, nodes and edges; these can be large, so they are built column by column."""
    for kind, table, make in (
        ("Graph", "graph", _graph),
        ("GraphNode", "graph_node", _node),
        ("GraphEdge", "graph_edge", _edge),
    ):
        if arena.kept[kind]:
            data = make(arena, np.concatenate(arena.kept[kind]))
            data["process"] = np.full(len(next(iter(data.values()))), arena.process_id(), np.int32)
            yield table, store.conform(TABLES[table], pa.table(data))


def _nullable(values: npt.NDArray[Any]) -> pa.Array:
    return pa.array(values, mask=values == 0)


def _graph(arena: Arena, rows: npt.NDArray[Any]) -> dict[str, Any]:
    stack = arena.local.stacks(rows["stack"])
    return {
        "graph": rows["graph"].astype(np.int32),
        "original": _nullable(rows["original"].astype(np.int32)),
        "executable": (rows["flags"] & 1) != 0,
        "stack": _nullable(stack),
        "time": rows["time"].astype(np.int64),
    }


def _described_once(nodes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Drop the first of two rows for one clone: CUPTI first reports its creation, then what it was cloned from."""
    order = np.argsort(nodes["node"], kind="stable")
    node, original = nodes["node"][order], nodes["original"][order]
    cloned_next = (node[1:] == node[:-1]) & (original[:-1] == 0) & (original[1:] != 0)
    keep = np.ones(len(nodes), bool)
    keep[order[:-1][cloned_next]] = False
    return nodes[keep]


def _node(arena: Arena, rows: npt.NDArray[Any]) -> dict[str, Any]:
    rows = _described_once(rows[(rows["flags"] & 1) == 0])
    kinds = pa.DictionaryArray.from_arrays(
        np.minimum(rows["type"], len(_NODE_KINDS)).astype(np.int8), [*_NODE_KINDS, "unknown"]
    )
    return {
        "graph_node": rows["node"].astype(np.int64),
        "original": _nullable(rows["original"].astype(np.int64)),
        "graph": rows["graph"].astype(np.int32),
        "kind": kinds,
        "stack": _nullable(arena.local.stacks(rows["stack"])),
        "time": rows["time"].astype(np.int64),
    }


def _edge(arena: Arena, rows: npt.NDArray[Any]) -> dict[str, Any]:
    return {
        "from_node": rows["from_node"].astype(np.int64),
        "to_node": rows["to_node"].astype(np.int64),
        "graph": rows["graph"].astype(np.int32),
    }

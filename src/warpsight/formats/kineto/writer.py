"""Kineto's JSON, as torch.profiler writes it: for HTA, TraceLens, Chrome, Perfetto, and back.

SQL assembles the text of every event; times are microseconds with three decimals, computed from integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import msgspec

from warpsight.errors import UsageError
from warpsight.formats.enclosed import writing as enclosed
from warpsight.formats.kineto import event_text
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection

if TYPE_CHECKING:
    import duckdb

    from warpsight.model import StoredTrace

_ROWS = 50_000
WRITTEN = Coverage(
    kept=(
        "one file per process (a folder for several), with everything that Kineto has events for; own events "
        "in category `user_event`",
        "stacks as `Call stack` where the trace has no Python functions",
    ),
    lost=(
        "times of unfinished kernels; samples, builds, graphs, losses",
        "static and dynamic shared memory apart; clusters; module ids",
    ),
    tested=("both real traces, imported, written and imported again; HTA 0.5, a folder of two ranks too",),
)


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write one process of a trace; returns counts of slices, samples, tracks and unplaced kernels.

    Raises:
        UsageError: when the selection holds several processes: the format holds one.
    """
    process = _process(trace, selection)
    summed = enclosed.Summed(file)
    summed.write(_header(trace, process))
    written = {"slices": 0, "samples": 0, "tracks": 0, "unplaced": 0, "arrows": 0}
    separator = b"\n"
    for kind, sql in event_text.statements(trace, selection, process):
        for events in _texts(trace, sql):
            summed.write(separator + b",\n".join(events))
            separator = b",\n"
            written[kind] += len(events)
    summed.write(b'\n],"traceName":' + msgspec.json.encode(str(trace.path)))
    enclosed.as_member(trace, replace(selection, processes=(process,)), summed)
    summed.write(b"}\n")
    unplaced = f"SELECT count(*) FROM kernel_ids WHERE start IS NULL AND process = {process}"
    written["unplaced"] = trace.sql(unplaced).fetchall()[0][0]
    written.pop("arrows", None)
    return written


def parts(trace: StoredTrace, selection: Selection) -> dict[str, Selection]:
    """One file per process, named as torch names them; empty if one file holds the selection."""
    _, chosen = _processes(trace, selection)
    if len(chosen) < 2:
        return {}
    ranks = [rank for _, _, rank in chosen]
    ranked = None not in ranks and len(set(ranks)) == len(ranks)
    return {
        (f"rank{rank}" if ranked else f"process{process}"): replace(selection, processes=(process,))
        for process, _, rank in chosen
    }


def _processes(trace: StoredTrace, selection: Selection) -> tuple[list[Any], list[Any]]:
    """Process, pid and rank of all processes, and of the selected ones."""
    listed = trace.sql("SELECT process, pid, rank FROM process ORDER BY process").fetchall()
    return listed, [row for row in listed if not selection.processes or row[0] in selection.processes]


def _process(trace: StoredTrace, selection: Selection) -> int:
    listed, chosen = _processes(trace, selection)
    if len(chosen) == 1:
        return int(chosen[0][0])
    if not listed:
        raise UsageError(
            f"{trace.path} names no process (table process has no rows): a Kineto file holds the events of one"
        )
    listed_processes = ", ".join(
        f"{p} (rank {r})" if r is not None else f"{p} (pid {pid})" for p, pid, r in (chosen or listed)[:8]
    )
    if not chosen:
        asked = ", ".join(str(p) for p in selection.processes)
        raise UsageError(f"the trace has no process {asked}; it has {listed_processes}")
    raise UsageError(f"Kineto's format holds one process; choose one with --process: {listed_processes}")


def _texts(trace: StoredTrace, sql: str) -> Iterator[list[bytes]]:
    """Lists of encoded events."""
    relation = trace.sql(sql)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in reader(_ROWS):
        if len(batch):
            yield [text.encode() for text in batch.column(0).to_pylist()]


def _header(trace: StoredTrace, process: int) -> bytes:
    """Everything before the events."""
    content: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": _devices(trace, process)}
    row = trace.sql(f"SELECT rank, world_size, settings FROM process WHERE process = {process}").fetchall()[0]
    if row[2]:
        versions = msgspec.json.decode(row[2])
        content |= {key: value for key, value in versions.items() if isinstance(value, (int, float, str))}
    if row[0] is not None:
        content["distributedInfo"] = {"backend": "nccl", "rank": row[0], "world_size": row[1]}
    pairs = trace.sql(f"""SELECT realtime - monotonic FROM clock WHERE process = {process} OR process IS NULL
                          ORDER BY monotonic LIMIT 1""").fetchall()
    content |= {
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": pairs[0][0] if pairs else 0,
        "recorder": "warpsight",
    }
    source = trace.manifest.get("source")
    if isinstance(source, dict) and source.get("trace_id"):
        content["trace_id"] = source["trace_id"]
    # With spaces, as torch writes it: HTA looks for `"rank": 0`.
    return msgspec.json.format(msgspec.json.encode(content), indent=0)[:-1] + b',"traceEvents":['


def _devices(trace: StoredTrace, process: int) -> list[dict[str, Any]]:
    rows = trace.sql(f"""
        SELECT device AS id, CASE WHEN "index" <> device THEN "index" END AS "index", name,
          memory_bytes AS "totalGlobalMem", compute_capability,
          threads_per_multiprocessor AS "maxThreadsPerMultiprocessor", warp_size AS "warpSize",
          multiprocessors AS "numSms", registers_per_multiprocessor AS "regsPerMultiprocessor",
          shared_per_multiprocessor AS "sharedMemPerMultiprocessor"
        FROM device WHERE device IN (SELECT device FROM kernel_ids WHERE process = {process} UNION
                                     SELECT device FROM memory WHERE process = {process}) ORDER BY 1""")
    names = _relation_columns(rows)
    found = []
    for values in rows.fetchall():
        device = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        capability = str(device.pop("compute_capability", "")).split(".")
        if len(capability) == 2 and all(part.isdigit() for part in capability):
            device["computeMajor"], device["computeMinor"] = map(int, capability)
        found.append(device)
    return found


def _relation_columns(relation: duckdb.DuckDBPyRelation) -> list[str]:
    """Names of a relation's columns."""
    return list(relation.columns)

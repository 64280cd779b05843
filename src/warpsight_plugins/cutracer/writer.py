"""Instruction tables as CUTracer's NDJSON (version 0.4's fields): a kernel's description, then its records.

Keys are in alphabetical order without spaces, as CUTracer writes them, so its host tools read the file. A trace of several
kernels is one file with a `kernel_metadata` line before the records of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from warpsight.errors import WarpsightError
from warpsight.formats.registry import Coverage
from warpsight.formats.selection import Selection
from warpsight_plugins.cutracer.records import EVENTS

if TYPE_CHECKING:
    import duckdb

    from warpsight.model import StoredTrace

WRITTEN = Coverage(
    kept=(
        "instruction table; each record with registers, addresses and values; reading them gives the same "
        "tables",
        "names ending in .zst are compressed, in .clp archived (needs clp-s)",
    ),
    lost=(
        "instruction text in each record (0.1); events without a record type: barriers, copies and others of "
        "`sass trace`",
    ),
    tested=("every record type, with `sass validate` and the schema",),
)
#: Records with addresses.
_ADDRESSES = "mem_addr_trace"
_ACCESSES = {"mem_trace", _ADDRESSES, "mem_value_trace"}
#: Records that the format has; it cannot store other kinds of events (such as barriers).
_KINDS = f"kind IN ({', '.join(repr(kind) for kind in EVENTS)})"
#: Records made at once.
BATCH = 16_384
_EVENT = "grid_launch, event, kind, time, cta_x, cta_y, cta_z, warp, opcode, pc, active_mask, name_id, attributes, process"


def write(trace: StoredTrace, file: IO[bytes], selection: Selection) -> dict[str, int]:
    """Write the records of the selected processes; returns the number of records and of kernels.

    Raises:
        WarpsightError: when the trace has no instruction records.
    """
    kernels = _Kernels(trace)
    records = 0
    described: set[tuple[int, int | None]] = set()
    with ThreadPoolExecutor(1) as lookups:  # a thread's cursor has one open result, here the events
        for process, launch in _launches(trace, selection):
            for batch in _batches(trace, process, launch):
                key = (process, batch[0]["name_id"])
                if key not in described and (metadata := kernels.metadata(*key)):
                    file.write(_line(metadata))
                described.add(key)
                other = lookups.submit(_others, trace, batch).result()
                file.writelines(_line(record) for record in _records(batch, kernels, *other))
                records += len(batch)
    if not records:
        raise WarpsightError(f"{trace.path} has no records of instructions (table warp_event)")
    return {"records": records, "kernels": len(described)}


def _line(record: dict[str, Any]) -> bytes:
    return msgspec.json.encode(record, order="sorted") + b"\n"


def _launches(trace: StoredTrace, selection: Selection) -> list[tuple[int, int]]:
    chosen = ", ".join(str(int(p)) for p in selection.processes)
    where = f"WHERE {_KINDS}" + (f" AND process IN ({chosen})" if chosen else "")
    return [
        (int(p), int(g))
        for p, g in trace.sql(
            f"SELECT DISTINCT process, grid_launch FROM warp_event {where} ORDER BY 1, 2"
        ).fetchall()
    ]


def _batches(trace: StoredTrace, process: int, launch: int) -> Iterator[list[dict[str, Any]]]:
    """Events of a launch in their order."""
    yield from rows(
        trace.sql(
            f"SELECT {_EVENT} FROM warp_event WHERE process = {process} AND grid_launch = {launch} AND {_KINDS} ORDER BY event"
        )
    )


def rows(relation: duckdb.DuckDBPyRelation) -> Iterator[list[dict[str, Any]]]:
    """A relation's rows, some thousand at a time."""
    reader = (getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader)(BATCH)
    for batch in reader:
        if batch.num_rows:
            yield batch.to_pylist()


class _Kernels:
    """The sources' descriptions of their kernels, and the instruction tables."""

    def __init__(self, trace: StoredTrace) -> None:
        sources = trace.manifest.get("source") or []
        said = sources if isinstance(sources, list) else [sources]
        self._said = {
            str(k.get("mangled_name")): dict(k)
            for source in said
            if isinstance(source, dict)
            for k in source.get("kernels", [])
        }
        self._names = dict(
            trace.sql(
                "SELECT DISTINCT name_id, name FROM instruction UNION SELECT DISTINCT name_id, name FROM warp_event"
            ).fetchall()
        )
        self.sass: dict[tuple[int, int | None], dict[int, dict[str, Any]]] = {}
        listed = trace.sql(
            "SELECT process, name_id, opcode, sass, instruction.binary, registers, uniform_registers "
            "FROM instruction ORDER BY opcode"
        ).fetchall()
        for process, name, opcode, sass, binary, registers, uniform in listed:
            entry = {"sass": sass, "binary": binary, "regs": _parsed(registers), "uregs": _parsed(uniform)}
            kept = {key: value for key, value in entry.items() if value is not None}
            self.sass.setdefault((process, name), {})[int(opcode)] = kept

    def metadata(self, process: int, name: int | None) -> dict[str, Any] | None:
        """The line that describes a kernel; None if missing (records then carry their instruction)."""
        said = self._said.get(str(self._names.get(name)))
        if said is None:
            return None
        table = {str(opcode): entry for opcode, entry in self.sass.get((process, name), {}).items()}
        record = {key: value for key, value in said.items() if key != "ctx"}
        return {**record, **({"instructions": table} if table else {}), "type": "kernel_metadata"}

    def context(self, name: int | None) -> str:
        """The context that the source named in the kernel's records."""
        return str(self._said.get(str(self._names.get(name)), {}).get("ctx", "0x0"))

    def inline(self, process: int, name: int | None, opcode: int) -> str | None:
        """The instruction's text if no line describes the kernel."""
        if str(self._names.get(name)) in self._said:
            return None
        text = self.sass.get((process, name), {}).get(opcode, {}).get("sass")
        return None if text is None else str(text)


def _parsed(text: str | None) -> object:
    return None if text is None else json.loads(text)


_Fields = dict[int, dict[str, Any]]


def _others(trace: StoredTrace, batch: list[dict[str, Any]]) -> tuple[_Fields, _Fields]:
    """Rows of other tables about one launch's records: accesses and registers by event."""
    window = (
        f"WHERE process = {batch[0]['process']} AND grid_launch = {batch[0]['grid_launch']} "
        f"AND event BETWEEN {batch[0]['event']} AND {batch[-1]['event']}"
    )
    kinds = {event["kind"] for event in batch}
    accesses = _accesses(trace, window) if kinds & _ACCESSES else {}
    return accesses, _registers(trace, window) if "reg_trace" in kinds else {}


def _records(
    batch: list[dict[str, Any]], kernels: _Kernels, accesses: _Fields, registers: _Fields
) -> Iterator[dict[str, Any]]:
    """Records of one launch, in their order."""
    process, launch = batch[0]["process"], batch[0]["grid_launch"]
    for event in batch:
        kind, name, number = event["kind"], event["name_id"], event["event"]
        record = {
            "type": kind, "ctx": kernels.context(name), "trace_index": number, "timestamp": event["time"],
            "grid_launch_id": launch, "cta": [event["cta_x"], event["cta_y"], event["cta_z"]], "warp": event["warp"],
            "opcode_id": event["opcode"], "pc": hex(event["pc"]),
        }  # fmt: skip
        if event["active_mask"] is not None:
            record["active_mask"] = f"0x{event['active_mask']:08x}"
        if (text := kernels.inline(process, name, event["opcode"])) is not None:
            record["sass"] = text
        others = json.loads(event["attributes"]) if event["attributes"] else {}
        if kind in _ACCESSES:
            fields = accesses.get(number, {})
            record.update({"addrs": fields["addrs"]} if kind == _ADDRESSES and fields else fields)
        elif kind == "reg_trace":
            numbered: dict[str, Any] = {} if "regs" in others else {"regs": [], "regs_indices": []}
            record.update(numbered | registers.get(number, {}))
        record.update(others)
        yield record


def _accesses(trace: StoredTrace, window: str) -> dict[int, dict[str, Any]]:
    """Event → addresses, and values with their descriptions if there are any."""
    columns = trace.sql(
        f"SELECT event, address, space, is_load, bytes, value0, value1, value2, value3 FROM access {window} ORDER BY event, lane"
    ).fetchnumpy()
    events = np.asarray(columns["event"])
    out: dict[int, dict[str, Any]] = {}
    for first in range(0, len(events), 32):
        lanes = slice(first, first + 32)
        record: dict[str, Any] = {"addrs": columns["address"][lanes].tolist()}
        size = columns["bytes"][lanes].tolist()[0]
        if size is not None:
            words = max(-(-int(size) // 4), 1)
            values = zip(
                *(columns[f"value{word}"][lanes].tolist() for word in range(min(words, 4))), strict=True
            )
            record |= {
                "access_size": int(size), "mem_space": columns["space"][lanes].tolist()[0],
                "is_load": bool(columns["is_load"][lanes].tolist()[0]),
                "values": [[value for value in lane if value is not None] for lane in values],
            }  # fmt: skip
        out[int(events[first])] = record
    return out


def _registers(trace: StoredTrace, window: str) -> dict[int, dict[str, Any]]:
    """Event → registers lane by lane and uniform registers, with their numbers."""
    out: dict[int, dict[str, Any]] = {}
    for uniform, values, indices in ((False, "regs", "regs_indices"), (True, "uregs", "uregs_indices")):
        lanes = 1 if uniform else 32
        columns = trace.sql(
            f"SELECT event, register, value FROM register {window} AND uniform = {uniform}"
        ).fetchnumpy()
        order = np.argsort(columns["event"], kind="stable")
        events = np.asarray(columns["event"])[order]
        numbers = np.asarray(columns["register"])[order][::lanes]
        lane_values = np.asarray(columns["value"])[order].reshape(-1, lanes)
        own = events[::lanes]
        begins = [0, *(np.flatnonzero(own[1:] != own[:-1]) + 1).tolist()] if len(own) else []
        for begin, end in pairwise([*begins, len(numbers)]):
            record = out.setdefault(int(events[begin * lanes]), {})
            found = lane_values[begin:end]
            record[values] = found[:, 0].tolist() if uniform else found.tolist()
            record[indices] = numbers[begin:end].tolist()
    return out

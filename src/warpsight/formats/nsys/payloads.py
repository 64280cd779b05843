"""Structured NVTX payloads: fields according to the schemas in the report, including NCCL's collectives.

`binaryData` of an event is a header of 32 bytes (domain u32, reserved u32, schema u32, reserved u32, payload size u64,
total size u64) and the payload; NVTX_PAYLOAD_SCHEMA_ENTRIES gives each field's type (`nvToolsExtPayload.h`) and offset. Only
fields of fixed size are decoded; strings and nested schemas are elsewhere in memory and are not in the report.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from warpsight.formats.nsys.api_calls import LAUNCHES
from warpsight.formats.nsys.report import INT, TEXT
from warpsight.model.naming import collective_names

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report
    from warpsight.formats.reading.databases import ForeignRows

_HEADER = struct.Struct("<IIIIQQ")
#: nvtxPayloadEntryType of fixed size, on the 64-bit systems that Nsight records.
_FORMATS = {
    1: "c", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H",
    15: "i", 16: "I", 17: "q", 18: "Q", 19: "f", 20: "d", 22: "Q", 23: "Q", 42: "e", 43: "f", 44: "d", 68: "I", 69: "I",
    70: "Q", 71: "I", 72: "Q", 73: "I", 74: "Q",
}  # fmt: skip
_SIZE, _COMMUNICATOR, _RANKS, _PEER = (
    "Message size [bytes]",
    "NCCL communicator ID",
    "No. of ranks",
    "Peer rank",
)
_OPERATIONS = {
    name: operation
    for name, operation in collective_names.CALLS.items()
    if operation not in ("send", "receive")
}


class _Call(NamedTuple):
    """A range that announced a collective and may have launched its kernel."""

    operation: str
    thread: int
    start: int
    end: int
    size: int
    communicator: int


class Payloads:
    """The schemas of a report, and the announced collectives."""

    def __init__(self, report: Report) -> None:
        """Read the schemas; ids are those of a domain and process, and one id has one layout."""
        self._report = report
        report.read.update(("NVTX_PAYLOAD_SCHEMAS", "NVTX_PAYLOAD_SCHEMA_ENTRIES"))
        self._fields: dict[int, list[tuple[str, str, int]]] = {}
        columns = {"schemaId": INT, "idx": INT, "type": INT, "name": TEXT, "offset": INT}
        seen = set()
        for row in report.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", columns).data.to_pylist():
            if (row["schemaId"], row["idx"]) in seen or row["type"] not in _FORMATS:
                continue
            seen.add((row["schemaId"], row["idx"]))
            field = (row["name"] or f"field {row['idx']}", "<" + _FORMATS[row["type"]], row["offset"] or 0)
            self._fields.setdefault(row["schemaId"], []).append(field)
        self._calls: list[_Call] = []
        self._ranks: dict[int, int] = {}

    def attributes(self, rows: ForeignRows, names: Sequence[str | None]) -> pa.Array:
        """The payloads of ranges as JSON; null for ranges without one."""
        said: list[str | None] = []
        tid, start, end = rows.numbers("globalTid"), rows.numbers("start"), rows.numbers("end")
        for number, data in enumerate(rows.column("binaryData").to_pylist()):
            if data is None:
                said.append(None)
                continue
            found = self._decode(_bytes(data))
            said.append(
                json.dumps(found, ensure_ascii=False) if found else json.dumps({"payload bytes": len(data)})
            )
            self._notice(found, names[number] or "", int(tid[number]), int(start[number]), int(end[number]))
        return pa.array(said, TEXT)

    def _decode(self, data: bytes) -> dict[str, Any]:
        """Fields by name; empty for a schema missing from the report, or a payload that is too short."""
        if len(data) < _HEADER.size:
            return {}
        _, _, schema, _, size, _ = _HEADER.unpack_from(data)
        found: dict[str, Any] = {}
        for name, form, offset in self._fields.get(schema, []):
            end = offset + struct.calcsize(form)
            if offset >= 0 and end <= size and _HEADER.size + end <= len(data):
                (value,) = struct.unpack_from(form, data, _HEADER.size + offset)
                found[name] = value.decode("latin-1") if isinstance(value, bytes) else value
        return found

    def _notice(self, found: dict[str, Any], name: str, tid: int, start: int, end: int) -> None:
        communicator = found.get(_COMMUNICATOR)
        if not isinstance(communicator, int):
            return
        if isinstance(found.get(_RANKS), int):
            self._ranks[communicator] = found[_RANKS]
        if name in _OPERATIONS and isinstance(found.get(_SIZE), int) and _PEER not in found:
            self._calls.append(_Call(_OPERATIONS[name], tid, start, end, found[_SIZE], communicator))

    def write_collectives(self) -> None:
        """Rows of table collective: announced collectives whose call launched exactly one kernel, with that kernel's time.

        Calls inside an NCCL group launch when the group ends; for these, only the range's attributes give the size.
        """
        if not self._calls:
            return
        launched = self._launched()
        kernels = self._kernels({correlation for _, correlation in launched})
        rows = []
        for call, correlation in launched:
            pid = call.thread >> 24
            ranks = self._ranks.get(call.communicator)
            parts = ranks or 1 if call.operation in collective_names.IN_PARTS else 1
            if (pid, correlation) in kernels:
                start, length = kernels[pid, correlation]
                rows.append(
                    {
                        "start": start,
                        "duration": length,
                        "operation": call.operation,
                        "bytes": call.size * parts,
                        "ranks": ranks,
                        "group": f"{call.communicator:#x}",
                        "correlation": correlation,
                        "process": self._report.process(call.thread),
                    }
                )
        self._report.target.add("collective", rows)

    def _launched(self) -> list[tuple[_Call, int]]:
        """Calls with the correlation id of their thread's only launch inside them."""
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        only = ("nameId", self._report.matching(LAUNCHES))
        parts = [
            (rows.numbers("globalTid"), rows.numbers("start"), rows.numbers("correlationId"))
            for rows in self._report.tables.read(
                table, {"globalTid": INT, "start": INT, "correlationId": INT}, only
            )
        ]
        if not parts:
            return []
        tid, start, correlation = (np.concatenate(part) for part in zip(*parts, strict=True))
        found = []
        for thread in {call.thread for call in self._calls}:
            mine = np.flatnonzero(tid == thread)
            mine = mine[np.argsort(start[mine], kind="stable")]
            for call in (call for call in self._calls if call.thread == thread):
                first, last = np.searchsorted(start[mine], [call.start, call.end])
                if last - first == 1:
                    found.append((call, int(correlation[mine[first]])))
        return found

    def _kernels(self, correlations: set[int]) -> dict[tuple[int, int], tuple[int, int]]:
        """Start and duration of kernels by process and correlation id."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        columns = {"globalPid": INT, "correlationId": INT, "start": INT, "end": INT}
        for rows in self._report.tables.read("CUPTI_ACTIVITY_KIND_KERNEL", columns):
            chosen = rows.where(np.isin(rows.numbers("correlationId", -1), list(correlations)))
            for row in chosen.data.to_pylist():
                if row["start"] is not None and row["end"] is not None:
                    key = (row["globalPid"] or 0) >> 24, row["correlationId"]
                    found[key] = row["start"], row["end"] - row["start"]
        return found


def _bytes(data: bytes) -> bytes:
    """A payload as bytes: SQLite stores them, other exports use hexadecimal."""
    try:
        return bytes.fromhex(data.decode("ascii")) if len(data) % 2 == 0 else data
    except ValueError:
        return data

"""Databases: strings by id, times in ns, pids in the upper 32 bits of a global thread id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from warpsight.formats.reading.databases import Sqlite, whole
from warpsight_plugins.msprof.recording import NO_STREAM, NONE, MsprofRecording

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

INT, TEXT = pa.int64(), pa.string()
_MEMCPY = {
    0: "host to host", 1: "host to device", 2: "device to host", 3: "device to device", 5: "addr device to device",
    6: "host to device ex", 7: "device to host ex",
}  # fmt: skip
_MSTX = {0: "marker", 1: "push/pop range", 2: "start/end range", 3: "marker_ex"}
_READ = {
    "STRING_IDS", "TASK", "COMPUTE_TASK_INFO", "COMMUNICATION_TASK_INFO", "COMMUNICATION_SCHEDULE_TASK_INFO", "COMMUNICATION_OP",
    "CANN_API", "PYTORCH_API", "MSTX_EVENTS", "NPU_INFO", "HOST_INFO", "RANK_DEVICE_MAP", "SESSION_TIME_INFO", "MEMCPY_INFO",
    "AICORE_FREQ", "CONNECTION_IDS", "META_DATA",
}  # fmt: skip


def read_database(source: Source, target: Target) -> None:
    """Read a database.

    Raises:
        FormatError: when it is damaged or holds neither tasks nor calls.
    """
    with Sqlite(source) as tables:
        if not any(tables.columns(name) for name in ("TASK", "CANN_API", "PYTORCH_API")):
            raise source.error("has neither TASK nor CANN_API nor PYTORCH_API")
        reader = _Reader(target, tables)
        reader.tasks()
        reader.calls()
        reader.operators()
        reader.ranges()
        reader.collectives()
        reader.frequency()
        reader.recording.close()
        target.source.update(tool="msprof", clock="ns since 1970")
        rest = [
            name for name in tables.names() if name not in _READ and not name.startswith(("ENUM_", "sqlite_"))
        ]
        if said := [f"{name} ({tables.count(name):,} rows)" for name in sorted(rest) if tables.count(name)]:
            target.note(f"tables of the database that were not imported: {', '.join(said)}")


class _Reader:
    def __init__(self, target: Target, tables: Sqlite) -> None:
        self._target = target
        self._tables = tables
        self.recording = MsprofRecording(target)
        self._strings = {
            row["id"]: row["value"] for row in self._all("STRING_IDS", {"id": INT, "value": TEXT})
        }
        self._npus = {
            row["id"]: row["name"] or "" for row in self._all("NPU_INFO", {"id": INT, "name": TEXT})
        }
        hosts = self._all("HOST_INFO", {"hostName": TEXT})
        self._host = hosts[0]["hostName"] or "" if hosts else ""
        ranks = self._all("RANK_DEVICE_MAP", {"rankId": INT, "deviceId": INT})
        self._rank = ranks[0]["rankId"] if len(ranks) == 1 and (ranks[0]["rankId"] or -1) >= 0 else None
        if len(ranks) == 1 and ranks[0]["rankId"] == 0:
            self._rank = 0

    def _all(self, table: str, columns: Mapping[str, pa.DataType]) -> list[dict[str, Any]]:
        return whole(self._tables, table, columns).data.to_pylist()  # type: ignore[no-any-return]

    def _pieces(self, table: str, *names: str) -> Iterator[dict[str, Any]]:
        for rows in self._tables.read(table, dict.fromkeys(names, INT)):
            yield from rows.data.to_pylist()

    def _text(self, number: int | None) -> str:
        return self._strings.get(number) or ("" if number is None else f"string {number}")

    def _process(self, pid: int) -> int:
        return self._target.process(pid, host=self._host, rank=self._rank)

    def _thread(self, number: int) -> tuple[int, int]:
        """(thread, process) ids of a global thread id."""
        process = self._process(number >> 32)
        return self._target.thread(process, number & 0xFFFFFFFF), process

    def _span(self, row: Mapping[str, Any]) -> dict[str, int]:
        start, end = row["startNs"] or 0, row["endNs"] or row["startNs"] or 0
        return {"start": start, "duration": end - start}

    def tasks(self) -> None:
        """TASK with the details of each in the tables of compute, communication and copies."""
        compute = {
            row["globalTaskId"]: row
            for row in self._pieces(
                "COMPUTE_TASK_INFO", "globalTaskId", "name", "blockDim", "blockNum", "opType", "inputShapes"
            )
        }
        other = {
            row["globalTaskId"]: row["name"]
            for row in self._pieces("COMMUNICATION_TASK_INFO", "globalTaskId", "name")
        }
        copies = {
            row["globalTaskId"]: row
            for row in self._pieces("MEMCPY_INFO", "globalTaskId", "size", "memcpyOperation")
        }
        directions = self._enumeration("ENUM_MEMCPY_OPERATION") or _MEMCPY
        columns = (
            "startNs",
            "endNs",
            "deviceId",
            "connectionId",
            "globalTaskId",
            "globalPid",
            "taskType",
            "streamId",
            "taskId",
        )
        self.recording.collectives = frozenset(
            row["connectionId"]
            for row in self._pieces("COMMUNICATION_OP", "connectionId")
            if _connection(row["connectionId"]) is not None
        )
        for row in self._pieces("TASK", *columns):
            identity = row["globalTaskId"]
            found, copy = compute.get(identity), copies.get(identity)
            number = row["deviceId"] or 0
            process = self._process(row["globalPid"] or 0)
            device = self.recording.device(number, self._npus.get(number, ""), self._host)
            place = self.recording.place(process, device, row["streamId"] or 0)
            task = {**self._span(row), **place, "correlation": _connection(row["connectionId"])}
            if self.recording.part(task["correlation"], task):
                continue
            name = (
                self._text(found["name"])
                if found
                else self._text(other[identity])
                if identity in other
                else ""
            )
            self.recording.task(
                self._text(row["taskType"]), name, task,
                size=(copy["size"] or 0) if copy else 0,
                direction=directions.get(copy["memcpyOperation"], "other") if copy else "",
                blocks=(found["blockDim"] or found["blockNum"] or 0) if found else 0, task=row["taskId"] or 0,
            )  # fmt: skip

    def _enumeration(self, table: str) -> dict[int, str]:
        return {row["id"]: row["name"] or "" for row in self._all(table, {"id": INT, "name": TEXT})}

    def calls(self) -> None:
        """CANN_API."""
        for row in self._pieces("CANN_API", "startNs", "endNs", "globalTid", "connectionId", "name"):
            thread, process = self._thread(row["globalTid"] or 0)
            call = {"thread": thread, "process": process, "correlation": _connection(row["connectionId"])}
            self.recording.call(self._text(row["name"]), {**self._span(row), **call})

    def operators(self) -> None:
        """PYTORCH_API."""
        columns = (
            "startNs",
            "endNs",
            "globalTid",
            "name",
            "sequenceNumber",
            "inputShapes",
            "inputDtypes",
            "fwdThreadId",
        )
        for row in self._pieces("PYTORCH_API", *columns):
            thread, process = self._thread(row["globalTid"] or 0)
            more = {"input_types": self._text(row["inputDtypes"]) if row["inputDtypes"] is not None else None}
            said = {key: value for key, value in more.items() if value}
            sequence = row["sequenceNumber"]
            self.recording.rows.add(
                "op",
                **self._span(row),
                name_id=self._target.name(self._text(row["name"])),
                sequence=sequence if sequence is not None and 0 <= sequence < NONE else None,
                shapes=self._text(row["inputShapes"]) or None,
                attributes=json.dumps(said) if said else None,
                thread=thread,
                process=process,
            )

    def ranges(self) -> None:
        """MSTX_EVENTS."""
        kinds = self._enumeration("ENUM_MSTX_EVENT_TYPE") or _MSTX
        for row in self._pieces(
            "MSTX_EVENTS", "startNs", "endNs", "eventType", "message", "globalTid", "domainId"
        ):
            thread, process = self._thread(row["globalTid"] or 0)
            kind = kinds.get(row["eventType"], "marker")
            span = self._span(row)
            instant = kind.startswith("marker")
            domain = self._text(row["domainId"]) if row["domainId"] not in (None, 0, NONE, 65535) else None
            self.recording.rows.add(
                "marker",
                start=span["start"],
                duration=None if instant else span["duration"],
                kind="instant" if instant else "push/pop" if kind.startswith("push") else "start/end",
                open=False,
                name_id=self._target.name(self._text(row["message"])),
                domain=domain,
                source="mstx",
                thread=thread,
                process=process,
            )

    def collectives(self) -> None:
        """COMMUNICATION_OP."""
        types = self._enumeration("ENUM_HCCL_DATA_TYPE")
        places = {
            (row["globalPid"], row["deviceId"]) for row in self._pieces("TASK", "globalPid", "deviceId")
        }
        pid, number = next(iter(places)) if len(places) == 1 else (0, 0)
        device = self.recording.device(number or 0, self._npus.get(number or 0, ""), self._host)
        place = self.recording.place(self._process(pid or 0), device, NO_STREAM)
        columns = ("opName", "opType", "startNs", "endNs", "connectionId", "groupName", "dataType", "count")
        for row in self._pieces("COMMUNICATION_OP", *columns):
            self.recording.collective(
                self._text(row["opType"]) or self._text(row["opName"]),
                {**self._span(row), **place, "correlation": _connection(row["connectionId"])},
                number=row["connectionId"] or 0, count=row["count"] or 0, dtype=types.get(row["dataType"], ""),
                group=self._text(row["groupName"]),
            )  # fmt: skip

    def frequency(self) -> None:
        """AICORE_FREQ in MHz."""
        for row in self._pieces("AICORE_FREQ", "deviceId", "timestampNs", "freq"):
            if row["timestampNs"] is None or row["freq"] is None:
                continue
            device = self.recording.device(
                row["deviceId"] or 0, self._npus.get(row["deviceId"] or 0, ""), self._host
            )
            self.recording.rows.add(
                "counter",
                time=row["timestampNs"],
                name="AI Core frequency",
                value=float(row["freq"]),
                unit="MHz",
                device=device,
                source="msprof",
            )


def _connection(number: int | None) -> int | None:
    return None if number is None or number == NONE else number

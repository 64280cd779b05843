"""The parts that the three forms of Ascend's results share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import RowBuffer

if TYPE_CHECKING:
    from warpsight.formats.target import Target

#: "No connection", "no model": all bits of a 32-bit number.
NONE = 4294967295
#: The stream of collectives whose tasks are not in the file.
NO_STREAM = -1
_COPIES = {
    "host to host": "HtoH", "host to device": "HtoD", "device to host": "DtoH", "device to device": "DtoD",
    "addr device to device": "DtoD", "host to device ex": "HtoD", "device to host ex": "DtoH",
}  # fmt: skip
#: Work of engines that copy, and reduce while they copy.
_COPIED = re.compile(r"(SDMA|PCIE_DMA)$|.*MEMC(O?)PY|REDUCE_ASYNC")
#: Task types that do no work: marks in a stream, and values written for another device that waits.
_NO_WORK = ("PLACE_HOLDER", "WRITE_VALUE")
#: Task types of versions of CANN that have the type in the name.
_NO_TYPE = ("", "OTHER", "N/A")
_SIDES = {"H": "host", "D": "device", "u": "unknown"}
_ELEMENT = {
    "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "FP16": 2, "BFP16": 2, "INT32": 4, "UINT32": 4, "FP32": 4, "INT64": 8,
    "UINT64": 8, "FP64": 8, "INT128": 16,
}  # fmt: skip


def element_bytes(dtype: str) -> int:
    """Bytes of an element of an HCCL type; 0 for an unknown one."""
    return _ELEMENT.get(dtype.upper(), 0)


class MsprofRecording:
    """Tasks being added to the tables of their types."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.rows = RowBuffer(target)
        #: Kernels added so far by this recording, for attributes.
        self.kernels = target.rows.get("kernel", 0)
        #: Connection ids of the collectives; their tasks are parts of them.
        self.collectives: frozenset[int] = frozenset()
        self._parts: dict[int, dict[str, Any]] = {}
        self._without_work: dict[str, int] = {}

    def device(self, number: int, name: str = "", host: str = "") -> int:
        """Device id of an NPU."""
        return self.target.device(
            (self.target.scope, "npu", number), index=number, vendor="Huawei", platform="cann",
            name=name or f"Ascend NPU {number}", host=host or None,
        )  # fmt: skip

    def place(self, process: int, device: int, stream: int) -> dict[str, Any]:
        """Columns device, context, stream and process; each device gets one context, because CANN's contexts belong to tasks."""
        self.target.context(process, device, device=device, api="cann")
        return {
            "device": device,
            "context": device,
            "stream": self.target.stream(process, device, stream, device=device),
            "process": process,
        }

    def task(self, kind: str, name: str, row: dict[str, Any], *, size: int = 0, direction: str = "", blocks: int = 0,
             task: int = 0) -> None:  # fmt: skip
        """A task of some type: a copy, a wait, an event, or else a kernel."""
        upper = (name if kind.upper() in _NO_TYPE else kind).upper().replace(" ", "_").removesuffix("_SQE")
        if upper == "PLACE_HOLDER" and "EVENT_RECORD" in name.upper():
            upper = "EVENT_RECORD"
        if direction or _COPIED.match(upper):
            self._copy(row, size, direction)
        elif "WAIT" in upper:
            self.rows.add("sync", **row, kind="stream wait event", event=task)
        elif "EVENT_RECORD" in upper or "NOTIFY_RECORD" in upper:
            event = {key: value for key, value in row.items() if key not in ("start", "duration")}
            self.rows.add("event", **event, time=row["start"], event=task)
        elif upper in _NO_WORK or upper in _NO_TYPE:  # without a name either, it belongs to the runtime
            self._without_work[kind] = self._without_work.get(kind, 0) + 1
        else:
            shape = self.target.shape(grid_x=blocks, grid_y=1, grid_z=1) if blocks else None
            self.rows.add(
                "kernel", **row, name_id=self.target.name(name or kind), shape_id=shape, graph_level=False
            )
            self.kernels += 1

    def part(self, connection: int | None, row: dict[str, Any]) -> bool:
        """Whether a task is part of a collective: a wait for another rank, a transfer, a reduction.

        The first part gives the collective's stream and launching call.
        """
        if connection is None or connection not in self.collectives:
            return False
        self._parts.setdefault(connection, row)
        return True

    def collective(
        self, operation: str, row: dict[str, Any], *, number: int, count: int, dtype: str, group: str
    ) -> None:
        """A collective from its first task to its last, as one piece of device work; if it has no parts, `row` is used."""
        first = self._parts.get(number, row)
        work = {**row, **{key: value for key, value in first.items() if key not in ("start", "duration")}}
        self.rows.add("kernel", **work, name_id=self.target.name(operation), shape_id=None, graph_level=False)
        self.kernels += 1
        self.rows.add(
            "collective", start=row["start"], duration=row["duration"], operation=operation,
            bytes=count * element_bytes(dtype), dtype=dtype or None, group=group or None,
            correlation=work["correlation"], process=work["process"],
        )  # fmt: skip

    def close(self) -> None:
        """Pass on the remaining rows, and note tasks that did no work."""
        self.rows.close()
        if self._without_work:
            said = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(self._without_work.items()))
            self.target.note(f"tasks that do no work were not imported: {said}")

    def _copy(self, row: dict[str, Any], size: int, direction: str) -> None:
        kind = _COPIES.get(direction.lower(), "unknown")
        self.rows.add(
            "memcpy",
            **row,
            bytes=size,
            kind=kind,
            source_kind=_SIDES[kind[0]],
            destination_kind=_SIDES[kind[-1] if kind != "unknown" else "u"],
            asynchronous=True,
        )

    def call(self, name: str, row: dict[str, Any]) -> None:
        """A call of CANN."""
        launch = "launchkernel" in name.lower() or name.lower() == "launch" or name.startswith("KernelLaunch")
        row = {**row, "function": name}
        self.rows.add("launch" if launch else "api", **row, **({"captured": False} if launch else {}))

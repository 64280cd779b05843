"""Lines of a listing as rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from warpsight.formats.reading.trace_events import RowBuffer
from warpsight.model.naming.memory_names import MEMORY_KINDS

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

#: Any activity: kind, and the two times between brackets with a comma (new) or a dash (old).
_ACTIVITY = re.compile(
    r"^(?P<kind>CONC KERNEL|[A-Z][A-Z_0-9]*)(?P<before>[^\n]*?)\[ (?P<start>\d+) ?[-,] (?P<end>\d+) \](?P<rest>.*)$"
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DEVICE = re.compile(r'^DEVICE (?:"?(?P<name>[^"(]+?)"? \((?P<old>\d+)\)|.*?deviceId (?P<new>\d+))')
_CAPABILITY = re.compile(r"(?:capability|computeCapability) (\d+\.\d+)", re.IGNORECASE)
_DROPPED = re.compile(r"[Dd]ropped (\d+) activity records")
_SIZES = re.compile(r"(grid|block|cluster) \[ ?(\d+), ?(\d+), ?(\d+) ?\]")
_SHARED = re.compile(r"(?:shared ?memory|sharedMemory) \(static (\d+), dynamic (\d+)\)")
_COPY = re.compile(r"\b([HDAP])to([HDAP])\b")
#: Numbers of the calls that launch (cupti_runtime_cbid.h, cupti_driver_cbid.h): old listings have only numbers.
_LAUNCHES = {
    ("RUNTIME", 13): "cudaLaunch", ("RUNTIME", 211): "cudaLaunchKernel", ("RUNTIME", 214): "cudaLaunchKernel_ptsz",
    ("RUNTIME", 269): "cudaLaunchCooperativeKernel", ("RUNTIME", 311): "cudaGraphLaunch",
    ("RUNTIME", 430): "cudaLaunchKernelExC", ("DRIVER", 115): "cuLaunch", ("DRIVER", 116): "cuLaunchGrid",
    ("DRIVER", 307): "cuLaunchKernel", ("DRIVER", 442): "cuLaunchKernel_ptsz", ("DRIVER", 514): "cuGraphLaunch",
    ("DRIVER", 652): "cuLaunchKernelEx",
}  # fmt: skip
_LAUNCH_NAME = re.compile(r"^_*cu(da)?(Graph)?Launch(?!HostFunc)")
_VERSION = re.compile(r"_v\d{4,5}$")


def read_listing(source: Source, target: Target) -> None:
    """Read one listing.

    Raises:
        FormatError: when no line of it is an activity.
    """
    reader = _Reader(target)
    count = 0
    with source.open() as file:
        block: list[str] = []
        for raw in file:
            line = raw.decode("utf-8", "replace").rstrip("\r\n")
            if line[:1] in ("\t", " ") and block:
                block.append(line.strip())
                continue
            count += reader.take(block)
            block = [line]
        count += reader.take(block)
    if not count:
        raise source.error("has no line of an activity", line=1)
    reader.close()
    target.source.update(tool="CUPTI samples", clock="ns as the listing counts them")


class _Reader:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._rows = RowBuffer(target)
        self._left_out: dict[str, int] = {}
        self._calls = 0

    def take(self, block: list[str]) -> int:
        """Read one activity: its first line and the indented lines below it; returns 1 if there is one."""
        if not block:
            return 0
        text = " ".join(block)
        dropped = _DROPPED.search(text)
        if dropped:
            self._target.lost(int(dropped[1]), "CUPTI dropped activity records", "cupti")
            return 0
        if block[0].startswith("DEVICE "):
            return self._announce(text)
        found = _ACTIVITY.match(block[0])
        if found is None:
            return 0
        kind = found["kind"].strip()
        rest = " ".join([found["before"], found["rest"], *block[1:]])
        row = {"start": int(found["start"]), "duration": int(found["end"]) - int(found["start"])}
        if kind in ("KERNEL", "CONC KERNEL", "CONCURRENT_KERNEL"):
            self._kernel(rest, row)
        elif kind in ("RUNTIME", "DRIVER"):
            self._call(kind, rest, row)
        elif kind.startswith("MEMCPY"):
            self._copy(rest, row)
        elif kind == "MEMSET":
            self._fill(rest, row)
        elif kind.startswith("OVERHEAD"):
            self._overhead(f"{kind[8:]} {found['before']}", rest, row)
        else:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
        return 1

    def close(self) -> None:
        """Pass on the remaining rows, and note records that fit nowhere."""
        self._rows.close()
        if self._left_out:
            said = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(self._left_out.items()))
            self._target.note(f"activities that were not imported: {said}")

    def _announce(self, text: str) -> int:
        found = _DEVICE.match(text)
        if found is None:
            return 0
        number = int(found["old"] or found["new"])
        name = found["name"] or (_QUOTED.search(text) or ["", ""])[1]
        capability = _CAPABILITY.search(text)
        self._device(
            number, name=name.strip() or None, compute_capability=capability[1] if capability else None
        )
        return 1

    def _device(self, number: int, **columns: object) -> int:
        key = (self._target.scope, "cuda", number)
        return self._target.device(key, index=number, vendor="NVIDIA", platform="cuda", **columns)

    def _place(self, rest: str) -> dict[str, Any]:
        device = self._device(_number(rest, "device", "deviceId") or 0)
        process = self._target.process(_number(rest, "process", "processId") or 0)
        context = self._target.context(process, _number(rest, "context", "contextId") or 0, device=device)
        stream = self._target.stream(
            process, context, _number(rest, "stream", "streamId") or 0, device=device
        )
        graph, node = _number(rest, "graphId"), _number(rest, "graphNodeId")
        return {
            "device": device,
            "context": context,
            "stream": stream,
            "process": process,
            "correlation": _number(rest, "correlation", "correlationId"),
            "graph": graph if graph and graph < 2**31 else None,
            "graph_node": node or None,
        }

    def _kernel(self, rest: str, row: dict[str, Any]) -> None:
        name = _QUOTED.search(rest)
        self._rows.add(
            "kernel",
            **row,
            **self._place(rest),
            name_id=self._target.name(name[1] if name else "unknown"),
            shape_id=self._shape(rest),
            graph_level=False,
        )

    def _shape(self, rest: str) -> int | None:
        found = {what: (int(x), int(y), int(z)) for what, x, y, z in _SIZES.findall(rest)}
        if not found:
            return None
        shared = _SHARED.search(rest)
        columns = {
            f"{what}_{axis}": size
            for what, sizes in found.items()
            for axis, size in zip("xyz", sizes, strict=True)
        }
        return self._target.shape(
            **columns,
            registers=_number(rest, "registersPerThread", "registers") or 0,
            shared_static=int(shared[1]) if shared else 0,
            shared_dynamic=int(shared[2]) if shared else 0,
        )

    def _copy(self, rest: str, row: dict[str, Any]) -> None:
        kind = _COPY.search(rest)
        self._rows.add(
            "memcpy",
            **row,
            **self._place(rest),
            bytes=_number(rest, "size", "bytes") or 0,
            kind=kind[0] if kind else "unknown",
            source_kind=MEMORY_KINDS.get(_number(rest, "srcKind") or 0, "unknown"),
            destination_kind=MEMORY_KINDS.get(_number(rest, "dstKind") or 0, "unknown"),
            asynchronous=False,
        )

    def _fill(self, rest: str, row: dict[str, Any]) -> None:
        self._rows.add(
            "memset",
            **row,
            **self._place(rest),
            bytes=_number(rest, "size", "bytes") or 0,
            value=_number(rest, "value") or 0,
            memory_kind="unknown",
            asynchronous=False,
        )

    def _call(self, kind: str, rest: str, row: dict[str, Any]) -> None:
        number = _number(rest, "cbid") or 0
        quoted = _QUOTED.search(rest)
        name = (
            _VERSION.sub("", quoted[1])
            if quoted
            else _LAUNCHES.get((kind, number), f"{kind.lower()} function {number}")
        )
        process = self._target.process(_number(rest, "process", "processId") or 0)
        launch = bool(_LAUNCH_NAME.match(name))
        call = {
            **row,
            "function": name,
            "thread": self._target.thread(process, _number(rest, "thread", "threadId") or 0),
            "correlation": _number(rest, "correlation", "correlationId"),
            "process": process,
        }
        self._rows.add("launch" if launch else "api", **call, **({"captured": False} if launch else {}))

    def _overhead(self, kind: str, rest: str, row: dict[str, Any]) -> None:
        words = kind.replace("_", " ").lower().strip() or "unknown"
        thread = _number(rest, "threadId", "id")
        process = self._target.process(_number(rest, "processId", "process") or 0)
        self._rows.add(
            "overhead",
            **row,
            kind=words,
            thread=None if thread is None else self._target.thread(process, thread),
            process=process,
        )


def _number(text: str, *names: str) -> int | None:
    """The number after one of these words: `stream 7`, `streamId 7`, `value=0`."""
    for name in names:
        found = re.search(rf"(?<![A-Za-z]){name}[ =:]+(\d+)", text)
        if found and len(found[1]) < 20:
            return int(found[1])
    return None

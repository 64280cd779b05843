"""CUTracer's NDJSON into the tables `instruction`, `warp_event`, `access`, `register` and `launch`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from warpsight.formats.registry import Coverage, Options
from warpsight.formats.source import Source
from warpsight.formats.target import Target
from warpsight.formats.writing import clp
from warpsight_plugins.cutracer import records
from warpsight_plugins.cutracer.lines import Chunk, chunks

COVERAGE = Coverage(
    kept=(
        "instruction table; each record with launch, block, warp, instruction, time and active mask",
        "addresses, values and registers lane by lane; other fields as JSON in `attributes`",
        "kernel events: launches with shape, host stack and order",
    ),
    lost=(
        "device time: `time` is when the host received a record; kernel events have no times and stand 1 ns "
        "apart",
    ),
    tested=("versions 0.1 to 0.4, written after the field lists",),
)
_KINDS = "|".join(
    ("kernel_metadata", "kernel_launch", "callstack_def", "capture_completion", *records.EVENTS)
)
_TYPE = re.compile(rb'"type"\s*:\s*"(?:' + _KINDS.encode() + rb')"')
_COMMON = {
    "type", "ctx", "trace_index", "timestamp", "grid_launch_id", "cta", "warp", "opcode_id", "pc", "active_mask",
    "regs", "regs_indices", "uregs", "uregs_indices", "addrs", "values", "mem_space", "is_load", "access_size",
}  # fmt: skip
_LANES = np.arange(32, dtype=np.int8)


def sniff(source: Source) -> bool:
    """A first line with one of the format's record types, or a CLP archive."""
    if clp.is_archive(source):
        return True
    head = source.head.lstrip()
    first = head[: head.find(b"\n")] if b"\n" in head else head
    return first.startswith(b"{") and bool(_TYPE.search(first) or _TYPE.search(first[-400:]))


def read(source: Source, target: Target, options: Options) -> None:
    """Read a trace, up to the cut if it is truncated.

    Raises:
        FormatError: for a line inside the file that is not a record, with its number.
    """
    if clp.is_archive(source):
        with clp.source_of(source.path) as unpacked:
            read(unpacked, target, options)
        return
    reading = _Reading(source, target)
    for chunk in chunks(source):
        reading.take(chunk)
    if not reading.records:
        raise source.error("not a record of an instruction trace")
    if source.truncated:
        target.lost(1, f"{source.damage}; what came before was read", "warp_event")
    reading.check_completion()


class _Reading:
    """The describing records, and rows as they arrive."""

    def __init__(self, source: Source, target: Target) -> None:
        self._source = source
        self._target = target
        self._process = target.process(source.path.stem.split(".")[0])
        self._kernel: int | None = None
        #: Kernels whose instruction table has been added, and the description of the current one.
        self._tables: set[int | None] = set()
        self._described: dict[str, Any] = {}
        self._stacks: dict[str, int | None] = {}
        self._completion: dict[str, Any] = {}
        self._launches = 0
        self._unnumbered = False
        self.records = 0

    def take(self, chunk: Chunk) -> None:
        """Rows of one chunk."""
        events: list[dict[str, Any]] = []
        first = number = chunk.first
        for number, record in self._decoded(chunk):
            self.records += 1
            if record.get("type") in records.EVENTS:
                events.append(record)
                continue
            if record.get("type") == "kernel_metadata":  # earlier records belong to another kernel
                self._add_events(events, first, number)
                events, first = [], number
            try:
                self._describe(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise self._source.error(f"does not match its type: {error!r}", line=number) from None
        self._add_events(events, first, number)

    def _add_events(self, events: list[dict[str, Any]], first: int, last: int) -> None:
        try:
            self._events(events)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._source.error(
                f"a record in lines {first} to {last} does not match its type: {error!r}", line=first
            ) from None

    def _decoded(self, chunk: Chunk) -> Iterator[tuple[int, dict[str, Any]]]:
        ends = chunk.ends()
        for place, number in enumerate(chunk.numbers(ends).tolist()):
            line = chunk.line(place, ends)
            try:
                record = msgspec.json.decode(line)
                if not isinstance(record, dict):
                    raise ValueError("not an object")
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                if chunk.open_end and place == len(ends) - 1:
                    self._source.ended_early(f"the last record (line {number}) is cut off")
                    return
                raise self._source.error(f"no JSON object: {error}", line=number) from None
            yield number, record

    def _describe(self, record: dict[str, Any]) -> None:
        kind = record.get("type")
        if kind == "kernel_metadata":
            self._kernel = self._target.name(str(record.get("mangled_name", "?")))
            self._add_instructions(record)
        elif kind == "callstack_def":
            self._stacks[str(record["callstack_id"])] = self._stack(
                record["frames"], str(record.get("source"))
            )
        elif kind == "kernel_launch":
            self._add_launch(record)
        elif kind == "capture_completion":
            self._completion = record
        else:
            self._target.lost(1, f"a record of unknown type {kind!r}", "warp_event")

    def _add_instructions(self, record: dict[str, Any]) -> None:
        described = {k: v for k, v in record.items() if k not in ("instructions", "type")}
        self._described = described
        self._target.source.setdefault("kernels", []).append(described)
        rows = [
            {
                "name_id": self._kernel,
                "grid_launch": 0,
                "opcode": int(key),
                "sass": str(entry.get("sass", "")),
                "binary": entry.get("binary"),
                "registers": json.dumps(entry.get("regs")) if entry.get("regs") is not None else None,
                "uniform_registers": json.dumps(entry.get("uregs"))
                if entry.get("uregs") is not None
                else None,
                "process": self._process,
            }
            for key, entry in (record.get("instructions") or {}).items()
        ]
        if rows and self._kernel not in self._tables:
            self._target.add("instruction", rows)
            self._tables.add(self._kernel)

    def _stack(self, frames: list[str], source: str) -> int | None:
        """Python stacks are written outermost first, stacks of `backtrace` innermost first."""
        return self._target.stack(list(map(str, reversed(frames) if source == "backtrace" else frames)))

    def _add_launch(self, record: dict[str, Any]) -> None:
        if not self._launches:
            self._target.note("kernel events have no times: launches are kept in order, one nanosecond apart")
        self._launches += 1
        grid, block = record["grid"], record["block"]
        stack = self._stacks.get(str(record.get("callstack_id")))
        if record.get("cpu_callstack"):
            stack = self._stack(record["cpu_callstack"], str(record.get("cpu_callstack_source")))
        shape = self._target.shape(
            grid_x=int(grid[0]), grid_y=int(grid[1]), grid_z=int(grid[2]), block_x=int(block[0]), block_y=int(block[1]),
            block_z=int(block[2]), registers=int(record.get("nregs") or 0), shared_dynamic=int(record.get("shmem") or 0),
        )  # fmt: skip
        row = {
            "start": self._launches, "duration": None, "function": "cuLaunchKernel",
            "thread": self._target.thread(self._process, 0), "correlation": int(record["kernel_launch_id"]),
            "process": self._process, "stack": stack, "name_id": self._target.name(str(record["kernel_name"])),
            "shape_id": shape, "captured": False,
        }  # fmt: skip
        self._target.add("launch", [row])

    def _events(self, events: list[dict[str, Any]]) -> None:
        if not events:
            return
        if any("opcode_id" not in e and "ctx" not in e for e in events):
            raise self._source.error(
                "holds samples of cuda-gdb, which have no launch, instruction number or time to make tables of; "
                "`warpsight sass query` and `sass warps` read the file itself"
            )
        cta = np.array([e["cta"] for e in events], np.int64)
        if cta.shape != (len(events), 3):
            raise ValueError("cta is not three numbers")
        context = self._described.setdefault("ctx", events[0].get("ctx"))
        launch, index = _numbers(events, "grid_launch_id"), _numbers(events, "trace_index")
        self._target.add(
            "warp_event",
            {
                "grid_launch": launch, "event": index, "kind": [e["type"] for e in events],
                "time": _numbers(events, "timestamp"), "cta_x": cta[:, 0], "cta_y": cta[:, 1], "cta_z": cta[:, 2],
                "warp": _numbers(events, "warp"), "opcode": _numbers(events, "opcode_id"),
                "pc": [int(str(e["pc"]), 0) for e in events],
                "active_mask": [None if e.get("active_mask") is None else int(str(e["active_mask"]), 16) for e in events],
                "name_id": [self._kernel] * len(events), "attributes": [_others(e, context) for e in events],
                "process": np.full(len(events), self._process),
            },
        )  # fmt: skip
        self._add_sass(events)
        self._add_accesses([e for e in events if "addrs" in e])
        self._add_registers([e for e in events if "regs" in e or "uregs" in e])

    def _add_sass(self, events: list[dict[str, Any]]) -> None:
        """Add the instruction table of old files, which repeat the text in every record."""
        if self._kernel in self._tables:
            return
        seen = {int(e["opcode_id"]): str(e["sass"]) for e in events if e.get("sass")}
        if not seen:
            return
        self._tables.add(self._kernel)
        self._target.add(
            "instruction",
            [
                {"name_id": self._kernel, "grid_launch": 0, "opcode": k, "sass": v, "process": self._process}
                for k, v in sorted(seen.items())
            ],
        )

    def _add_accesses(self, events: list[dict[str, Any]]) -> None:
        if not events:
            return
        count = len(events)
        addresses = np.array([e["addrs"] for e in events], np.uint64)
        if addresses.shape != (count, 32):
            raise ValueError("addrs is not 32 numbers")
        words: list[list[int | None]] = [[], [], [], []]
        for event in events:
            lanes = event.get("values") or [[]] * 32
            for word, column in enumerate(words):
                column.extend(lane[word] if word < len(lane) else None for lane in lanes)
        columns = {f"value{word}": column for word, column in enumerate(words)}
        self._target.add("access", {
            **self._lanes(events, 32), "lane": np.tile(_LANES, count), "address": addresses.ravel(),
            "space": _spread(events, "mem_space"), "is_load": _spread(events, "is_load"),
            "bytes": _spread(events, "access_size"), **columns,
        })  # fmt: skip

    def _add_registers(self, events: list[dict[str, Any]]) -> None:
        for name, indices, uniform in (("regs", "regs_indices", False), ("uregs", "uregs_indices", True)):
            chosen = [e for e in events if e.get(name) and e.get(indices) is not None]
            if len(chosen) < sum(1 for e in events if e.get(name)) and not self._unnumbered:
                self._unnumbered = True
                self._target.note(
                    "registers of early versions have no numbers: they are kept in `attributes`"
                )
            if not chosen:
                continue
            per = [len(e[indices]) for e in chosen]
            lanes = 1 if uniform else 32
            values = np.concatenate([np.array(e[name], np.uint32).ravel() for e in chosen])
            numbers = np.concatenate([np.repeat(np.array(e[indices], np.int16), lanes) for e in chosen])
            if len(values) != len(numbers):
                raise ValueError(f"{name} and {indices} do not fit")
            repeat = np.array(per) * lanes
            self._target.add("register", {
                "grid_launch": np.repeat(_numbers(chosen, "grid_launch_id"), repeat),
                "event": np.repeat(_numbers(chosen, "trace_index"), repeat), "register": numbers,
                "uniform": np.full(len(values), uniform),
                "lane": [None] * len(values) if uniform else np.tile(_LANES, len(values) // 32), "value": values,
                "process": np.full(len(values), self._process),
            })  # fmt: skip

    def _lanes(self, events: list[dict[str, Any]], lanes: int) -> dict[str, Any]:
        return {
            "grid_launch": np.repeat(_numbers(events, "grid_launch_id"), lanes),
            "event": np.repeat(_numbers(events, "trace_index"), lanes),
            "process": np.full(len(events) * lanes, self._process),
        }

    def check_completion(self) -> None:
        """Note the losses that the capture itself reports."""
        said = self._completion
        if said and (said.get("status") != "complete" or said.get("dropped_records")):
            dropped = said.get("dropped_records")
            count = dropped if isinstance(dropped, int) else 0
            self._target.lost(count, f"the capture says it is {said.get('status')}", "warp_event")


def _numbers(events: list[dict[str, Any]], name: str) -> npt.NDArray[np.int64]:
    return np.array([e[name] for e in events], np.int64)


def _spread(events: list[dict[str, Any]], name: str) -> list[Any]:
    return [value for e in events for value in [e.get(name)] * 32]


def _others(event: dict[str, Any], context: object) -> str | None:
    rest = {key: value for key, value in event.items() if key not in _COMMON and key != "sass"}
    rest |= {
        name: event[name] for name in ("regs", "uregs") if name in event and f"{name}_indices" not in event
    }
    if event.get("ctx") != context:
        rest["ctx"] = event.get("ctx")
    return json.dumps(rest) if rest else None

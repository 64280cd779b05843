"""Events of unitrace and onetrace as rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.reading.trace_events import (
    Pairs,
    RowBuffer,
    TraceEvent,
    events,
    names,
    range_row,
    whole,
)

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

_WHO = re.compile(r"^(?:RANK (?P<rank>\d+) )?(?P<side>HOST|DEVICE)<(?P<host>[^>]*)>(?P<rest>.*)$")
#: `[Intel(R) Data Center GPU Max 1550] 0:29:0:0 #0`, `#0.1` for a tile.
_CARD = re.compile(
    r"(?:\[(?P<name>.*)\] )?(?P<pci>[0-9a-f]+:[0-9a-f]+:[0-9a-f]+:[0-9a-f]+) #(?P<number>\d+)(?:\.(?P<tile>\d+))?"
)
_LAUNCH_NAME = re.compile(
    r"^(?P<name>.*?)\[(?:SIMD(?P<simd>\w+))? ?\{(\d+); (\d+); (\d+)\} \{(\d+); (\d+); (\d+)\}\]$", re.DOTALL
)
_SIZE_NAME = re.compile(r"^(?P<name>.*)\[(?P<size>\d+)\]$", re.DOTALL)
_DIRECTION = re.compile(r"\(([DHMS])2([DHMS])\)|MemoryCopy\w*?([DHMS])2([DHMS])")
_CALL = re.compile(r"^(ze[a-z]?|cl|ur|pi|zex)[A-Z]\w*$")
_LAUNCH = re.compile(
    r"AppendLaunch\w*Kernel|EnqueueNDRangeKernel|EnqueueTask|EnqueueKernelLaunch|EnqueueCooperativeKernel"
)
_FLOW = re.compile(r"^(?:CL_)?Flow_H2D_(\d+)_")
_SIDES = {"D": "device", "H": "pinned", "M": "pageable", "S": "managed"}


class UnitraceReader:
    """One file."""

    def __init__(self, source: Source, target: Target) -> None:
        self._source = source
        self._target = target
        self._rows = RowBuffer(target)
        self._names = names(source)
        self._hosts: dict[tuple[str, str], int] = {}
        self._processes: dict[Any, int] = {}
        self._devices: dict[Any, tuple[int, int]] = {}
        self._calls: list[tuple[TraceEvent, bool]] = []
        self._flows: list[tuple[Any, Any, int, int]] = []
        for pid, text in self._names.processes.items():
            self._announce(pid, text)

    def _announce(self, pid: object, text: str) -> None:
        who = _WHO.match(text)
        if who is None:
            self._processes[pid] = self._target.process(pid, command=text)
        elif who["side"] == "HOST":
            rank = int(who["rank"]) if who["rank"] else None
            self._processes[pid] = self._target.process(pid, host=who["host"], rank=rank)
            self._hosts.setdefault((who["rank"] or "", who["host"]), self._processes[pid])

    def _process(self, pid: object) -> int:
        found = self._processes.get(pid)
        if found is None:
            found = self._processes[pid] = self._target.process(pid)
        return found

    def _device(self, pid: object) -> tuple[int, int]:
        """(process, device) of a device's pseudo-process."""
        found = self._devices.get(pid)
        if found is not None:
            return found
        who = _WHO.match(self._names.processes.get(pid, ""))
        host, rank = (who["host"], who["rank"] or "") if who else ("", "")
        process = self._hosts.get((rank, host), next(iter(self._hosts.values()), -1))
        if process < 0:
            process = self._process(pid)
        card = _CARD.search(who["rest"]) if who else None
        tile = f" tile {card['tile']}" if card and card["tile"] else ""
        place = card["pci"].split(":") if card else []
        device = self._target.device(
            (host, card["pci"], card["tile"]) if card else (self._target.scope, "device", pid),
            index=int(card["number"]) if card else None,
            name=f"{card['name'] or 'Intel GPU'}{tile}" if card else "Intel GPU",
            vendor="Intel", platform="level zero", host=host or None,
            pci=f"{int(place[0], 16):04x}:{int(place[1], 16):02x}:{int(place[2], 16):02x}.{int(place[3], 16):x}"
            if place else None,
        )  # fmt: skip
        self._devices[pid] = (process, device)
        return process, device

    def read(self) -> None:
        """All events."""
        pairs = Pairs()
        for event in events(self._source, self._target):
            if event.phase in ("B", "E"):
                found = pairs.take(event)
                if found is not None:
                    self._host_event(found)
            elif event.phase == "s":
                flow = _FLOW.match(event.category)
                if flow:
                    self._flows.append((event.pid, event.tid, event.start, int(flow[1])))
            elif event.phase in ("X", "R", "i", "I"):
                if self._on_device(event):
                    self._device_event(event)
                else:
                    self._host_event(event)
        for event in pairs.rest():
            self._range(event, still_open=True)
        self._write_calls()
        self._rows.close()
        self._target.source.update(
            tool="unitrace", clock="ns since 1970 (unitrace), since the start (onetrace)"
        )

    def _on_device(self, event: TraceEvent) -> bool:
        if event.category:
            return event.category == "gpu_op"
        # onetrace has neither: its device events run on a queue or a kernel's own row, never on a thread's number.
        return "id" in event.args and not isinstance(event.tid, int)

    def _device_event(self, event: TraceEvent) -> None:
        process, device = self._device(event.pid)
        self._target.context(process, device, device=device, api="level zero")
        name = self._names.threads.get((event.pid, event.tid))
        row = {
            "start": event.start,
            "duration": max(event.duration, 0),
            "device": device,
            "context": device,
            "stream": self._target.stream(
                process, device, event.tid, device=device, name=name or str(event.tid)
            ),
            "correlation": whole(event.args.get("id")),
            "process": process,
        }
        sized = _SIZE_NAME.match(event.name)
        text, size = (sized["name"], int(sized["size"])) if sized else (event.name, 0)
        if (
            "MemoryCopy" in text
            or "EnqueueCopy" in text
            or "Memcpy" in text
            or "clEnqueueRead" in text
            or "clEnqueueWrite" in text
        ):
            self._copy(text, size, row)
        elif "MemoryFill" in text or "EnqueueFill" in text:
            self._rows.add("memset", **row, bytes=size, value=0, memory_kind="unknown", asynchronous=True)
        elif _CALL.match(text.split("(")[0]) and not sized:
            self._rows.add("sync", **row, kind="barrier" if "Barrier" in text else "wait for events")
        else:
            self._kernel(event.name, row)

    def _copy(self, text: str, size: int, row: dict[str, Any]) -> None:
        found = _DIRECTION.search(text)
        pair = [part for part in found.groups() if part] if found else []
        if not pair and "clEnqueue" in text:
            pair = ["D", "M"] if "Read" in text else ["M", "D"] if "Write" in text else []
        sides = [{"M": "H", "S": "?"}.get(part, part) for part in pair]
        self._rows.add(
            "memcpy",
            **row,
            bytes=size,
            kind=f"{sides[0]}to{sides[1]}" if sides and "?" not in sides else "unknown",
            source_kind=_SIDES[pair[0]] if pair else "unknown",
            destination_kind=_SIDES[pair[1]] if pair else "unknown",
            asynchronous=True,
        )

    def _kernel(self, text: str, row: dict[str, Any]) -> None:
        found = _LAUNCH_NAME.match(text)
        shape = None
        if found:
            sizes = [int(part) for part in found.groups()[2:]]
            axes = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
            shape = self._target.shape(**dict(zip(axes, sizes, strict=True)))
        name = found["name"] if found else text
        self._rows.add("kernel", **row, name_id=self._target.name(name), shape_id=shape, graph_level=False)

    def _host_event(self, event: TraceEvent) -> None:
        if _CALL.match(event.name) and event.phase == "X":
            self._calls.append((event, bool(_LAUNCH.search(event.name))))
        else:
            self._range(event)

    def _range(self, event: TraceEvent, still_open: bool = False) -> None:
        process = self._process(event.pid)
        row = range_row(
            event,
            kind="instant" if event.duration < 0 and not still_open else "push/pop",
            open=still_open,
            name_id=self._target.name(event.name),
            source="framework",
            thread=self._thread(process, event),
            process=process,
        )
        self._rows.add("marker", **row)

    def _thread(self, process: int, event: TraceEvent) -> int:
        return self._target.thread(process, event.tid, self._names.threads.get((event.pid, event.tid)))

    def _write_calls(self) -> None:
        """Calls with the id of the work they submitted, which is that of the innermost call around a flow's start."""
        correlation = self._correlate()
        for number, (event, launch) in enumerate(self._calls):
            process = self._process(event.pid)
            row = {
                "start": event.start,
                "duration": max(event.duration, 0),
                "function": event.name,
                "thread": self._thread(process, event),
                "correlation": correlation.get(number, whole(event.args.get("id")) if launch else None),
                "process": process,
            }
            self._rows.add("launch" if launch else "api", **row, **({"captured": False} if launch else {}))
        self._calls.clear()

    def _correlate(self) -> dict[int, int]:
        found: dict[int, int] = {}
        by_thread: dict[tuple[Any, Any], list[int]] = {}
        for number, (event, _) in enumerate(self._calls):
            by_thread.setdefault((event.pid, event.tid), []).append(number)
        for numbers in by_thread.values():
            numbers.sort(key=lambda number: self._calls[number][0].start)
        starts = {
            who: np.array([self._calls[n][0].start for n in numbers]) for who, numbers in by_thread.items()
        }
        for pid, tid, time, identity in self._flows:
            if (pid, tid) not in starts:
                continue
            place = int(np.searchsorted(starts[pid, tid], time, "right")) - 1
            while place >= 0:
                number = by_thread[pid, tid][place]
                event = self._calls[number][0]
                if event.start + max(event.duration, 0) >= time:
                    found.setdefault(number, identity)
                    break
                place -= 1
                if time - event.start > 60_000_000_000:
                    break
        return found

"""Writes a program that has run as a warpsight trace, with what its recorder could know and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import warpsight as ws
from tests.truth import recorded
from tests.truth.execution import LAUNCH, CallLog, Execution, Item, Node, ThreadLog
from tests.truth.program import Copy, Fill, Kernel, Recorder

Rows = dict[str, list[dict[str, Any]]]


def write(execution: Execution, folder: Path) -> Path:
    """Write the trace a recorder would have made; returns its path."""
    recorder: Recorder = execution.program.recorder
    if recorder.file == "kineto":
        from tests.truth import kineto_file

        return kineto_file.write(execution, folder / "trace.json")
    path = folder / "trace.warp"
    with ws.TraceWriter(path) as writer:
        for table, rows in _Writing(execution, writer).rows().items():
            writer.add(table, rows)
        writer.describe(source={"format": "synthetic", "seed": execution.program.seed})
    return path


class _Writing:
    def __init__(self, execution: Execution, writer: ws.TraceWriter) -> None:
        self.execution = execution
        self.writer = writer
        self.with_stacks = recorded.has_call_stacks(execution)
        self._stacks: dict[Node, int | None] = {}

    def rows(self) -> Rows:
        """Rows of all tables, by table."""
        out: Rows = {"launch": [], "api": [], "sync": [], "event": []}
        for call in self.execution.calls:
            if call.seen:
                self._call(call, out)
        out |= {"kernel": [], "memcpy": [], "memset": [], "collective": [], "graph_node": [], "graph": []}
        for item in self.execution.works:
            self._work(item, out)
        self._unfinished(out)
        for log in self.execution.threads:
            self._ranges(log, out)
            self._moments(log, out)
        out["overhead"] = self._overheads()
        return out | self._definitions()

    def _stack(self, node: Node) -> int | None:
        if node not in self._stacks:
            frames = [(s.name, s.file, s.line, None, "python", None) for s in recorded.frames(node)]
            self._stacks[node] = self.writer.stack(frames, "frame chain")
        return self._stacks[node]

    def _call(self, call: CallLog, out: Rows) -> None:
        row: dict[str, Any] = {
            "start": call.begin,
            "duration": None if call.end is None else call.end - call.begin,
            "function": call.function,
            "thread": call.thread.thread.number,
            "correlation": call.correlation,
            "process": call.thread.thread.process,
            "stack": self._stack(call.node) if self.with_stacks else None,
            "result": None if call.end is None else 0,
        }
        if call.kind == LAUNCH:
            out["launch"].append(row | self._launched(call))
            return
        handle = None if call.event is None else 0x5600 + call.event.number
        out["api"].append(row | {"object": handle, "bytes": call.bytes})
        where = {"correlation": call.correlation, "process": row["process"], "context": 1}
        if call.stream:
            where |= {
                "device": call.stream.device,
                "context": call.stream.context,
                "stream": call.stream.number,
            }
        if call.waits and call.end is not None:
            event = {"event": handle, "event_sync": call.event.number if call.event else None}
            times = {"start": call.begin, "duration": call.end - call.begin, "kind": call.waits}
            out["sync"].append({"stream": -1, **times, **event, **where})
        elif call.event is not None and call.stream is not None:
            out["event"].append({"event": handle, "event_sync": call.event.number, **where})

    def _launched(self, call: CallLog) -> dict[str, Any]:
        works = [item.work for item in call.items]
        name = works[0].name if len(works) == 1 and isinstance(works[0], Kernel) else None
        named = None if name is None else self.writer.name(name)
        return {"name_id": named, "shape_id": self._shape(name), "captured": False}

    def _shape(self, name: str | None) -> int | None:
        if name is None:
            return None
        size = sum(map(ord, name))
        return self.writer.shape(grid_x=1 + size % 977, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1)

    def _where(self, item: Item) -> dict[str, Any]:
        stream, call = item.stream, item.call
        return {
            "device": stream.device,
            "context": stream.context,
            "stream": stream.number,
            "process": stream.process,
            "correlation": call.correlation,
            "stack": self._stack(call.node) if self.with_stacks and call.seen else None,
            "graph": item.graph,
            "graph_node": None if item.graph is None else item.graph * 1000 + call.items.index(item),
        }

    def _work(self, item: Item, out: Rows) -> None:
        start, end = item.times
        row = {"start": start, "duration": end - start, **self._where(item)}
        work = item.work
        if isinstance(work, Kernel):
            name = self.writer.name(work.name)
            more = {"name_id": name, "shape_id": self._shape(work.name), "graph_level": False}
            out["kernel"].append(row | more)
        elif isinstance(work, Copy):
            kinds = {"kind": work.kind, "source_kind": work.source, "destination_kind": work.destination}
            asynchronous = item.call.function.find("Async") >= 0
            out["memcpy"].append(row | kinds | {"bytes": work.bytes, "asynchronous": asynchronous})
        elif isinstance(work, Fill):
            fixed = {"value": 0, "memory_kind": "device", "asynchronous": True}
            out["memset"].append(row | fixed | {"bytes": work.bytes})

    def _unfinished(self, out: Rows) -> None:
        """Kernels that were launched and never reported: rows without times. Nodes of graphs leave nothing."""
        for item in self.execution.items:
            hidden = isinstance(item.work, Kernel) and not item.work.visible
            if hidden and item.call.seen and item.graph is None:
                row = {"start": None, "duration": None, **self._where(item), "graph_level": False}
                assert isinstance(item.work, Kernel)
                name = item.work.name
                out["kernel"].append(row | {"name_id": self.writer.name(name), "shape_id": self._shape(name)})

    def _ranges(self, log: ThreadLog, out: Rows) -> None:
        """Annotations and operators."""
        where = {"thread": log.thread.number, "process": log.thread.process}
        markers, ops = out.setdefault("marker", []), out.setdefault("op", [])
        ends: list[int] = []
        for entered in recorded.announced(self.execution, log):
            scope = entered.node.scope
            assert scope is not None
            ends = [end for end in ends if end > entered.begin]
            duration = None if entered.end is None else entered.end - entered.begin
            row = {
                "start": entered.begin,
                "duration": duration,
                "name_id": self.writer.name(scope.name),
                **where,
            }
            row["stack"] = self._stack(entered.node) if self.with_stacks else None
            if scope.kind == "op":
                ops.append(row)
                continue
            domain = {"nvtx": "default", "annotate": None, "framework": None}[scope.source]
            more = {"kind": "push/pop", "open": duration is None, "depth": len(ends), "domain": domain}
            markers.append(row | more | {"source": scope.source})
            ends.append(entered.end if entered.end is not None else 1 << 62)

    def _moments(self, log: ThreadLog, out: Rows) -> None:
        """Marks of steps, and samples."""
        where = {"thread": log.thread.number, "process": log.thread.process}
        marks = [mark for mark in log.marks if mark[0] >= self.execution.recorded_from]
        out.setdefault("user_event", []).extend(
            {
                "start": now,
                "duration": 0,
                "name": "step",
                "kind": "step",
                "attributes": f'{{"step":{n}}}',
                **where,
            }
            for n, (now, _) in enumerate(marks, 1)
        )
        out.setdefault("sample", []).extend(
            {
                "time": now,
                "stack": self._stack(node),
                "state": "R" if runs else "S",
                "gil": runs,
                **where,
            }
            for now, node, runs in recorded.samples(self.execution, log)
        )

    def _overheads(self) -> list[dict[str, Any]]:
        told = self.execution.program.recorder.names_overhead_thread
        return [
            {
                "start": overhead.begin,
                "duration": overhead.end - overhead.begin,
                "kind": overhead.kind,
                "thread": overhead.thread.thread.number if told else None,
                "process": overhead.thread.thread.process,
            }
            for overhead in self.execution.overheads
            if overhead.begin >= self.execution.recorded_from
        ]

    def _definitions(self) -> Rows:
        program = self.execution.program
        streams = sorted(
            {item.stream for item in self.execution.items},
            key=lambda s: (s.process, s.device, s.context, s.number),
        )
        devices = sorted({stream.device for stream in streams})
        contexts = sorted({(stream.process, stream.context, stream.device) for stream in streams})
        lost = sum(
            not call.seen and call.begin >= self.execution.recorded_from for call in self.execution.calls
        )
        return {
            "process": [_process(self.execution, process) for process in program.processes],
            "thread": [{"thread": t.number, "name": t.name, "process": t.process} for t in program.threads],
            "device": [_device(device, index) for index, device in enumerate(devices)],
            "context": [
                {"context": c, "device": d, "null_stream": 0, "api": "cuda", "process": p}
                for p, c, d in contexts
            ],
            "stream": [
                {"stream": s.number, "context": s.context, "device": s.device, "process": s.process}
                for s in streams
            ],
            "loss": [
                {
                    "source": "ring",
                    "cause": "the ring was full",
                    "count": lost,
                    "kind": "launch",
                    "severity": "lost",
                }
            ][: min(lost, 1)],
        }


def _process(execution: Execution, process: int) -> dict[str, Any]:
    ranks = len(execution.program.processes)
    rank = {"rank": process, "local_rank": process, "world_size": ranks} if ranks > 1 else {}
    return {
        "process": process,
        "pid": 7000 + process,
        "host": "synthetic",
        "command": f"python main.py --seed {execution.program.seed}",
        "executable": "/usr/bin/python3",
        "start": max(execution.program.begin_ns, execution.recorded_from),
        "end": execution.end,
        **rank,
    }


def _device(device: int, index: int) -> dict[str, Any]:
    return {
        "device": device,
        "index": index,
        "uuid": f"GPU-{device:08d}",
        "name": "NVIDIA Synthetic",
        "vendor": "NVIDIA",
        "platform": "cuda",
    }

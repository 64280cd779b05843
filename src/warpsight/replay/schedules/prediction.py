"""Operations as a trace: those of a capsule, and the prediction of `simulate` for another schedule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpsight.device_code.demangle import demangle
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.replay.capsule import manifest as m
from warpsight.replay.capsule.store import Capsule
from warpsight.replay.outcome import title
from warpsight.replay.schedules.sequence import OperationSequence as Steps
from warpsight.replay.schedules.sequence import sequence
from warpsight.simulate.simulation import simulate

Row = dict[str, Any]
_WHERE: Row = {"process": 0, "device": 0, "context": 1}
_EVENTS = (m.EventRecord, m.EventWait)
#: ns from a launch call's end to the kernel's begin on an idle device, as CUDA's own launches take it.
_LATENCY = 3_000
#: Range over all calls, and the change that makes one graph of them, as a replay does: `graphs` makes one per iteration.
_RANGE = "operations"
_ALL_IN_ONE = f"graphs:^{_RANGE}$"


def predicted(
    manifest: m.Manifest, steps: Steps, lengths: Sequence[int], issued: Sequence[int], what: str, folder: Path,
    gap: int = 0,
) -> float:  # fmt: skip
    """The predicted time over the time without the change.

    Args:
        manifest: the capsule's manifest.
        steps: the measured steps; earlier ones are left out.
        lengths: ns of each of them on the device.
        issued: when the host issued each, and when it had issued the last.
        what: a change of :mod:`warpsight.simulate.change`.
        folder: folder for the trace.
        gap: ns between two operations of a stream.
    """
    path = folder / "replay.warp"
    if not path.exists():
        with TraceWriter(path) as writer:
            write(writer, manifest, steps, lengths, issued, gap)
    with open_trace(path) as trace:
        found = simulate(trace, [_ALL_IN_ONE if what == "graphs" else what])
        return found.predicted_ns / found.recorded_ns


def placed(steps: Steps, lengths: Sequence[int], issued: Sequence[int], gap: int = 0) -> list[int]:
    """The time each step begins on the device, and each event occurs, ns.

    Work waits for its launch, for the previous work in its stream plus a gap, and for the stream's events.
    """
    free: dict[int, int] = {}
    events: dict[int, int] = {}
    begins = []
    for i, step in enumerate(steps.steps[steps.first :]):
        stream = step.work.stream
        if isinstance(step.work, m.EventRecord):
            begin = events[step.work.event] = max(issued[i + 1], free.get(stream, 0))
        elif isinstance(step.work, m.EventWait):
            begin = free[stream] = max(free.get(stream, 0), events.get(step.work.event, 0))
        else:
            begin = max(issued[i + 1] + _LATENCY, free[stream] + gap if stream in free else 0)
            free[stream] = begin + lengths[i]
        begins.append(begin)
    return begins


def makespan(steps: Steps, lengths: Sequence[int], issued: Sequence[int], gap: int = 0) -> int:
    """The time at which everything has ended, ns."""
    work = zip(steps.steps[steps.first :], placed(steps, lengths, issued, gap), lengths, strict=True)
    ends = (begin + length for step, begin, length in work if not isinstance(step.work, _EVENTS))
    return max(ends, default=0)


def recorded(capsule: Capsule, path: Path, *, force: bool = False) -> None:
    """Write the recorded operations as a trace, for every viewer that traces have.

    The program was held at each operation while it was recorded, so the host's times are longer than normal.
    """
    steps = sequence(capsule.manifest)
    times = [
        (0, 0) if isinstance(s.work, _EVENTS) else (s.work.device_time, s.work.host_time) for s in steps.steps
    ]
    lengths, calls = zip(*times, strict=True)
    issued = np.maximum.accumulate([*calls, max(calls)]).tolist()
    with TraceWriter(path, force=force) as writer:
        write(writer, capsule.manifest, steps, lengths, issued)
        command = " ".join(capsule.manifest.command)
        process = {
            "process": 0,
            "pid": 0,
            "host": "",
            "command": command,
            "executable": "",
            "start": min(issued),
        }
        writer.add("process", [process])


def write(
    writer: TraceWriter, manifest: m.Manifest, steps: Steps, lengths: Sequence[int], issued: Sequence[int],
    gap: int = 0,
) -> None:  # fmt: skip
    """Write operations as a trace."""
    tables: dict[str, list[Row]] = {
        name: [] for name in ("launch", "api", "kernel", "memcpy", "memset", "event", "sync", "user_event")
    }
    records: dict[int, int] = {}
    begins = placed(steps, lengths, issued, gap)
    for i, step in enumerate(steps.steps[steps.first :]):
        call = _call(i + 1, issued[i], issued[i + 1] - issued[i])
        where = {**_WHERE, "stream": step.work.stream + 1, "correlation": i + 1}
        row = {**where, "start": begins[i], "duration": lengths[i]}
        if isinstance(step.work, m.EventRecord):
            records[step.work.event] = i + 1
            tables["api"].append({**call, "function": "cudaEventRecord"})
            tables["event"].append(
                {**where, "time": begins[i], "event": step.work.event, "event_sync": i + 1}
            )
        elif isinstance(step.work, m.EventWait):
            tables["api"].append({**call, "function": "cudaStreamWaitEvent"})
            of = {"event": step.work.event, "event_sync": records.get(step.work.event, 0)}
            waited = {
                "start": call["start"],
                "duration": call["duration"],
                "kind": "stream wait event",
                "result": 0,
            }
            tables["sync"].append({**where, **of, **waited})
        else:
            tables["launch"].append({**call, "captured": False, "function": _function(step.work)})
            table, columns = _work(writer, manifest, step.work)
            tables[table].append({**row, **columns})
    last = _call(
        len(issued), issued[-1], max(makespan(steps, lengths, issued, gap) - issued[-1], 0) + _LATENCY
    )
    tables["api"].append({**last, "function": "cudaDeviceSynchronize"})
    waited = {name: last[name] for name in ("start", "duration", "correlation")}
    tables["sync"].append({**_WHERE, **waited, "kind": "context", "stream": -1, "result": 0})
    span = _call(0, issued[0], issued[-1] - issued[0])
    del span["correlation"]
    tables["user_event"].append({**span, "name": _RANGE, "kind": "range"})
    for name, rows in tables.items():
        writer.add(name, rows)
    writer.add("device", [_device(manifest.device)])


def _device(device: m.RecordedDevice) -> Row:
    return {
        "device": 0, "index": 0, "uuid": device.uuid or "0", "vendor": "NVIDIA", "platform": "cuda", "host": "",
        "name": device.name, "multiprocessors": device.multiprocessors,
        "compute_capability": "{}.{}".format(*device.compute_capability),
    }  # fmt: skip


def _call(correlation: int, start: int, duration: int) -> Row:
    return {"start": start, "duration": duration, "thread": 1, "process": 0, "correlation": correlation}


def _work(writer: TraceWriter, manifest: m.Manifest, work: m.Operation) -> tuple[str, Row]:
    """The table of an operation, and its columns there besides time and place."""
    if isinstance(work, m.Copy):
        return "memcpy", _copy(work)
    if isinstance(work, m.Set):
        size = work.count * work.element * work.rows
        return "memset", {"bytes": size, "value": work.value, "memory_kind": "device", "asynchronous": True}
    return "kernel", _kernel(writer, manifest, work)


def _kernel(writer: TraceWriter, manifest: m.Manifest, work: m.Operation) -> Row:
    if not isinstance(work, m.Launch):
        return {"name_id": writer.name(title(manifest, work)), "graph_level": True}
    grid = dict(zip(("grid_x", "grid_y", "grid_z"), work.grid, strict=True))
    block = dict(zip(("block_x", "block_y", "block_z"), work.block, strict=True))
    name = writer.name(demangle(manifest.functions[work.function].name))
    shape = writer.shape(**grid, **block, shared_dynamic=work.shared_bytes)
    return {"name_id": name, "graph_level": False, "shape_id": shape}


def _function(work: m.Operation) -> str:
    if isinstance(work, m.Copy):
        return "cudaMemcpyAsync"
    if isinstance(work, m.Set):
        return "cudaMemsetAsync"
    return "cudaLaunchKernel" if isinstance(work, m.Launch) else "cudaGraphLaunch"


def _copy(work: m.Copy) -> Row:
    sides = ["pinned" if address is None else "device" for address in (work.source, work.destination)]
    kind = "HtoD" if work.source is None else "DtoH" if work.destination is None else "DtoD"
    return {"bytes": work.bytes * work.rows, "kind": kind, "source_kind": sides[0], "destination_kind": sides[1],
            "asynchronous": True}  # fmt: skip

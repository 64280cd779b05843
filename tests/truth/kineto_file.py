"""Writes a program that has run as torch.profiler would: Kineto's JSON, with its categories and arguments."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.truth import recorded
from tests.truth.execution import CallLog, Entered, Execution, Item, ThreadLog
from tests.truth.program import Copy, Kernel

#: The process of the file; torch's files tell of one.
PID = 25286
_WAITS = {
    "stream wait event": "Stream Wait Event",
    "event": "Event Sync",
    "stream": "Stream Sync",
    "context": "Context Sync",
}
_MEMORY = {"pageable": "Pageable", "pinned": "Pinned", "device": "Device"}


def write(execution: Execution, path: Path) -> Path:
    """Write the file; returns its path."""
    assert len(execution.program.processes) == 1, "one file tells of one process"
    devices = sorted({item.stream.device for item in execution.items})
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": d, "name": "NVIDIA Synthetic", "warpSize": 32} for d in devices],
        "cuda_driver_version": 12090,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": 1751410836000000000,
        "traceName": str(path),
    }
    # Times are put in as text, because a float of microseconds would lose nanoseconds.
    events = ",\n".join(_text(event) for event in _events(execution, devices))
    path.write_text(
        f'{json.dumps(head, indent=1)[:-2]},\n"traceEvents": [\n{events}\n]}}\n', encoding="utf-8"
    )
    return path


def _text(event: dict[str, Any]) -> str:
    times = {key: event.pop(key) for key in ("ts", "dur") if key in event}
    tail = "".join(f', "{key}": {_microseconds(value)}' for key, value in times.items())
    return json.dumps(event)[:-1] + tail + "}"


def _microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def _events(execution: Execution, devices: list[int]) -> Iterator[dict[str, Any]]:
    yield _metadata(execution, PID, "process_name", {"name": "python3"})
    yield _metadata(execution, PID, "process_labels", {"labels": "CPU"})
    for device in devices:
        yield _metadata(execution, device, "process_labels", {"labels": f"GPU {device}"})
    numbers = count(1)
    for log in execution.threads:
        yield _metadata(
            execution, PID, "thread_name", {"name": f"thread {log.thread.number} ({log.thread.name})"}
        ) | {"tid": log.thread.number}
        for entered in recorded.announced(execution, log):
            yield _range(execution, entered, log, next(numbers))
        yield from _functions(execution, log)
        yield from _on_device(execution, log)
    for call in execution.calls:
        if call.seen and call.end is not None:
            yield from _call(call)
    for item in execution.works:
        yield from _work(item)
    for overhead in execution.overheads:
        yield _complete("overhead", overhead.kind.title(), "-1", 0, overhead.begin, overhead.end, {})


def _metadata(execution: Execution, pid: int, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": execution.program.begin_ns, "pid": pid, "tid": 0, "args": args}


def _complete(
    category: str, name: str, pid: Any, tid: Any, begin: int, end: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": begin,
        "dur": end - begin,
        "args": args,
    }


def _range(execution: Execution, entered: Entered, log: ThreadLog, number: int) -> dict[str, Any]:
    scope = entered.node.scope
    assert scope is not None
    category = "cpu_op" if scope.kind == "op" else "user_annotation"
    end = entered.end if entered.end is not None else execution.end
    args = {"External id": number, "Record function id": 0, "Ev Idx": number - 1}
    return _complete(category, scope.name, PID, log.thread.number, entered.begin, end, args)


def _on_device(execution: Execution, log: ThreadLog) -> Iterator[dict[str, Any]]:
    """Ranges of iterations once more, on the device's track, around the work that was launched in them."""
    works = sorted(
        (item for item in execution.works if item.call.thread is log), key=lambda item: item.call.begin
    )
    begins = [item.call.begin for item in works]
    for entered in recorded.announced(execution, log):
        scope, end = entered.node.scope, entered.end or execution.end
        own = works[bisect_left(begins, entered.begin) : bisect_left(begins, end)]
        if scope is None or scope.kind != "step" or not own:
            continue
        stream = own[0].stream
        first = min(item.times[0] for item in own)
        last = max(item.times[1] for item in own if item.stream == stream)
        yield _complete(
            "gpu_user_annotation", scope.name, stream.device, stream.number, first, max(first, last), {}
        )


def _functions(execution: Execution, log: ThreadLog) -> Iterator[dict[str, Any]]:
    """Python functions with ids of their own and of their callers."""
    callers: list[tuple[int, int]] = []  # id, end
    for number, entered in enumerate(
        recorded.functions(execution, log), 1 + 1_000_000 * execution.threads.index(log)
    ):
        scope = entered.node.scope
        assert scope is not None
        end = entered.end if entered.end is not None else execution.end
        while callers and callers[-1][1] <= entered.begin:
            callers.pop()
        args = {"Python parent id": callers[-1][0] if callers else None, "Python id": number}
        callers.append((number, end))
        name = f"{scope.file}({scope.line}): {scope.name}"
        yield _complete("python_function", name, PID, log.thread.number, entered.begin, end, args)


def _call(call: CallLog) -> Iterator[dict[str, Any]]:
    driver = call.function.startswith("cu") and not call.function.startswith("cuda")
    assert call.end is not None
    tid = call.thread.thread.number
    category = "cuda_driver" if driver else "cuda_runtime"
    args: dict[str, Any] = {"External id": 0, "cbid": 211, "correlation": call.correlation}
    yield _complete(category, call.function, PID, tid, call.begin, call.end, args)
    if call.items:
        yield _arrow("s", call.correlation, PID, tid, call.begin)
    if call.waits:
        name = _WAITS[call.waits]
        args = {"cuda_sync_kind": name, "correlation": call.correlation, "context": 1}
        args |= {"stream": call.stream.number if call.stream else -1}
        args |= {"device": call.stream.device if call.stream else 0}
        if call.event is not None:
            args |= {
                "wait_on_stream": call.event.stream.number,
                "wait_on_cuda_event_id": 0x5600 + call.event.number,
                "wait_on_cuda_event_record_corr_id": call.event.call.correlation,
            }
        yield _complete("cuda_sync", name, args["device"], args["stream"], call.begin, call.end, args)


def _work(item: Item) -> Iterator[dict[str, Any]]:
    stream, work = item.stream, item.work
    start, end = item.times
    args: dict[str, Any] = {"device": stream.device, "context": stream.context, "stream": stream.number}
    args["correlation"] = item.call.correlation
    if item.graph is not None:
        args |= {"graph id": item.graph, "graph node id": item.graph * 1000 + item.call.items.index(item)}
    if isinstance(work, Kernel):
        category, name = "kernel", work.name
        args |= {"queued": 0, "registers per thread": 32, "shared memory": 0}
        args |= {"grid": [1 + sum(map(ord, name)) % 977, 1, 1], "block": [256, 1, 1]}
    elif isinstance(work, Copy):
        sides = f"{_MEMORY[work.source]} -> {_MEMORY[work.destination]}"
        category, name = "gpu_memcpy", f"Memcpy {work.kind} ({sides})"
        args |= {"bytes": work.bytes, "memory bandwidth (GB/s)": work.bytes / max(work.ns, 1)}
    else:
        assert work is not None
        category, name = "gpu_memset", "Memset (Device)"
        args |= {"bytes": work.bytes}
    yield _complete(category, name, stream.device, stream.number, start, end, args)
    if item.call.seen:
        yield _arrow("f", item.call.correlation, stream.device, stream.number, start) | {"bp": "e"}


def _arrow(phase: str, number: int, pid: int, tid: int, now: int) -> dict[str, Any]:
    return {"ph": phase, "id": number, "pid": pid, "tid": tid, "ts": now, "cat": "ac2g", "name": "ac2g"}

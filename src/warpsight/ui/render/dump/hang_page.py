"""The report of a hang or crash as a page of text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from warpsight.device_code.demangle import demangle, short
from warpsight.ui.render.dump import summary as core

_MOST_FRAMES, _MOST_THREADS, _MOST_LAUNCHES = 24, 40, 5
_WIDTH, _MOST_PLACES = 100, 6


def text(report: dict[str, Any]) -> str:
    """The page; ends with a newline."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield report["verdict"]
    yield "=" * min(len(report["verdict"]), _WIDTH)
    if report["program"]:
        yield f"program:   {' '.join(report['program'])}"
    yield f"when:      {report['when']}, gathered in {report['gathered_s']} s"
    for number, sentence in enumerate(report["evidence"]):
        yield f"{'evidence:' if not number else '':10} {sentence}"
    for suspect in report["suspects"]:
        count = suspect["outstanding"]
        what = f", {count} launch{'es' if count != 1 else ''} outstanding" if count else ""
        yield f"process:   {suspect['pid']}: nothing completed for {suspect['quiet_s']} s{what}"
    for dump in report["dumps"]:
        yield from _dump(dump)
    yield from _errors(report)
    yield from _launches(report)
    yield from _last(report)
    for process in report["processes"]:
        yield from _process(process)
    yield ""
    if report["trace"]:
        yield f"trace of the last seconds: {report['trace']} (warpsight info, stats, export)"
    for note in report["notes"]:
        yield f"note: {note}"


def _dump(dump: dict[str, Any]) -> Iterator[str]:
    yield ""
    if dump.get("path"):
        took = f", {dump['seconds']} s" if dump.get("seconds") else ""
        yield f"GPU core dump of process {dump['pid']}: {dump['path']}{took} (warpsight core {dump['path']})"
    if dump.get("problem"):
        yield f"GPU core dump of process {dump['pid']}: {dump['problem']}"
    if dump.get("unreadable"):
        yield f"  it cannot be read: {dump['unreadable']}"
    if "core" in dump:
        for line in core.lines(dump["core"]["summary"], top=_MOST_PLACES):
            yield f"  {line}" if line else ""
    for join in dump.get("joins", []):
        yield from _join(join)


def _join(join: dict[str, Any]) -> Iterator[str]:
    launch, name = join["launch"], join.get("demangled") or join.get("kernel")
    if launch is None:
        yield f"  {name}: the launch is not known: {join['by']}"
        return
    sure = "" if join["unique"] else f", not certain: {join['candidates']} outstanding launches fit"
    yield f"  {name} was launched by thread {launch['thread']} of process {launch['pid']} (by {join['by']}{sure}):"
    yield from _frames(launch["frames"], "    ")


def _errors(report: dict[str, Any]) -> Iterator[str]:
    for error in report["errors"]:
        yield ""
        where = f"{error['function']} in thread {error['thread']} of process {error['pid']}"
        yield f"{where} returned {error['code']} ({error['meaning']}):"
        yield from _frames(error["frames"], "  ")
        yield "  errors of kernels come back from a later call: the cause is among the launches that have not completed"


def _launches(report: dict[str, Any]) -> Iterator[str]:
    total = report["launches_total"]
    if not total:
        return
    yield ""
    yield f"launches that have not completed: {total}" + (
        f", the oldest {_MOST_LAUNCHES}:" if total > _MOST_LAUNCHES else ""
    )
    for launch in report["launches"][:_MOST_LAUNCHES]:
        name = launch["demangled"] or launch["kernel"] or launch["call"]
        size = (
            f" grid {_dimensions(launch['grid'])} block {_dimensions(launch['block'])}"
            if launch["grid"]
            else ""
        )
        who = f"thread {launch['thread']} of process {launch['pid']}"
        yield f"  {name}{size}, launched {launch['before_s']:.1f} s before by {who}"
        yield from _frames(launch["frames"], "    ")


def _last(report: dict[str, Any]) -> Iterator[str]:
    if report["last_work"]:
        yield ""
        yield "last work that completed:"
        for work in report["last_work"][:_MOST_LAUNCHES]:
            took = f"{work['duration'] / 1e3:.1f} µs, process {work['pid']}"
            yield f"  {work['ended_before_s']:9.3f} s before: {work['kernel']} ({took})"
    if report["open_ranges"]:
        yield "ranges that are open:"
        for one in report["open_ranges"]:
            yield f"  {one['range']} (thread {one['thread']} of process {one['pid']}, for {one['began_before_s']:.1f} s)"


def _process(process: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield f"process {process['pid']}: {process['command'][:200]}"
    alike: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for thread in sorted(process["threads"], key=_interest):
        alike.setdefault(_standing(thread), []).append(thread)
    groups = list(alike.values())
    for group in groups[:_MOST_THREADS]:
        yield from _threads(group)
    if len(groups) > _MOST_THREADS:
        rest = sum(map(len, groups[_MOST_THREADS:]))
        yield f"  … and {rest} threads more (in the JSON report)"


def _standing(thread: dict[str, Any]) -> tuple[Any, ...]:
    """Equal for threads at the same place: a pool's workers are shown once."""
    python = tuple((frame["function"], frame["file"], frame["line"]) for frame in thread["python"])
    native = tuple((frame["module"], frame["address"]) for frame in thread["native"])
    return (thread["state"], thread["gil"], python, native) if python or native else (thread["thread"],)


def _threads(group: list[dict[str, Any]]) -> Iterator[str]:
    """Threads that share a place."""
    first = group[0]
    gil = ", holds the GIL" if first["gil"] else ""
    where = f", in the kernel at {first['kernel']}" if first["kernel"] not in ("", "0") else ""
    more = f" and {len(group) - 1} more like it" if len(group) > 1 else ""
    yield f"  thread {first['thread']} {first['name']}{more}: {core.STATES.get(first['state'], first['state'])}{gil}{where}"
    if first["python"]:
        yield "    Python:"
        yield from _frames(first["python"], "      ")
    if first["native"]:
        yield "    native:"
        yield from _native(first["native"], "      ")
    elif first.get("problem"):
        yield f"    no native stack: {first['problem']}"


def _interest(thread: dict[str, Any]) -> tuple[bool, int]:
    """Sort key that puts the program's threads before those of libraries."""
    return (not thread["python"], thread["thread"])


def _frames(frames: list[dict[str, Any]], indent: str) -> Iterator[str]:
    if not frames:
        yield f"{indent}(no host stack)"
    for frame in frames[:_MOST_FRAMES]:
        place = (
            f" ({frame['file']}{':' + str(frame['line']) if frame.get('line') else ''})"
            if frame.get("file")
            else ""
        )
        yield f"{indent}{frame['function']}{place}"
    if len(frames) > _MOST_FRAMES:
        yield f"{indent}… {len(frames) - _MOST_FRAMES} frames more"


def _native(frames: list[dict[str, Any]], indent: str) -> Iterator[str]:
    shown = [
        frame
        for frame in frames
        if not frame["function"].startswith(("_PyEval", "_PyObject", "PyObject_Vector"))
    ]
    for frame in shown[:_MOST_FRAMES]:
        function = short(demangle(frame["function"])) or hex(frame["address"])
        yield f"{indent}{function} ({os.path.basename(frame['module']) or '?'})"
    if len(shown) > _MOST_FRAMES:
        yield f"{indent}… {len(shown) - _MOST_FRAMES} frames more"


def _dimensions(values: list[int] | tuple[int, ...] | None) -> str:
    return f"({', '.join(map(str, values))})" if values else "?"

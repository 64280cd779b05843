"""XRay logs into traces: every call as a range of its thread, custom and typed events as events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.formats.registry import Coverage, Options
from warpsight_plugins.xray import function_map, records
from warpsight_plugins.xray.records import Column, XrayHeader, XrayRecords

if TYPE_CHECKING:
    from warpsight.formats.source import Source
    from warpsight.formats.target import Target

COVERAGE = Coverage(
    kept=(
        "each call as a `marker` with function, thread and depth; first arguments; custom and typed events as"
        " `user_event`",
        "names, with `--option map=FILE`",
    ),
    lost=("CPU numbers and wall-clock marks; entries and exits without their counterpart (counted)",),
    tested=("version 3 basic and 5 FDR by clang 14; versions 1, 2 and 4 written after their layout",),
)
_VERSIONS = range(1, 6)


def sniff(source: Source) -> bool:
    """Whether the header is XRay's: it has no magic number, so every field is checked."""
    if len(source.head) < records.HEADER.size:
        return False
    header = XrayHeader.unpack(source.head)
    bits = int.from_bytes(source.head[4:8], "little")
    if header.version not in _VERSIONS or header.type not in (0, 1) or header.frequency >= 1 << 36:
        return False
    # Basic mode leaves the other bits of the word as they were.
    if header.type == 1 and bits & ~3:
        return False
    body = source.head[records.HEADER.size :]
    if not body:
        return False
    if header.type == 1:
        return bool(body[0] & 1)
    return body[0] <= 1 and body[1] == 0 and body[3] <= 3 and source.path.stat().st_size >= 64


def read(source: Source, target: Target, options: Options) -> None:
    """Read a log.

    Raises:
        FormatError: for an unknown version or type, or a map that cannot be read.
    """
    with source.open() as file:
        data = file.read()
    if len(data) < records.HEADER.size:
        raise source.error(f"ends inside the header of {records.HEADER.size} bytes", offset=len(data))
    header = XrayHeader.unpack(data)
    if header.version not in _VERSIONS or header.type not in (records.BASIC, records.FDR):
        raise source.error(
            f"is XRay version {header.version} type {header.type}; versions 1 to 5 of types 0 and 1 are known",
            offset=0,
        )
    found = (records.basic if header.type == records.BASIC else records.fdr)(data, header)
    if found.damage:
        source.ended_early(found.damage)
    names = _names(source, options)
    mode = "basic" if header.type == records.BASIC else "FDR"
    target.source.update(version=f"{header.version} {mode}", clock=f"TSC at {header.frequency:,} Hz")
    if not header.frequency:
        target.note("the log does not have the TSC's frequency: times are cycles")
    _calls(target, found, header.frequency or 1_000_000_000, names)
    _events(target, found, header.frequency or 1_000_000_000)


def _names(source: Source, options: Options) -> dict[int, str]:
    path = options.get("map")
    if path is None:
        return {}
    if not Path(path).is_file():
        raise source.error(f"the map {path} does not exist")
    return function_map.read(Path(path))


def nanoseconds(tsc: Column, frequency: int) -> Column:
    """TSC values as int64 ns, computed exactly and rounded down."""
    if not len(tsc):
        return np.empty(0, np.int64)
    first = int(tsc.min())
    since = tsc - np.uint64(first)
    whole, part = since // np.uint64(frequency), since % np.uint64(frequency)
    scaled = (
        part.astype(np.float64) * 1e9 / frequency
        if frequency > 1 << 33
        else part * np.uint64(10**9) // np.uint64(frequency)
    )
    begin = (first * 10**9 // frequency) % (1 << 62)
    found: Column = (whole * np.uint64(10**9)).astype(np.int64) + scaled.astype(np.int64) + begin
    return found


def _calls(target: Target, found: XrayRecords, frequency: int, names: dict[int, str]) -> None:
    """Entries and exits as ranges."""
    if not len(found.kind):
        return
    time = nanoseconds(found.tsc, frequency)
    order = np.lexsort((np.arange(len(time)), time, found.tid))
    begin, end, depth, lost = _paired(found.kind[order], found.function[order], found.tid[order])
    begin, end = order[begin], order[end]
    if lost:
        target.lost(lost, "entries without an exit, or exits without an entry", "marker")
    function = found.function[begin]
    distinct, place = np.unique(function, return_inverse=True)
    ids = np.array([target.name(names.get(i, f"function {i}")) for i in distinct.tolist()], np.int32)
    process, thread = _processes_and_threads(target, found, begin)
    arguments: list[str | None] = [None] * len(begin)
    row_of = {row: i for i, row in enumerate(begin.tolist())} if found.arguments else {}
    for row, value in found.arguments.items():
        if row in row_of:
            arguments[row_of[row]] = f'{{"argument":{value}}}'
    count = len(begin)
    target.add("marker", {
        "start": time[begin], "duration": time[end] - time[begin], "kind": ["push/pop"] * count, "open": np.zeros(count, bool),
        "name_id": ids[place], "depth": depth.astype(np.int32), "source": ["framework"] * count, "attributes": arguments,
        "category": ["xray"] * count, "process": process, "thread": thread})  # fmt: skip


def _paired(kind: Column, function: Column, tid: Column) -> tuple[Column, Column, Column, int]:
    """Rows of entries and their exits, depths, and the number without a partner; rows are sorted by thread and time."""
    enters = (kind == records.ENTER) | (kind == records.ENTER_ARG)
    step = np.where(enters, 1, -1)
    depth = np.cumsum(step)
    starts = np.flatnonzero(np.concatenate([[True], tid[1:] != tid[:-1]]))
    base = np.repeat(
        np.concatenate([[0], depth[starts[1:] - 1]]), np.diff(np.concatenate([starts, [len(tid)]]))
    )
    level = depth - base - enters  # the same for an entry and its exit
    order = np.lexsort((np.arange(len(tid)), level, tid))
    a, b = order[:-1], order[1:]
    fits = enters[a] & ~enters[b] & (tid[a] == tid[b]) & (level[a] == level[b])
    if bool((function[a[fits]] == function[b[fits]]).all()) and 2 * int(fits.sum()) == len(tid):
        return a[fits], b[fits], level[a[fits]], 0
    return _walked(enters, function, tid)


def _walked(enters: Column, function: Column, tid: Column) -> tuple[Column, Column, Column, int]:
    """The same with missing entries or exits: an exit closes the innermost open call of its function."""
    begin, end, depth = [], [], []
    stack: list[tuple[int, int]] = []
    current, lost = None, 0
    for row, (is_entry, number, thread) in enumerate(
        zip(enters.tolist(), function.tolist(), tid.tolist(), strict=True)
    ):
        if thread != current:
            lost, current, stack = lost + len(stack), thread, []
        if is_entry:
            stack.append((row, number))
            continue
        place = next((i for i in range(len(stack) - 1, -1, -1) if stack[i][1] == number), None)
        if place is None:
            lost += 1
            continue
        lost += len(stack) - 1 - place
        begin.append(stack[place][0])
        end.append(row)
        depth.append(place)
        del stack[place:]
    lost += len(stack)
    return np.array(begin, np.int64), np.array(end, np.int64), np.array(depth, np.int64), lost


def _processes_and_threads(target: Target, found: XrayRecords, rows: Column) -> tuple[Column, Column]:
    pairs = np.stack([found.pid[rows], found.tid[rows]], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    known = [(target.process(pid), tid) for pid, tid in distinct.tolist()]
    ids = [(process, target.thread(process, tid)) for process, tid in known]
    columns = np.array(ids, np.int32).reshape(-1, 2)[place.ravel()]
    return columns[:, 0], columns[:, 1]


def _events(target: Target, found: XrayRecords, frequency: int) -> None:
    """Custom and typed events; their data as a string if it is text."""
    if not found.events:
        return
    base = int(found.tsc.min()) if len(found.tsc) else found.events[0][0]
    rows: list[dict[str, Any]] = []
    for tsc, tid, pid, kind, data in found.events:
        process = target.process(pid)
        start = nanoseconds(np.array([max(tsc, 0), base], np.uint64), frequency)[0]
        text = data.decode("utf-8", "replace")
        name = text if text.isprintable() and text else data.hex()
        kind_name = "xray custom" if kind < 0 else f"xray type {kind}"
        where = {"thread": target.thread(process, tid), "process": process}
        rows.append({"start": int(start), "duration": 0, "name": name[:4096], "kind": kind_name, **where})
    target.add("user_event", rows)

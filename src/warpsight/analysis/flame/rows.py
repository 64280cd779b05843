"""What a flame graph weighs, as columns: device work, copies, allocations or host samples, each row with its leaf."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.flame import pc_samples as flame_pc_samples
from warpsight.analysis.flame import ranges as flame_ranges
from warpsight.analysis.flame import samples as flame_samples
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import named

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace
    from warpsight.model.work import Work

Column = NDArray[Any]
#: Weight → (unit, meaning of one row).
WEIGHTS = {
    "time": ("ns", "time on the device, of kernels, copies and sets"),
    "launches": (
        "",
        "kernels launched, including those that never finished; launch calls if the trace has no kernels",
    ),
    "bytes": ("B", "bytes copied and set"),
    "idle": ("ns", "time a device did nothing, charged to the work that ended the wait"),
    "allocated": ("B", "bytes allocated"),
    "samples": ("", "samples of host threads"),
    "pc-samples": ("", "samples of warps, by line, instruction and stall reason"),
}
_COLUMNS = ("weight", "process", "device", "context", "stream", "correlation", "stack")
_SET = "'memset'"


@dataclass(frozen=True)
class Leaves:
    """Columns of equal length; `leaf` indexes `labels` and `kinds`; unknown ids are 0 (stack) or -1.

    Attributes:
        measured: The weight of the same rows, summed by SQL; the graph must give the same sum.
        without_time: Kernels that were launched but never seen running; they have no weight.
    """

    leaf: Column
    weight: Column
    process: Column
    stack: Column
    labels: Sequence[str]
    kinds: Sequence[str]
    measured: int
    without_time: int
    #: Device, context or stream of each row, if graphs can be split by it.
    place: Callable[[str], Column]
    #: When and on which host thread each row was taken, or requested.
    moments: Callable[[], tuple[Column, Column]]
    #: When each row began, ns on the trace's clock; None where rows stand for stretches of time.
    start: Column | None = None
    #: For leaves that span several frames: the labels of each, outermost first, padded with -1, shape (leaves, depth).
    paths: Column | None = None
    #: The calls that requested the rows, if all are rows of device work.
    issued: Callable[[], flame_ranges.Issued] | None = None

    def __len__(self) -> int:
        return len(self.leaf)


def load(trace: StoredTrace, rows: Rows, weight: str, names: str) -> Leaves:
    """The rows for one weight; rows that cross the window's ends are cut there (copies by time, too)."""
    if weight == "samples":
        return _samples(trace, rows)
    if weight == "pc-samples":
        return _pc_samples(trace, rows, names)
    if weight in ("time", "idle"):
        return _worked(trace, rows, weight, names)
    if weight == "allocated":
        parts = [_allocations(trace, rows)]
    elif weight == "bytes":
        parts = [_moved(trace, rows, "memcpy"), _moved(trace, rows, "memset")]
    elif _calls_alone(trace):
        return _called(trace, rows, names)
    else:
        parts = [_launched(trace, rows, names)]
    labels: list[str] = []
    kinds: list[str] = []
    columns: dict[str, list[Column]] = {name: [] for name in ("leaf", *_COLUMNS, "start")}
    for part, own, kind in parts:
        columns["leaf"].append(part["leaf"] + len(labels) if labels else part["leaf"])
        for name in (*_COLUMNS, "start"):
            columns[name].append(part[name])
        labels += own
        kinds += [kind] * len(own)
    joined = {
        name: np.concatenate([piece for piece in pieces if len(piece)] or [np.zeros(0, np.int64)])
        for name, pieces in columns.items()
    }
    measured = _measured(trace, rows, weight, joined["weight"])
    return _leaves(trace, joined, labels, kinds, measured)


def _leaves(
    trace: StoredTrace, columns: dict[str, Column], labels: list[str], kinds: list[str], measured: int
) -> Leaves:
    """Build rows of requested calls from columns."""
    leaf, weight, process, stack, start = (
        columns[name] for name in ("leaf", "weight", "process", "stack", "start")
    )
    moments = partial(flame_ranges.calls, trace, process, columns["correlation"])
    return Leaves(
        leaf, weight, process, stack, labels, kinds, measured, 0, columns.__getitem__, moments, start
    )


def _cut(rows: Rows) -> str:
    """SQL for the part of a row's duration inside the window; an end before the start counts as zero."""
    first = "start" if rows.begin is None else f"greatest(start, {int(rows.begin)})"
    last = "start + duration" if rows.end is None else f"least(start + duration, {int(rows.end)})"
    return (
        f"greatest({last} - {first}, 0)" if (first, last) != ("start", "start + duration")
        else "greatest(duration, 0)"
    )  # fmt: skip


def _where(rows: Rows, *, cut: bool) -> str:
    """Rows inside the time or (with cut) overlapping it: a kernel of 10 ms belongs to both windows it runs in."""
    if not cut or rows.begin is None:
        return rows.where()
    rest = Rows(None, rows.end, rows.devices, rows.streams, rows.processes).where()
    return f"{rest} AND (start + duration > {int(rows.begin)} OR start >= {int(rows.begin)})"


_IDS = """process, coalesce(device, -1)::SMALLINT AS device, context, stream,
    coalesce(correlation, -1) AS correlation, coalesce(stack, 0) AS stack, coalesce(start, 0) AS start"""


#: Columns of one kind of row, the labels of its leaves, and the kind.
_PartRows = tuple[dict[str, Column], list[str], str]


def _worked(trace: StoredTrace, rows: Rows, weight: str, names: str) -> Leaves:
    """Kernels with times, copies and sets, from the device work that all analyses share, ordered by start."""
    work = device_work.load(trace, replace(rows, name=None))
    labels = _names(trace, names, work.name_id)
    moved = np.flatnonzero(work.kind > device_work.COMMUNICATION)
    texts, code = _directions(trace, work, moved)
    leaf = work.name_id
    if len(moved):
        leaf = leaf.astype(np.int32)
        leaf[moved] = len(labels) + code
    kinds = ["kernel"] * len(labels) + ["set" if text == "memset" else "copy" for text in texts]
    length = work.end - work.start
    chosen: slice | Column = slice(None)
    if rows.name is not None:
        wanted = np.zeros(len(kinds), bool)
        wanted[[i for i in device_work.matching(trace, rows.name) if i < len(labels)]] = True
        wanted[len(labels) :] = [device_work.matches(trace, text, rows.name) for text in texts]
        chosen = np.flatnonzero(wanted[leaf])
    places = {"device": [-1 if q.device is None else q.device for q in work.queues],
              "context": [q.context for q in work.queues], "stream": [q.stream for q in work.queues]}  # fmt: skip

    def place(name: str) -> Column:
        found: Column = np.array(places[name], np.int64)[work.queue[chosen]]
        return found

    start = work.start[chosen]
    weights = length[chosen] if weight == "time" else _idle_before(start, length[chosen], place("device"))

    issued = cache(lambda: flame_ranges.issued(trace, work))

    def moments() -> tuple[Column, Column]:
        time, thread = issued().begun()
        return time[chosen], thread[chosen]

    return Leaves(
        leaf[chosen], weights, work.process[chosen], work.stack[chosen], labels + texts, kinds,
        _measured(trace, rows, weight, weights), _unfinished(trace, rows), place, moments, start,
        issued=issued if rows.name is None else None,
    )  # fmt: skip


def _directions(trace: StoredTrace, work: Work, moved: Column) -> tuple[list[str], Column]:
    """Names of copies and sets in the order of their tables, and the place of each row's name; pageable memory is named.

    It is slow.
    """
    texts, code = copy_names(trace, work, moved)
    first = [len(moved) + 1] * len(texts)
    for number in range(1, len(texts)):
        mine = moved[code == number]
        first[number] = int(device_work.table_rows(trace, work, mine).min()) if len(mine) else len(moved)
    order = [number for number in np.argsort(first, kind="stable").tolist() if (code == number).any()]
    place = np.zeros(len(texts), np.int64)
    place[order] = np.arange(len(order))
    return [re.sub(", pageable$", " (pageable)", texts[number]) for number in order], place[code]


def _launched(trace: StoredTrace, rows: Rows, names: str) -> _PartRows:
    """Kernels, including those that never finished; each weighs 1."""
    condition = f"{_where(rows, cut=False)}{named(trace, rows.name)}"
    table = trace.sql(
        f"SELECT coalesce(name_id, 0) AS leaf, 1::BIGINT AS weight, {_IDS} FROM kernel_ids WHERE {condition}"
    ).to_arrow_table()
    columns = _columns(table)
    return columns, _names(trace, names, columns["leaf"]), "kernel"


def _calls_alone(trace: StoredTrace) -> bool:
    """Whether launches were recorded without device records, as uprobes do."""
    return not trace.count("kernel") and trace.count("launch") > 0


def _called(trace: StoredTrace, rows: Rows, names: str) -> Leaves:
    """Calls that launched something; each weighs 1. They are named after the kernels, if known."""
    text = f"coalesce({'name' if names == 'mangled' else names}, function)"
    condition, parameters = f"NOT captured AND {rows.where(device=False, stream=False)}", {}
    if rows.name is not None:
        condition, parameters = f"{condition} AND regexp_matches({text}, $pattern)", {"pattern": rows.name}
    found = trace.sql(
        f"""SELECT {text} AS text, 1::BIGINT AS weight, process, -1::SMALLINT AS device, -1::BIGINT AS context,
            -1::BIGINT AS stream, -1::BIGINT AS correlation, coalesce(stack, 0) AS stack, start, thread
            FROM launch WHERE {condition}""", **parameters)  # fmt: skip
    columns, labels, kind = _coded(found.to_arrow_table(), "kernel")
    return _timed(columns, labels, [kind] * len(labels), len(columns["leaf"]))


def _timed(columns: dict[str, Column], labels: list[str], kinds: list[str], measured: int) -> Leaves:
    """Rows with their own timestamp and thread."""
    leaf, weight, process, stack, start, thread = (
        columns[name] for name in ("leaf", "weight", "process", "stack", "start", "thread")
    )
    moments = partial(lambda *found: found, start, thread)
    return Leaves(
        leaf, weight, process, stack, labels, kinds, measured, 0, columns.__getitem__, moments, start
    )


def _columns(table: pa.Table) -> dict[str, Column]:
    return {name: table.column(name).to_numpy() for name in table.column_names if name != "text"}


def _names(trace: StoredTrace, names: str, used: Column) -> list[str]:
    """Names by id, up to the largest id in use."""
    column = "name" if names == "mangled" else names
    known = names_of.texts(trace, column).items()
    # All names without a row in table `name` look the same.
    labels = ["?"] * (max(int(used.max(initial=0)), *(i for i, _ in known), 0) + 1)
    for i, text in known:
        labels[i] = text or "?"
    return labels


def _moved(trace: StoredTrace, rows: Rows, table: str) -> _PartRows:
    """Bytes of copies or sets: the leaf is the direction, and mentions pageable memory because it is slow."""
    text = "'memcpy ' || kind || CASE WHEN 'pageable' IN (source_kind, destination_kind) THEN ' (pageable)' ELSE '' END"
    text = text if table == "memcpy" else _SET
    condition, parameters = _where(rows, cut=False), {}
    if rows.name is not None:
        condition, parameters = f"{condition} AND regexp_matches({text}, $pattern)", {"pattern": rows.name}
    found = trace.sql(
        f"SELECT {text} AS text, bytes AS weight, {_IDS} FROM {table} WHERE {condition}", **parameters
    )
    return _coded(found.to_arrow_table(), "copy" if table == "memcpy" else "set")


def _allocations(trace: StoredTrace, rows: Rows) -> _PartRows:
    text = "coalesce(allocator, '') || CASE WHEN coalesce(tag, '') = '' THEN '' ELSE ' ' || tag END"
    condition, parameters = rows.where(time="time"), {}
    if rows.name is not None:
        condition, parameters = f"{condition} AND regexp_matches({text}, $pattern)", {"pattern": rows.name}
    sql = f"""SELECT {text} AS text, coalesce(bytes, 0) AS weight, process, coalesce(device, -1)::SMALLINT AS device,
        coalesce(context, -1) AS context, coalesce(stream, -1) AS stream, coalesce(correlation, -1) AS correlation,
        coalesce(stack, 0) AS stack, time AS start FROM memory WHERE operation = 'allocate' AND {condition}"""
    return _coded(trace.sql(sql, **parameters).to_arrow_table(), "allocation")


def _samples(trace: StoredTrace, rows: Rows) -> Leaves:
    """Samples of host threads; leaves are the threads' states."""
    columns, labels, _ = _coded(flame_samples.load(trace, rows), flame_samples.RUNNING)
    kinds = [
        flame_samples.RUNNING if text == flame_samples.RUNNING else flame_samples.WAITING for text in labels
    ]
    measured = flame_samples.count(trace) if rows == Rows() else len(columns["leaf"])
    return _timed(columns, labels, kinds, measured)


def _pc_samples(trace: StoredTrace, rows: Rows, names: str) -> Leaves:
    """Samples of warps; leaves are paths from the kernel to the stall reason."""
    table = flame_pc_samples.load(trace, rows)
    called = _names(trace, names, table.column("name_id").to_numpy())
    leaf, paths, labels, kinds = flame_pc_samples.places(trace, table, called)
    names_read = ("weight", "process", "device", "context", "stack")
    columns = {name: table.column(name).to_numpy() for name in names_read}
    columns |= dict.fromkeys(("stream", "correlation"), np.full(len(table), -1, np.int64))
    found = _leaves(
        trace, {**columns, "leaf": leaf, "start": leaf}, labels, kinds, flame_pc_samples.measured(trace, rows)
    )
    return replace(found, start=None, paths=paths)


def _coded(table: pa.Table, kind: str) -> _PartRows:
    import pyarrow as pa

    coded = table.column("text").combine_chunks()
    if isinstance(coded, pa.ChunkedArray):  # no rows: nothing to combine
        coded = pa.array([], pa.string())
    coded = coded.dictionary_encode()
    labels = [text or kind for text in coded.dictionary.to_pylist()]
    return _columns(table.append_column("leaf", coded.indices)), labels, kind


def _idle_before(start: Column, duration: Column, device: Column) -> Column:
    """How long each row's device had done nothing when the row began; 0 for the first row of a device.

    Work is a union: a row that begins while another still runs ends no wait.
    """
    out = np.zeros(len(start), np.int64)
    for one in np.unique(device).tolist():
        rows = np.flatnonzero(device == one)
        order = rows[np.argsort(start[rows], kind="stable")]
        begin = start[order]
        reach = np.maximum.accumulate(begin + duration[order])
        out[order[1:]] = np.maximum(begin[1:] - reach[:-1], 0)
    return out


def _measured(trace: StoredTrace, rows: Rows, weight: str, weights: Column) -> int:
    """The sum of the weights, by SQL with the same conditions, to check the graph against."""
    if weight == "idle":  # no column of a table holds it
        return int(weights.sum())
    kernel = f"{_where(rows, cut=weight == 'time')}{named(trace, rows.name)}"
    if weight == "launches":
        return int(trace.sql(f"SELECT count(*) FROM kernel_ids WHERE {kernel}").fetchall()[0][0])
    if rows.name is not None or weight == "allocated":  # the label of a copy is computed, not stored
        return int(weights.sum())
    value = "bytes" if weight == "bytes" else _cut(rows)
    copies = _where(rows, cut=weight == "time")
    parts = [f"SELECT sum({value}) AS w FROM {t} WHERE {copies}" for t in ("memcpy", "memset")]
    if weight == "time":
        parts.append(f"SELECT sum({value}) AS w FROM kernel_ids WHERE start IS NOT NULL AND {kernel}")
    return int(
        trace.sql(f"SELECT coalesce(sum(w), 0)::BIGINT FROM ({' UNION ALL '.join(parts)})").fetchall()[0][0]
    )


def _unfinished(trace: StoredTrace, rows: Rows) -> int:
    where = f"{rows.where()}{named(trace, rows.name)}"
    return int(
        trace.sql(f"SELECT count(*) FROM kernel_ids WHERE duration IS NULL AND {where}").fetchall()[0][0]
    )

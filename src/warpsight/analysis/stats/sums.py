"""How often and how long: summaries of kernels, copies, API calls, ranges, events, synchronization, memory and counters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpsight.analysis.base import distribution, words
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.analysis.ranges.open import of_calls
from warpsight.analysis.stats.stream_numbers import StreamNumbers
from warpsight.errors import UsageError, choices
from warpsight.model import calls
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import named

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

#: The subjects of `stats`.
SUBJECTS = (
    "kernels", "copies", "api", "launches", "nvtx", "events", "memory", "counters", "sync", "ops", "modules",
)  # fmt: skip
#: How kernels can be grouped.
BY = ("name", "shape", "stack", "device", "stream", "process", "range", "op")
#: Subjects with their own grouping and no other options.
_OWN_GROUPS = ("ops", "modules")
#: Which form of a kernel's name groups and shows it.
NAMES = ("demangled", "short", "mangled")
_ALL = Rows()
_NS = dict.fromkeys(("total", "mean", "min", "median", "p95", "p99", "max", "std"), "ns")
#: Placeholder duration of a kernel without one.
_MISSING = -1
#: Placeholder for the range of a kernel whose launch call is not in the trace.
_UNKNOWN = -1


def stats(
    trace: StoredTrace, subject: str = "kernels", rows: Rows = _ALL, *, by: str = "name", names: str = "demangled",
    latency: bool = False,
) -> Result:  # fmt: skip
    """Summaries of one subject, the longest total first.

    Args:
        trace: The trace.
        subject: One of :data:`SUBJECTS`.
        rows: Which rows count. Shares are of the rows that count.
        by: How kernels (and, for memory, `name` or `stack`) are grouped, one of :data:`BY`; operators by name, shapes, family or
            forward, modules by name or class.
        names: The form of kernel names, one of :data:`NAMES`.
        latency: Add how long kernels waited after their launch call began (joins every kernel with its launch).

    Raises:
        UsageError: for a subject, grouping or name form that does not exist.
    """
    for value, known, what in (
        (subject, SUBJECTS, "subject"),
        (by, (by,) if subject in _OWN_GROUPS else BY, "grouping"),
        (names, NAMES, "form of names"),
    ):
        if value not in known:
            raise UsageError(f"there is no {what} {value!r}{choices(value, known)}")
    if latency and subject != "kernels":
        raise UsageError("latency is about kernels only")
    if subject in _OWN_GROUPS:
        return _of_framework(trace, subject, rows, by)
    if subject == "kernels":
        return _kernels(trace, rows, by, names, latency)
    if subject in ("memory", "counters"):
        from warpsight.analysis.base import levels

        return levels.memory(trace, rows, by) if subject == "memory" else levels.counters(trace, rows)
    return _SIMPLE[subject](trace, rows)


def _of_framework(trace: StoredTrace, subject: str, rows: Rows, by: str) -> Result:
    if subject == "ops":
        from warpsight.analysis.ops.operators import operators

        return operators(trace, rows, by)
    from warpsight.analysis.ops.modules import modules

    return modules(trace, rows, by)


def _kernels(trace: StoredTrace, rows: Rows, by: str, names: str, latency: bool) -> Result:
    where = f"{rows.where()}{named(trace, rows.name)}"
    streams = StreamNumbers.of(trace) if by == "stream" else None
    key = streams.expression if streams else {"name": "name_id", "shape": "shape_id"}.get(by, by)
    source = streams.source if streams else "kernel_ids"
    if by in ("range", "op"):
        if latency:
            raise UsageError("latency cannot be grouped by range or op")
        counted = _by_range(trace, by, where)
    else:
        counted = distribution.count_pairs(
            trace.sql(
                f"SELECT coalesce({key}, 0), coalesce(duration, {_MISSING}) FROM {source} WHERE {where}"
            )
        )
    ids, histogram, missing = distribution.without(*counted, _MISSING)
    onto, labels = _merged(streams.columns(ids.tolist()) if streams else _labels(trace, by, ids, names))
    groups = int(onto.max(initial=-1)) + 1
    table = pa.table({**labels, **_summary(distribution.regroup(histogram, onto, groups))})
    if latency:
        group_of = dict(zip(ids.tolist(), onto.tolist(), strict=True))
        table = _with_latency(trace, table, key, f"{source} WHERE duration IS NOT NULL AND {where}", group_of)
    table = with_units(
        _by_total(table),
        **_NS,
        share="%",
        latency_mean="ns",
        latency_median="ns",
        latency_p99="ns",
        call_mean="ns",
    )
    findings: tuple[Finding, ...] = ()
    if missing:
        lost = words.counted(
            missing,
            "kernel was launched but no GPU record of it arrived; it is",
            "kernels were launched but no GPU record of them arrived; they are",
        )
        text = f"{lost} not counted here"
        findings = (Finding("loss", text, {"kernels": missing}),)
    return Result({"kernels": table}, findings)


def _by_range(trace: StoredTrace, by: str, where: str) -> tuple[Any, distribution.ValueCounts]:
    """Durations by the name id of the innermost range or operator at the launch; 0: launched in none, -1: unknown."""
    sql = f"""SELECT process, coalesce(correlation, -1), coalesce(duration, {_MISSING}) FROM kernel_ids WHERE {where}"""
    process, correlation, duration = (c.to_numpy() for c in trace.sql(sql).to_arrow_table().columns)
    if not len(process):
        return distribution.count_columns([])
    issued = calls.load(trace, api=True)
    call = issued.of(process, correlation)
    ranges, place = of_calls(trace, issued, call, "marker" if by == "range" else "op")
    ids = np.where(call >= 0, 0, _UNKNOWN)
    ids[place >= 0] = ranges.name_id[place[place >= 0]]
    return distribution.count_columns([(ids + 1, duration)])


def _labels(trace: StoredTrace, by: str, ids: Iterable[int], names: str) -> dict[str, list[Any]]:
    """The columns that name each group, given the ids of the groups."""
    wanted = [int(i) for i in ids]
    if by == "name":
        column = "name" if names == "mangled" else names
        known = names_of.texts(trace, column)
        return {"name": [known.get(i, "?") for i in wanted]}
    if by in ("range", "op"):  # counted from 1, as ids may not be negative
        known = {0: "(no launch call)", 1: f"(no {by})"}
        known |= {i + 1: text for i, text in names_of.texts(trace).items()}
        return {by: [known.get(i, "?") for i in wanted]}
    if by == "shape":
        return _shapes(trace, wanted)
    if by == "stack":
        frames = trace.stacks(i for i in wanted if i)
        return {"stack": [" ← ".join(frames.get(i, ())[::-1]) or "(none)" for i in wanted]}
    if by == "device":
        known = dict(trace.sql("SELECT device, name FROM device").fetchall())
        return {"device": wanted, "name": [known.get(i, "?") for i in wanted]}
    known = dict(trace.sql("SELECT process, command FROM process").fetchall())
    return {"process": wanted, "command": [known.get(i, "?") for i in wanted]}


def _shapes(trace: StoredTrace, wanted: list[int]) -> dict[str, list[Any]]:
    sql = """SELECT id, grid_x || '×' || grid_y || '×' || grid_z, block_x || '×' || block_y || '×' || block_z, registers,
             shared_static + shared_dynamic FROM shape"""
    known = {row[0]: row[1:] for row in trace.sql(sql).fetchall()}
    columns = list(zip(*(known.get(i, ("?", "?", None, None)) for i in wanted), strict=True)) or [
        (),
        (),
        (),
        (),
    ]
    return dict(zip(("grid", "block", "registers", "shared"), map(list, columns), strict=True))


def _merged(labels: dict[str, list[Any]]) -> tuple[Any, dict[str, list[Any]]]:
    """The group of each id, and the labels of the groups: ids with equal labels form one group."""
    numbers: dict[tuple[Any, ...], int] = {}
    onto = [numbers.setdefault(label, len(numbers)) for label in zip(*labels.values(), strict=True)]
    columns = list(zip(*numbers, strict=True)) or [() for _ in labels]
    return np.array(onto, np.int64), dict(zip(labels, map(list, columns), strict=True))


def _summary(histogram: distribution.ValueCounts) -> dict[str, Any]:
    summary = distribution.summarize(histogram)
    whole = max(int(summary["total"].sum()), 1)
    out: dict[str, Any] = {
        "count": summary["count"],
        "total": summary["total"],
        "share": summary["total"] / whole * 100,
    }
    return out | {name: summary[name] for name in distribution.SUMMARY[2:]}


def _with_latency(
    trace: StoredTrace, table: pa.Table, key: str, rows: str, group_of: dict[int, int]
) -> pa.Table:
    """Waiting time between the start of the launch call and the start of the kernel, and the time of the call."""
    joined = f"""(SELECT k.id, k.start - l.start AS latency, l.duration AS call FROM
        (SELECT coalesce({key}, 0) AS id, start, process, correlation FROM {rows}) k
        JOIN launch_ids l ON k.process = l.process AND k.correlation = l.correlation)"""
    columns: dict[str, list[float | None]] = {}
    for value, wanted in (("latency", ("mean", "median", "p99")), ("call", ("mean",))):
        pairs = trace.sql(f"SELECT id, {value} FROM {joined} WHERE {value} IS NOT NULL")
        found, histogram = distribution.count_pairs(pairs)
        groups, places = np.unique(
            np.array([group_of[i] for i in found.tolist()], np.int64), return_inverse=True
        )
        summary = distribution.summarize(distribution.regroup(histogram, places, len(groups)))
        for name in wanted:
            cells = columns[f"{value}_{name}"] = [None] * len(table)
            for group, number in zip(groups.tolist(), summary[name].tolist(), strict=True):
                cells[group] = float(number)
    for name, cells in columns.items():
        table = table.append_column(name, pa.array(cells, pa.float64()))
    return table


def _by_total(table: pa.Table) -> pa.Table:
    return table.sort_by([("total", "descending"), (table.column_names[0], "ascending")])


def _grouped(
    trace: StoredTrace, source: str, labels: tuple[str, ...], pattern: str | None
) -> tuple[pa.Table, Any]:
    """Summary of a relation (labels…, value) grouped by the labels; also returns the group number of each id."""
    listed = ", ".join(labels)
    where = "" if pattern is None else f" WHERE regexp_matches({labels[0]}, $pattern)"
    parameters = {} if pattern is None else {"pattern": pattern}
    found = trace.sql(
        f"SELECT {listed}, value, count(*) AS n FROM ({source}){where} GROUP BY ALL ORDER BY ALL",
        **parameters,
    )
    rows = found.to_arrow_table()
    keys = list(zip(*(rows.column(name).to_pylist() for name in labels), strict=True))
    numbers: dict[tuple[Any, ...], int] = {}
    group = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    value, count = rows.column("value").to_numpy().astype(np.int64), rows.column("n").to_numpy()
    columns = dict(
        zip(
            labels,
            (list(c) for c in zip(*numbers, strict=True)) if numbers else ([] for _ in labels),
            strict=True,
        )
    )
    histogram = distribution.ValueCounts(group, value, count, len(numbers))
    return pa.table({**columns, **_summary(histogram)}), numbers


def _copies(trace: StoredTrace, rows: Rows) -> Result:
    kind = "kind || ' ' || source_kind || ' → ' || destination_kind"
    source = f"""SELECT {kind} AS kind, duration AS value FROM memcpy WHERE {rows.where()}
        UNION ALL SELECT 'memset ' || memory_kind, duration FROM memset WHERE {rows.where()}"""
    table, numbers = _grouped(trace, source, ("kind",), rows.name)
    bytes_of = dict(
        trace.sql(f"""SELECT kind, sum(bytes)::BIGINT FROM (
        SELECT {kind} AS kind, bytes FROM memcpy WHERE {rows.where()}
        UNION ALL SELECT 'memset ' || memory_kind, bytes FROM memset WHERE {rows.where()}) GROUP BY 1""").fetchall()
    )
    sizes = [bytes_of[key[0]] for key in numbers]
    table = table.add_column(2, "bytes", pa.array(sizes, pa.int64()))
    speed = [
        size / total * 1e9 if total else None
        for size, total in zip(sizes, table["total"].to_pylist(), strict=True)
    ]
    table = table.add_column(3, "bandwidth", pa.array(speed, pa.float64()))
    return Result({"copies": with_units(_by_total(table), **_NS, share="%", bytes="B", bandwidth="B/s")})


def _api(trace: StoredTrace, rows: Rows) -> Result:
    return _calls(trace, rows, "api", ("launch_ids", "api"))


def _launches(trace: StoredTrace, rows: Rows) -> Result:
    return _calls(trace, rows, "launches", ("launch_ids",))


def _calls(trace: StoredTrace, rows: Rows, name: str, tables: tuple[str, ...]) -> Result:
    where = rows.where(device=False, stream=False)
    columns = "SELECT function, duration AS value, result FROM"
    source = " UNION ALL ".join(f"{columns} {t} WHERE duration IS NOT NULL AND {where}" for t in tables)
    table, numbers = _grouped(trace, f"SELECT function, value FROM ({source})", ("function",), rows.name)
    failed = trace.sql(
        f"SELECT function, result, count(*) FROM ({source}) WHERE coalesce(result, 0) <> 0 GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    counts: dict[str, int] = {}
    for function, _, count in failed:
        counts[function] = counts.get(function, 0) + count
    table = table.add_column(2, "failed", pa.array([counts.get(key[0], 0) for key in numbers], pa.int64()))
    findings = [
        Finding("warning", f"{function} returned {code} {count:,} times", {"function": function, "result": code, "count": count})
        for function, code, count in failed if (function,) in numbers
    ]  # fmt: skip
    running = sum(
        trace.sql(f"SELECT count(*) FROM {t} WHERE duration IS NULL AND {where}").fetchall()[0][0]
        for t in tables
    )
    if running:
        text = f"{words.counted(running, 'call', 'calls')} had not returned when the recording ended"
        findings.append(Finding("loss", text, {"calls": running}))
    return Result({name: with_units(_by_total(table), **_NS, share="%")}, tuple(findings))


def _nvtx(trace: StoredTrace, rows: Rows) -> Result:
    source = f"""SELECT coalesce(name, '') AS name, coalesce(domain, '') AS domain, duration AS value FROM marker
        WHERE duration IS NOT NULL AND {rows.where(device=False, stream=False)}"""
    table, _ = _grouped(trace, source, ("name", "domain"), rows.name)
    ((never,),) = trace.sql(
        f"SELECT count(*) FROM marker_ids WHERE open AND {rows.where(device=False, stream=False)}"
    ).fetchall()
    text = f"{words.counted(never, 'range was', 'ranges were')} never closed"
    findings = (Finding("warning", text, {"ranges": never}),) if never else ()
    return Result({"nvtx": with_units(_by_total(table), **_NS, share="%")}, findings)


def _events(trace: StoredTrace, rows: Rows) -> Result:
    source = f"""SELECT name, kind, duration AS value FROM user_event
        WHERE {rows.where(device=False, stream=False)}"""
    table, _ = _grouped(trace, source, ("name", "kind"), rows.name)
    return Result({"events": with_units(_by_total(table), **_NS, share="%")})


def _sync(trace: StoredTrace, rows: Rows) -> Result:
    table, _ = _grouped(
        trace, f"SELECT kind, duration AS value FROM sync WHERE {rows.where()}", ("kind",), rows.name
    )
    return Result({"sync": with_units(_by_total(table), **_NS, share="%")})


_SIMPLE = {"copies": _copies, "api": _api, "launches": _launches, "nvtx": _nvtx, "events": _events,
           "sync": _sync}  # fmt: skip

"""The account as tables: `analyze TRACE account` and `analyze TRACE gaps`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.account.account import Account, account
from warpsight.analysis.account.classes import CLASSES, HOST, IDLE, UNKNOWN
from warpsight.analysis.base import words
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.utilization import nothing, share
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows
from warpsight.model.work import summed

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: Number of gaps whose evidence is written out.
TOP = 20
#: Maximum number of gaps listed for a stretch of time.
_MOST_GAPS = 200


def spans(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """The account: every nanosecond of every device from its first to its last work, once, by class and name.

    Returns:
        Table `account`: class, name, time (ns, summed over devices), share of the devices' spans, count (rows of device work,
        or pieces of idle time). Table `devices`: for each device its span and its time by class (ns).
    """
    found = account(trace, rows)
    listed = [
        {"class": e.class_name, "name": e.name, "time": e.time, "share": share(e.time, found.span), "count": e.count}
        for e in found.entries
    ]  # fmt: skip
    devices = [{"device": device, **times} for device, times in found.devices.items()]
    columns = " ".join(f"{name}:int64:ns" for name in CLASSES)
    tables = {
        "account": table("class:string name:string time:int64:ns share:float64 count:int64", listed),
        "devices": table(f"device:int16 span:int64:ns {columns}", devices),
    }
    return Result(tables, doubts(found.work) + nothing(found.work) + _unexplained(found))


def gaps(trace: StoredTrace, rows: Rows = _ALL, *, top: int = TOP, every: bool = True) -> Result:
    """Every idle gap of every device, cut along time by cause; the causes add up to the idle time of the account.

    Returns:
        Table `causes`: class, name, gaps it has a part in, time (ns), share of the idle time, its longest piece. Table `top`:
        the longest gaps, the part of each class, what ended it and where the host was. Table `gaps`, with `every`: all of them
        by device and begin, with the time of each class.
    """
    found = account(trace, rows)
    longest = _longest(found.gaps.end - found.gaps.begin, top)
    tables = {"causes": _causes(found), "top": _top(trace, found, longest)}
    if every:
        tables["gaps"] = _all(found)
    return Result(tables, doubts(found.work) + nothing(found.work) + _unexplained(found))


def gaps_between(trace: StoredTrace, begin: int, end: int) -> pa.Table:
    """The gaps that overlap an interval (ns), those that fill most of it first.

    Returns:
        Their whole length and causes, in the columns of table `top` of :func:`gaps`.
    """
    found = account(trace)
    inside = np.minimum(found.gaps.end, end) - np.maximum(found.gaps.begin, begin)
    rows = np.flatnonzero(inside > 0)
    return _top(trace, found, rows[np.argsort(-inside[rows], kind="stable")][:_MOST_GAPS])


def _longest(length: Column, top: int) -> Column:
    """Indices of the longest gaps, longest first, ties by start."""
    near = np.arange(len(length))
    if (
        0 < top < len(length)
    ):  # of a million gaps, sort only those at least as long as the longest of many chunks
        longest = np.maximum.reduceat(length, np.arange(top) * len(length) // top)
        near = np.flatnonzero(length >= longest.min())
    out: Column = near[np.argsort(-length[near], kind="stable")]
    return out[:top] if top else out


def _causes(found: Account) -> pa.Table:
    pieces = found.pieces
    length = pieces.length
    idle = max(int(length.sum()), 1)
    listed = []
    for entry in found.entries:
        if entry.kind not in IDLE:
            continue
        mine = pieces_of(found, entry.kind, entry.name)
        touched = np.zeros(len(found.gaps), bool)
        touched[pieces.gap[mine]] = True
        listed.append({
            "class": entry.class_name, "name": entry.name, "gaps": np.count_nonzero(touched), "time": entry.time,
            "share": entry.time / idle, "longest": int(length[mine].max(initial=0)),
        })  # fmt: skip
    spec = "class:string name:string gaps:int64 time:int64:ns share:float64 longest:int64:ns"
    return table(spec, listed)


def pieces_of(found: Account, kind: int, name: str) -> Column:
    """The pieces of idle time behind a row of the account."""
    if kind == HOST:
        return np.concatenate([one.pieces for one in found.host if one.name == name])
    mine = found.pieces.of(kind)
    named = np.array([text == name for text in found.pieces.names], bool)
    out: Column = mine[named[found.pieces.name[mine]]]
    return out


def _top(trace: StoredTrace, found: Account, rows: Column) -> pa.Table:
    """The longest gaps: the pieces of each, the work that ended it, and the name of the host's part."""
    names = names_of.texts(trace, "short")
    pieces = found.pieces
    mine = np.flatnonzero(np.isin(pieces.gap, rows))
    # Of several names in a gap the longest piece's is written last.
    mine = mine[np.argsort(pieces.length_of(mine), kind="stable")]
    times: dict[int, dict[str, int]] = {gap: {} for gap in rows.tolist()}
    gap_of = pieces.gap[mine].tolist()
    for gap, kind, time in zip(
        gap_of, pieces.kind[mine].tolist(), pieces.length_of(mine).tolist(), strict=True
    ):
        times[gap][CLASSES[kind]] = times[gap].get(CLASSES[kind], 0) + time
    host = np.full(len(mine), -1)
    for number, one in enumerate(found.host):
        place = np.minimum(np.searchsorted(one.pieces, mine), len(one.pieces) - 1)
        host[one.pieces[place] == mine] = number
    host_of = {
        gap: found.host[number].name for gap, number in zip(gap_of, host.tolist(), strict=True) if number >= 0
    }
    listed = [_described(found, times[gap], gap, names, host_of.get(gap)) for gap in rows.tolist()]
    spec = "device:int16 begin:int64:ns duration:int64:ns causes:string next:string call:string host:string"
    return table(spec, listed)


def _described(
    found: Account, times: dict[str, int], gap: int, names: Mapping[int, str], host: str | None
) -> dict[str, Any]:
    row, call = int(found.gaps.row[gap]), int(found.gaps.call[gap])
    kind = int(found.work.kind[row])
    return {
        "device": found.gaps.devices[int(found.gaps.device[gap])],
        "begin": int(found.gaps.begin[gap]),
        "duration": int(found.gaps.end[gap] - found.gaps.begin[gap]),
        "causes": ", ".join(
            f"{name} {words.duration(times[name])}"
            for name in sorted(times, key=lambda name: (-times[name], CLASSES.index(name)))
        ),
        "next": names.get(int(found.work.name_id[row]), "?") if kind < 2 else ("copy", "fill")[kind - 2],
        "call": found.calls.functions[int(found.calls.function[call])] if call >= 0 else None,
        "host": host,
    }


def _all(found: Account) -> pa.Table:
    """Every gap as a row, with the time of each idle class in it."""
    ns = {"unit": "ns"}
    gaps = found.gaps
    pieces = found.pieces
    parts = {kind: pieces.of(kind) for kind in IDLE}
    device = [-1 if device is None else device for device in gaps.devices] or [-1]
    columns: dict[str, Column] = {
        "device": np.array(device, np.int16)[gaps.device],
        "begin": gaps.begin,
        "duration": gaps.end - gaps.begin,
        **{
            CLASSES[kind]: summed(pieces.gap[mine], pieces.length_of(mine), len(gaps))
            for kind, mine in parts.items()
        },
    }
    fields = [
        pa.field(name, pa.from_numpy_dtype(values.dtype), metadata=None if name == "device" else ns)
        for name, values in columns.items()
    ]
    return pa.Table.from_arrays([pa.array(values) for values in columns.values()], schema=pa.schema(fields))


def _unexplained(found: Account) -> tuple[Finding, ...]:
    time, idle = found.time(UNKNOWN), found.time(*IDLE)
    if not time or time * 50 < found.span:
        return ()
    text = f"the trace does not show why the devices were idle for {share(time, idle):.0%} of the idle time"
    return (Finding("note", text, {"time": time, "idle": idle}),)

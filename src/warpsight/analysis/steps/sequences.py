"""Kernels that one operator launches in sequence again and again: candidates for fusion or a graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding, Result
from warpsight.analysis.base.tables import table
from warpsight.analysis.ranges import open as all_ranges
from warpsight.model import calls
from warpsight.model import work as device_work
from warpsight.model.naming import texts as names_of
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
_ALL = Rows()
#: The number that distinguishes modules of one class.
_NUMBERED = re.compile(r"(?<=\w)_\d+$")
#: Maximum sequences reported, and maximum kernels in one.
_MOST, LONGEST = 200, 32
#: Multiplier of the hash (odd, from splitmix64). Instances of one name with equally many kernels and equal 64-bit hashes count as
#: equal: among a million different ones, two would be confused once in 10^7 traces.
_FACTOR = np.uint64(0xBF58476D1CE4E5B9)


def sequences(trace: StoredTrace, rows: Rows = _ALL) -> Result:
    """The sequences of kernels that instances of one operator or range launch, most device time first.

    Modules that differ only in PyTorch's number (`nn.Module: Layer_3`) count as one. If nested operators launched exactly the
    same kernels, the outermost is reported. An instance's sequence is every kernel whose launch call began on the instance's
    thread while it was open, in the order of the launches, those of operators inside it included. Sequences of one kernel and of
    more than 32 are left out.

    Tables:
        sequences: operator, kernels (how many), times (how often), total (device time), mean (per instance), launch (host
            time of the launch calls), sequence (names, in order).
    """
    work = device_work.load(trace, rows, cut=False)
    issued, call = calls.of_work(trace, work, api=True)
    kernel = np.flatnonzero((work.kind == 0) & (call >= 0))
    of = call[kernel]
    order = np.lexsort((work.start[kernel], issued.start[of], issued.thread[of], issued.process[of]))
    kernel, of = kernel[order], of[order]
    sources = [all_ranges.load(trace, source) for source in ("marker", "op")]
    called = {i: _NUMBERED.sub("", text) for i, text in names_of.texts(trace, "name").items()}
    names = work.name_id[kernel].astype(np.uint64)
    found = _without_repeats(
        [group for outer in sources for group in _groups(outer, called, issued, of, names)]
    )
    length = np.concatenate([[0], np.cumsum((work.end - work.start)[kernel])])
    launch = np.concatenate([[0], np.cumsum(_own_share(issued.end[of] - issued.start[of], of))])
    texts = names_of.texts(trace, "short")
    total = [int((length[end] - length[begin]).sum()) for _, begin, end in found]
    most = sorted(range(len(found)), key=lambda i: (-total[i], found[i][0]))[:_MOST]
    listed = []
    for i in most:
        name, begin, end = found[i]
        listed.append({
            "operator": name, "kernels": int(end[0] - begin[0]), "times": len(begin), "total": total[i],
            "mean": total[i] / len(begin), "launch": int((launch[end] - launch[begin]).sum()),
            "sequence": " → ".join(texts.get(k, "?") for k in work.name_id[kernel[begin[0] : end[0]]].tolist()),
        })  # fmt: skip
    columns = "operator:string kernels:int64 times:int64 total:int64:ns mean:float64:ns launch:int64:ns sequence:string"
    findings = list(doubts(work))
    if not any(map(len, sources)):
        findings.append(
            Finding("note", "the trace has no operators and no ranges whose kernels could be compared")
        )
    return Result({"sequences": table(columns, listed)}, tuple(findings))


def _own_share(length: Column, call: Column) -> Column:
    """A call's time in equal parts for the kernels it launched: those of a graph share one call."""
    count = np.bincount(call, minlength=int(call.max(initial=-1)) + 1)
    return np.maximum(length, 0) // np.maximum(count[call], 1)


def _without_repeats(groups: list[tuple[str, Column, Column]]) -> list[tuple[str, Column, Column]]:
    """Remove what an earlier group launched; the outermost group comes first."""
    out: dict[tuple[bytes, bytes], tuple[str, Column, Column]] = {}
    for name, begin, end in groups:
        out.setdefault((begin.tobytes(), end.tobytes()), (name, begin, end))
    return list(out.values())


def _groups(
    outer: all_ranges.Ranges, called: dict[int, str], issued: calls.Calls, of: Column, name: Column
) -> list[tuple[str, Column, Column]]:
    """Instances with equal operator and kernels: the operator's name, and their first and last launches."""
    begin, end = np.zeros(len(outer), np.int64), np.zeros(len(outer), np.int64)
    process, thread, start = issued.process[of], issued.thread[of], issued.start[of]
    key = process.astype(np.int64) << 32 | thread.astype(np.int64) & 0xFFFFFFFF
    for (number, one), rows in outer.groups.items():
        own = int(number) << 32 | int(one) & 0xFFFFFFFF
        low = int(np.searchsorted(key, own))
        moments = start[low : int(np.searchsorted(key, own, "right"))]
        begin[rows] = low + np.searchsorted(moments, outer.start[rows])
        end[rows] = low + np.searchsorted(moments, outer.end[rows])
    count = end - begin
    chosen = np.flatnonzero((count > 1) & (count <= LONGEST))
    if not len(chosen):
        return []
    begin, end, count = begin[chosen], end[chosen], count[chosen]
    code = np.zeros(len(chosen), np.uint64)
    for place in range(int(count.max())):
        there = count > place
        with np.errstate(over="ignore"):
            code[there] = (code[there] + name[begin[there] + place] + np.uint64(1)) * _FACTOR
    texts = [called.get(i, "") for i in outer.name_id[chosen].tolist()]
    known: dict[str, int] = {}
    operator = np.array([known.setdefault(text, len(known)) for text in texts], np.uint64)
    keys = np.stack([operator, count.astype(np.uint64), code])
    _, group = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(group.reshape(-1), kind="stable")
    edges = np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1
    groups = [rows[np.argsort(begin[rows], kind="stable")] for rows in np.split(order, edges)]
    groups.sort(key=lambda rows: int(chosen[rows].min()))  # ranges are sorted by start, longer first
    return [(texts[rows[0]], begin[rows], end[rows]) for rows in groups]

"""Annotations, functions and operators over time: the host's own code, for traces with ranges.

A name is judged by all the time it covers, over all pieces of host time together: never by the innermost range at one moment,
never by counting gaps. Annotations that differ in numbers only (`step 1`, `step 2`) are one name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.calls_held import Axis
from warpsight.model import intervals
from warpsight.model.naming import texts as names_of
from warpsight.model.work import distinct, summed

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: Levels of names: what people or frameworks announced, Python functions, operators of a framework.
ANNOTATION, FUNCTION, OPERATOR = range(3)
_NUMBER = re.compile(r"#?\d+")
#: Names of operators: lower case with namespaces, and autograd's nodes. Old profilers list annotations among them.
_OPERATOR = re.compile(r"^[a-z_0-9]+(::\S.*)?$|Backward\d*$|^autograd::|^torch::")
_FIELDS = {"start": 0, "duration": -1, "thread": 0, "process": 0}
#: Minimum share of the time of names that differ in numbers for one of them to name it.
_NEARLY = 0.9
#: Categories of ranges that torch.profiler draws on a device's tracks, or around the whole recording.
NOT_ON_HOST = ("gpu_user_annotation", "Trace")


@dataclass(frozen=True)
class CutRanges:
    """Ranges of the launching threads as columns, cut to their :class:`Axis`; `name` indexes `names`, `length` is uncut.

    Only the outermost of nested ranges with one name are kept: a function that calls itself covers its time once.
    """

    start: Column
    end: Column
    name: Column
    length: Column
    names: list[str]
    level: Column

    def over(self, begin: Column, end: Column) -> tuple[Column, Column]:
        """How much of each stretch every name covers, and the total length of its ranges that cover any stretch, in ns."""
        before = measure(begin, end)
        covered = before(self.end) - before(self.start)
        hit = np.flatnonzero(covered)
        time = summed(self.name[hit], covered[hit], len(self.names))
        return time, summed(self.name[hit], self.length[hit], len(self.names))

    def of(self, name: int) -> tuple[Column, Column]:
        """Begins and ends of the ranges with a name, ascending."""
        mine = np.flatnonzero(self.name == name)
        return self.start[mine], self.end[mine]


def load(
    trace: StoredTrace,
    on: Axis,
    before: measure,
    masters: Mapping[int, tuple[int, int]] | None = None,
) -> CutRanges:
    """The ranges that cover some stretches of the axis, given as the time of these before any moment.

    With `masters`, annotations and functions of the thread that another one launches for stand on that one's stretch too.
    """
    known: dict[tuple[int, str], int] = {}
    names: list[str] = []
    levels: list[int] = []
    parts = [(np.zeros(0, np.int64),) * 4]
    held: dict[int, Counter[str]] = {}
    for level, columns, texts in sources(trace):
        where = on.number(columns["process"], columns["thread"])
        good = np.flatnonzero((where >= 0) & (columns["duration"] > 0))
        where = where[good]
        for helper, (process, thread) in (masters or {}).items() if level != OPERATOR else ():
            of_master = (columns["process"] == process) & (columns["thread"] == thread)
            more = np.flatnonzero(of_master & (columns["duration"] > 0))
            good, where = np.append(good, more), np.append(where, np.full(len(more), helper))
        start = on.at(where, columns["start"][good])
        stop = on.at(where, columns["start"][good] + columns["duration"][good])
        hit = np.flatnonzero(before(stop) > before(start))
        ids, place = distinct(columns["name"][good][hit])
        code = np.zeros(len(ids), np.int64)
        time = np.bincount(place, weights=(before(stop) - before(start))[hit], minlength=len(ids))
        for i, one in enumerate(ids.tolist()):
            text = texts.get(one, "")
            key = level, text if level == FUNCTION else pattern(text)
            if key not in known:
                known[key] = len(names)
                names.append(text)
                levels.append(level)
            code[i] = known[key]
            held.setdefault(known[key], Counter())[text] += round(time[i])
        parts.append((start[hit], stop[hit], code[place], columns["duration"][good][hit]))
    for number, times in held.items():
        # Of several that differ in numbers, one may cover nearly all that they cover.
        text, most = times.most_common(1)[0]
        several = len(times) > 1 and most < _NEARLY * times.total()
        names[number] = pattern(text) if several else text
    start, stop, code, length = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    kept = _outermost(start, stop, code)
    return CutRanges(start[kept], stop[kept], code[kept], length[kept], names, np.array(levels, np.int64))


def sources(
    trace: StoredTrace, host_only: bool = False
) -> Iterator[tuple[int, dict[str, Column], Mapping[int, str]]]:
    """Ranges by level: their columns (`name` is an id) and the string for each id.

    With `host_only` without those that a profiler drew on the device's tracks or around everything.
    """
    texts: Mapping[int, str] = {}
    if trace.count("marker") or trace.count("op"):
        texts = names_of.texts(trace, "name")
    if trace.count("marker"):
        columns, coded = trace.columns("marker", {**_FIELDS, "name_id": 0}, ["category"])
        columns["name"] = columns.pop("name_id")
        kinds = coded["category"]
        function = columns["category"] == (
            kinds.index("python_function") if "python_function" in kinds else -2
        )
        other = ~function
        if host_only:
            other &= ~np.isin(
                columns["category"], [kinds.index(kind) for kind in NOT_ON_HOST if kind in kinds]
            )
        yield ANNOTATION, {name: column[other] for name, column in columns.items()}, texts
        yield FUNCTION, {name: column[function] for name, column in columns.items()}, texts
    if trace.count("user_event"):
        columns, coded = trace.columns("user_event", _FIELDS, ["name"])
        yield ANNOTATION, columns, dict(enumerate(coded["name"]))
    if trace.count("op"):
        columns, _ = trace.columns("op", {**_FIELDS, "name_id": 0})
        columns["name"] = columns.pop("name_id")
        ids, place = distinct(columns["name"])
        operator = np.array([_OPERATOR.search(texts.get(i) or "") is not None for i in ids.tolist()], bool)[
            place
        ]
        yield OPERATOR, {name: column[operator] for name, column in columns.items()}, texts
        yield ANNOTATION, {name: column[~operator] for name, column in columns.items()}, texts


def pattern(name: str) -> str:
    """The name without its numbers: equal for `step 1` and `step 2`."""
    return _NUMBER.sub("#", name)


class measure:
    """Build a function from moments of an axis to the time of these stretches before each; overlaps count repeatedly."""

    def __init__(self, begin: Column, end: Column) -> None:
        """Sort the ends of the stretches."""
        self._edges = []
        for edges, sign in ((np.sort(begin), 1), (np.sort(end), -1)):
            if len(edges):
                total = np.concatenate([np.zeros(1, np.int64), np.cumsum(edges - edges[0])])
                self._edges.append((edges, total, sign))

    def __call__(self, at: Column) -> Column:
        """Time before each moment.

        The sum over stretches of min(max(at - begin, 0), length) is what has begun by then less what has ended.
        """
        out = np.zeros(len(at), np.int64)
        for edges, total, sign in self._edges:
            count = np.searchsorted(edges, at, "left")
            out += sign * (
                (at - edges[0]) * count - total[count]
            )  # products may wrap around; the sum does not
        return out


def once(begin: Column, end: Column) -> measure:
    """:class:`measure` of what these stretches cover; overlaps count once."""
    union = intervals.union(begin, end)
    return measure(union.start, union.end)


def _outermost(start: Column, stop: Column, code: Column) -> Column:
    """Indices of the ranges that are not inside another range of the same name."""
    order = np.lexsort((-stop, start, code))
    code, stop = code[order], stop[order]
    # The latest end of the same name so far: names are kept apart by an offset larger than any moment.
    span = int(stop.max(initial=0)) + 1
    if int(code.max(initial=0)) < (1 << 62) // span:
        reach = np.maximum.accumulate(code * span + stop) - code * span
    else:
        reach = stop.copy()
        for rows in np.split(np.arange(len(code)), np.flatnonzero(np.diff(code)) + 1):
            reach[rows] = np.maximum.accumulate(stop[rows])
    inside = np.zeros(len(code), bool)
    inside[1:] = (code[1:] == code[:-1]) & (reach[:-1] >= stop[1:])
    kept: Column = order[~inside]
    return kept

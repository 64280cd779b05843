"""The truth of one program: its account, what comes first, its iterations, and what would be false of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.truth import account
from tests.truth.account import Piece
from tests.truth.execution import Execution, Item, ThreadLog
from tests.truth.naming import host_names
from tests.truth.program import Copy, Fill, Kernel

#: Classes that are causes by name, and as a whole.
BY_NAME = (account.COMPUTE, account.BLOCKED)
AS_A_WHOLE = tuple(c for c in (*account.BUSY, *account.IDLE) if c not in BY_NAME)
#: Part of the span within which two causes are equally large.
TOLERANCE = 0.02
#: Iterations are even when none takes so many times the median.
EVEN = 1.15
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One row of the account."""

    cls: str
    name: str
    ns: int


@dataclass(frozen=True)
class Cause:
    """Something that time goes to: `low_ns` to `high_ns` of it, by how the definitions are read.

    names: what it may be called; None for anything but what is in `never`.
    """

    cls: str
    names: frozenset[str] | None
    ns: int
    low_ns: int
    high_ns: int
    never: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Iterations:
    """How many there are, and the median of their periods on the host.

    other_ns: medians of their periods and extents on the device.
    even: whether all of them take as long, on the host and on the device.
    """

    count: int
    median_ns: int
    other_ns: tuple[int, ...]
    even: bool


@dataclass(frozen=True)
class Truth:
    """Everything that is known to be true of a program.

    spans: from first to last work, by device.
    firsts: causes that may come first, the largest first.
    false: patterns of statements that are untrue, and why.
    """

    seed: int
    spans: dict[int, int]
    rows: tuple[Row, ...]
    classes: dict[str, Cause]
    causes: tuple[Cause, ...]
    firsts: tuple[Cause, ...]
    iterations: Iterations | None
    false: tuple[tuple[str, str], ...]

    @property
    def span_ns(self) -> int:
        """Sum of the devices' spans."""
        return sum(self.spans.values())

    def share(self, cls: str) -> float:
        """Part of the span that a class has."""
        return self.classes[cls].ns / self.span_ns


def truth_of(execution: Execution) -> Truth:
    """The truth of a program that has run."""
    pieces = account.pieces(execution)
    spans = _spans(execution.works)
    classes = {cls: _cause(cls, None, [p for p in pieces if cls in (p.cls, *p.also)]) for cls in _CLASSES}
    causes = tuple(sorted(_causes(execution, pieces, classes), key=lambda cause: -cause.ns))
    first = max(cause.low_ns for cause in causes if cause.cls != account.RECORDER)
    least = first - round(TOLERANCE * sum(spans.values()))
    iterations = _iterations(execution)
    return Truth(
        execution.program.seed,
        spans,
        _rows(pieces),
        classes,
        causes,
        tuple(cause for cause in causes if cause.high_ns >= least),
        iterations,
        _false(execution, classes, sum(spans.values()), iterations),
    )


_CLASSES = (*account.BUSY, *account.IDLE)


def _spans(works: Iterable[Item]) -> dict[int, int]:
    ends: dict[int, tuple[int, int]] = {}
    for item in works:
        start, end = item.times
        first, last = ends.get(item.stream.device, (start, end))
        ends[item.stream.device] = min(first, start), max(last, end)
    return {device: last - first for device, (first, last) in ends.items()}


def _rows(pieces: list[Piece]) -> tuple[Row, ...]:
    held: Counter[tuple[str, str]] = Counter()
    for piece in pieces:
        held[piece.cls, _name(piece)] += piece.ns
    return tuple(Row(cls, name, ns) for (cls, name), ns in held.most_common())


def _name(piece: Piece) -> str:
    if piece.names:
        return piece.names[0]
    scope = piece.node.scope if piece.node else None
    return scope.name if scope else ""


def _cause(cls: str, name: str | None, pieces: list[Piece], names: frozenset[str] | None = None) -> Cause:
    """The cause that some pieces are: surely where nothing else is as right, else perhaps."""
    own = sum(p.ns for p in pieces if p.cls == cls and (name is None or p.names[0] == name))
    sure = sum(p.ns for p in pieces if p.cls == cls and not p.also and (name is None or p.names == (name,)))
    return Cause(cls, names, own, sure, sum(p.ns for p in pieces))


def _causes(execution: Execution, pieces: list[Piece], classes: dict[str, Cause]) -> list[Cause]:
    by_name: dict[tuple[str, str], list[Piece]] = {}
    for piece in pieces:
        if piece.cls in BY_NAME:
            for name in piece.names:
                by_name.setdefault((piece.cls, name), []).append(piece)
    found = [_cause(cls, name, held, frozenset({name})) for (cls, name), held in by_name.items()]
    for cls in AS_A_WHOLE:
        whole = classes[cls]
        if whole.high_ns:
            held = [p for p in pieces if p.cls == cls]
            names, never = host_names(execution, held) if cls == account.HOST else (_most(cls, held), NOTHING)
            found.append(Cause(cls, names, whole.ns, whole.low_ns, whole.high_ns, never))
    return found


def _most(cls: str, pieces: list[Piece]) -> frozenset[str] | None:
    """Calls that hold most of the launches' time; the other classes as a whole are called anything."""
    if cls != account.LAUNCH:
        return None
    held: Counter[str] = Counter()
    for piece in pieces:
        held[piece.names[0]] += piece.ns
    return frozenset(name for name, ns in held.items() if ns >= 0.8 * max(held.values()))


def _iterations(execution: Execution) -> Iterations | None:
    """Iterations of the thread that counts them; ranks have as many each."""
    counting = [log for log in execution.threads if log.iterations]
    if not execution.program.iterating or not counting:
        return None
    log = counting[0]
    begins = log.iterations
    periods = [after - before for before, after in pairwise(begins)]
    others = [values for values in _on_device(execution, log) if values]
    even = all(max(values) < EVEN * median(values) for values in (periods, *others) if values)
    medians = tuple(round(median(values)) for values in others)
    return Iterations(len(begins), round(median(periods or [0])), medians, even)


def _on_device(execution: Execution, log: ThreadLog) -> tuple[list[int], list[int]]:
    """The iterations' periods and extents on the device, by which calls enqueued their work."""
    begins = [*log.iterations, execution.end + 1]
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    place = 0
    process = log.thread.process
    for item in sorted(execution.items, key=lambda item: item.call.begin):
        if item.work is None or not item.visible or item.stream.process != process:
            continue
        while place + 1 < len(begins) and item.call.begin >= begins[place + 1]:
            place += 1
        if item.call.begin >= begins[0]:
            start, end = item.times
            firsts[place] = min(firsts.get(place, start), start)
            lasts[place] = max(lasts.get(place, end), end)
    starts = [firsts[place] for place in sorted(firsts)]
    periods = [after - before for before, after in pairwise(starts)]
    extents = [lasts[place] - firsts[place] for place in firsts]
    return periods, extents


def _false(
    execution: Execution, classes: dict[str, Cause], span: int, iterations: Iterations | None
) -> tuple[tuple[str, str], ...]:
    """Statements that nobody may make of this program."""

    def most(*names: str) -> float:
        return sum(classes[name].high_ns for name in names) / span

    found = []
    works = [item.work for item in execution.items]
    if not any(isinstance(work, Kernel) and work.collective for work in works):
        found.append((r"communicat|collective", "nothing communicates"))
    if not any(isinstance(work, (Copy, Fill)) for work in works):
        found.append((r"exposed cop|cop(y|ies) (that )?(block|cost|stall|take)", "nothing is copied"))
    if most(account.LAUNCH) < 0.02 and most(account.HOST) < 0.05:
        found.append((r"launch.bound", "launches cost next to nothing"))
    if most(account.HOST, account.BLOCKED, account.LAUNCH) < 0.01:
        found.append((r"waits? [\d,]+ times for the host|host.bound", "the device hardly waits for the host"))
    if iterations is None and not execution.program.iterating:
        found.append((r"slow(er|est)? (iteration|step)", "there are no iterations"))
    elif iterations and iterations.even:
        found.append((r"slow(er|est)? (iteration|step)", "all iterations take as long"))
    names = "\n".join(_names(execution))  # a name may say anything
    return tuple((pattern, why) for pattern, why in found if not re.search(pattern, names, re.IGNORECASE))


def _names(execution: Execution) -> set[str]:
    """Every name that a trace of the program may show."""
    names = {call.function for call in execution.calls}
    names |= {item.work.name for item in execution.items if isinstance(item.work, Kernel)}
    for log in execution.threads:
        names |= {entered.node.scope.name for entered in log.entered if entered.node.scope}
    return names

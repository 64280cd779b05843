"""Loops that a program announced: ranges, profiler steps and `ws.step()` that come again and again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.model import work as device_work

if TYPE_CHECKING:
    from warpsight.model import Trace

Column = npt.NDArray[Any]
#: Text, begins and ends of the turns of a loop, after how it was announced.
Loop = tuple[str, list[str], Column, Column]
_NUMBER = re.compile(r"#?\d+")
STEP_NAMES = re.compile(r"step|iter|batch|epoch|token|decode|generate|request", re.IGNORECASE)
#: Ranges of frameworks around a part of a turn: a layer is no iteration, however often it is passed.
_PARTS = re.compile(r".*\.pyx?\(|<built-in|nn\.Module|aten::|torch::|autograd::|c10|triton_|## Call|nccl:")
#: Fewer turns say nothing about a loop; with more than these a name is no turn of a main loop.
LEAST, MOST = 3, 100_000
#: Patterns of names looked at: those that cover most of the time.
_PATTERNS = 8
_WHAT = {"marker": "range", "op": "operator", "user_event": "event"}


@dataclass(frozen=True)
class Announced:
    """What can be turns in one table, as columns by begin (ns); `name` is an id, `pattern` indexes `patterns`.

    The pattern of a name is the name without its numbers.
    """

    what: str
    start: Column
    end: Column
    thread: Column
    process: Column
    name: Column
    pattern: Column
    patterns: list[str]
    texts: dict[int, str]
    #: Begins of `ws.step()`, each of which ends a turn.
    steps: bool = False

    def loops(self, process: int) -> Iterator[Loop]:
        """The loops of a process."""
        mine = np.flatnonzero(self.process == process)
        if self.steps:
            if len(mine) > LEAST:
                ends = self.start[mine]
                yield "ws.step()", [str(i + 2) for i in range(len(ends) - 1)], ends[:-1], ends[1:]
            return
        for pattern in self._frequent(mine):
            chosen = mine[self.pattern[mine] == pattern]
            threads, rows = device_work.distinct(self.thread[chosen])
            for turns in (chosen[index] for index in device_work.split(rows, len(threads))):
                begin, end = self.start[turns], self.end[turns]
                if len(turns) < LEAST or (begin[1:] < end[:-1]).any():  # turns of one loop do not overlap
                    continue
                label = [self.texts[i] for i in self.name[turns].tolist()]
                yield f"{self.what} {self.patterns[pattern]!r}", label, begin, end

    def _frequent(self, mine: Column) -> list[int]:
        """Patterns of names that can be turns of a main loop: those that cover most of the time."""
        count = np.bincount(self.pattern[mine], minlength=len(self.patterns))
        length = (self.end - self.start)[mine].astype(float)
        total = np.bincount(self.pattern[mine], weights=length, minlength=len(self.patterns))
        likely = np.flatnonzero((count >= LEAST) & (count <= MOST)).tolist()
        likely = [p for p in likely if not _PARTS.match(self.patterns[p])]
        likely.sort(key=lambda p: (not STEP_NAMES.search(self.patterns[p]), -total[p]))
        return likely[:_PATTERNS]


def load(trace: Trace) -> tuple[Announced, ...]:
    """What the program announced in each table, kept while the trace is open."""
    return trace.kept.get("announcements", lambda: tuple(_load(trace)))


def _load(trace: Trace) -> Iterator[Announced]:
    user = _user_events(trace)
    if user is not None:
        yield user[0]
    for table in ("marker", "op"):
        if trace.count(table):
            yield _named(trace, table)
    if user is not None:
        yield user[1]


_NUMBERS = {"start": 0, "duration": -1, "thread": 0, "process": 0}


def _named(trace: Trace, table: str) -> Announced:
    """Ranges or operators: their names are ids, and every name is looked at once. Ranges never closed are no turns.

    Operators are what a turn is made of; of them only torch's profiler steps are turns.
    """
    columns, _ = trace.columns(table, {**_NUMBERS, "name_id": 0})
    like = "WHERE name LIKE 'ProfilerStep#%'" if table == "op" else ""
    texts = dict(trace.sql(f"SELECT id, name FROM name {like}").fetchall())
    known = np.zeros(max(texts, default=0) + 1, bool)
    known[list(texts)] = True
    name = columns.pop("name_id")
    good = (columns["duration"] >= 0) & known[np.where(name < len(known), name, 0)]
    return _of(_WHAT[table], {c: v[good] for c, v in columns.items()}, name[good], texts)


def _user_events(trace: Trace) -> tuple[Announced, Announced] | None:
    """`ws.step()`, and events with a duration."""
    if not trace.count("user_event"):
        return None
    columns, coded = trace.columns("user_event", _NUMBERS, ["name", "kind"])
    name, kind = columns.pop("name"), columns.pop("kind")
    step = (kind == _code(coded["kind"], "step")) & (name == _code(coded["name"], "step"))
    steps, events = np.flatnonzero(step), np.flatnonzero(columns["duration"] > 0)
    texts = dict(enumerate(coded["name"]))
    return (
        _of("step", {c: v[steps] for c, v in columns.items()}, name[steps], texts, steps=True),
        _of(_WHAT["user_event"], {c: v[events] for c, v in columns.items()}, name[events], texts),
    )


def _code(texts: list[str], text: str) -> int:
    return texts.index(text) if text in texts else -2


def _of(
    what: str, columns: dict[str, Column], name: Column, texts: dict[int, str], *, steps: bool = False
) -> Announced:
    used, place = device_work.distinct(name)
    patterns: dict[str, int] = {}
    code = [patterns.setdefault(_NUMBER.sub("#", texts[i]), len(patterns)) for i in used.tolist()]
    start = columns["start"]
    order = np.argsort(start, kind="stable")
    pattern = np.array(code, np.int32)[place] if len(code) else place
    return Announced(
        what, start[order], (start + columns["duration"])[order], columns["thread"][order], columns["process"][order],
        name[order], pattern[order], list(patterns), texts, steps,
    )  # fmt: skip

"""Steps that take too long: iterations (`ws.step`) and named ranges, compared with the median of earlier ones."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy.typing as npt

from warpsight.recorder.ring.tail import News, TailedArena

#: Kinds this needs of the tail.
KINDS = ("Marker", "UserEvent")
_PUSH, _POP, _START, _END = 1, 2, 3, 4
#: Steps before a median means anything, and steps it is taken over.
_LEAST, _MOST = 8, 256
_MOST_NAMES = 4096


@dataclass(frozen=True)
class _Slow:
    """A step that took too long; times in ns."""

    name: str
    pid: int
    duration: int
    median: int
    end: int

    def __str__(self) -> str:
        return (f"slow step: {self.name} took {self.duration / 1e6:.1f} ms, {self.duration / max(self.median, 1):.1f} "
                f"times its median of {self.median / 1e6:.1f} ms")  # fmt: skip


@dataclass
class _Series:
    last: int = 0
    durations: deque[int] = field(default_factory=lambda: deque(maxlen=_MOST))


class SlowSteps:
    """Follows the steps of all processes. `factor`: multiple of the median that is too long; `pattern`: the ranges to follow."""

    def __init__(self, factor: float, pattern: str) -> None:
        self._factor = factor
        self._pattern = pattern
        self._series: dict[tuple[str, int, str], _Series] = {}
        self._open: dict[tuple[str, int, int, int], tuple[str, int]] = {}

    def take(self, news: News) -> list[_Slow]:
        """The steps among new rows that took too long."""
        found = []
        if not self._pattern and "UserEvent" in news.batches:
            found += self._iterations(news.arena, news.batches["UserEvent"].rows)
        if self._pattern and "Marker" in news.batches:
            batch = news.batches["Marker"]
            found += self._ranges(news.arena, batch.rows, batch.thread.tolist())
        return found

    def _iterations(self, arena: TailedArena, rows: npt.NDArray[Any]) -> list[_Slow]:
        """Iterations from `ws.step`, which marks the end of one; each begins where the previous one ended."""
        found = []
        for start, name, kind in rows[["start", "name", "kind"]].tolist():
            if arena.text(kind) != "step" or arena.text(name) != "step":
                continue
            series = self._series.setdefault((arena.name, 0, "step"), _Series())
            if series.last:
                slow = self._judge(series, "iteration", arena.pid, start - series.last, start)
                found += [slow] if slow else []
            series.last = start
        return found

    def _ranges(self, arena: TailedArena, rows: npt.NDArray[Any], threads: list[int]) -> list[_Slow]:
        found = []
        columns = rows[["time", "id", "name", "domain", "phase", "source"]].tolist()
        for (time, number, name, domain, phase, source), thread in zip(columns, threads, strict=True):
            key = (arena.name, thread if phase in (_PUSH, _POP) else -1, domain << 8 | source, number)
            if phase in (_PUSH, _START):
                text = arena.text(name)
                if fnmatchcase(text, self._pattern):
                    self._open[key] = (text, time)
                else:
                    self._open.pop(key, None)
            elif phase in (_POP, _END) and (begun := self._open.pop(key, None)) is not None:
                text, began = begun
                series = self._series.setdefault(
                    (arena.name, 0, self._pattern if "*" in self._pattern else text), _Series()
                )
                slow = self._judge(series, text, arena.pid, time - began, time)
                found += [slow] if slow else []
        if len(self._open) > _MOST_NAMES:  # ranges that never end
            del self._open[next(iter(self._open))]
        return found

    def _judge(self, series: _Series, name: str, pid: int, duration: int, end: int) -> _Slow | None:
        slow = None
        if len(series.durations) >= _LEAST:
            median = int(statistics.median(series.durations))
            if duration > self._factor * median:
                slow = _Slow(name, pid, duration, median, end)
        series.durations.append(duration)
        return slow

"""Device time of operators that call each other, as PyTorch's first profiler measured it: each instant is the innermost one's.

That profiler recorded an event on the stream where an operator began and where it ended, so the times of operators lie inside
those of their callers, and what an operator launched itself is what its callees leave:

    conv2d     ├────────────────────────┤
    cudnn         ├─────────────────┤           conv2d, cudnn, pad, cudnn, conv2d
    pad               ├──┤
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Open(Generic[T]):
    """An operator's time (ns): all before `own` is told."""

    one: T
    end: int
    own: int
    called: bool = False


@dataclass
class NestedWork(Generic[T]):
    """Collects times on tracks, then cuts them."""

    _found: dict[object, list[tuple[int, int, T]]] = field(default_factory=dict)

    def add(self, track: object, start: int, duration: int, one: T) -> None:
        """Remember the time of one operator (ns)."""
        self._found.setdefault(track, []).append((start, start + duration, one))

    def pieces(self) -> Iterator[tuple[T, int, int]]:
        """Each operator with start and duration (ns) of the pieces in which no other one lies; times that cross are not cut."""
        for found in self._found.values():
            found.sort(key=lambda row: (row[0], -row[1]))
            stack: list[_Open[T]] = []
            for start, end, one in found:
                while stack and stack[-1].end < max(end, start + 1):
                    yield from _rest(stack.pop())
                if stack:
                    caller = stack[-1]
                    if start > caller.own:
                        yield caller.one, caller.own, start - caller.own
                    caller.own, caller.called = end, True
                stack.append(_Open(one, end, start))
            while stack:
                yield from _rest(stack.pop())


def _rest(last: _Open[T]) -> Iterator[tuple[T, int, int]]:
    if last.end > last.own or not last.called:
        yield last.one, last.own, last.end - last.own

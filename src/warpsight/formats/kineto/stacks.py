"""Python functions into stacks, and the stack of any moment of a thread.

torch records every Python function as an interval with an id and its caller's id, so stacks follow from the ids alone. Functions
of a thread nest; what runs at a moment is therefore what began or returned last before it: one sorted list of changes per
thread, and a search for all moments at once.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.kineto.events import NO_ARGS, Event
from warpsight.trace.definitions import Definitions, Frame

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
_FUNCTION = re.compile(r"^(.*)\((\d{1,9})\): (.*)$", re.DOTALL)


def frame_of(name: str) -> Frame:
    """A frame from torch's `file.py(12): function`; built-ins have no place, modules are markers."""
    found = _FUNCTION.match(name)
    if found is None:
        kind = "marker" if name.startswith("nn.Module: ") else "python"
        return (name, None, None, None, kind, None)
    file, line, function = found.groups()
    number = int(line)
    return (function, file, number if number < 1 << 31 else None, None, "python", None)


class PythonStacks:
    """Collects Python functions; afterwards answers which stack a thread had at some moments."""

    def __init__(self, definitions: Definitions) -> None:
        """Stacks are interned in `definitions`."""
        self._definitions = definitions
        self._frames: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        #: Stack by Python id; 0 unknown. Ids count from 1, so a list is enough; others go to a dictionary.
        self._dense = array("i", [0])
        self._sparse: dict[int, int] = {}
        self._pieces: list[tuple[Int64, Int64, Int64, Int32, Int32]] = []
        self._changes: dict[int, tuple[Int64, Int32]] = {}

    def __bool__(self) -> bool:
        """Whether there were any functions."""
        return bool(self._pieces)

    def add(self, events: Sequence[Event], threads: Int64, start: Int64, duration: Int64) -> list[int]:
        """Take up functions; `threads` are keys of threads. Returns the stack of each."""
        stacks, parents = [], []
        for event in events:
            a = event.args or NO_ARGS
            parent = self._known(a.python_parent)
            stack = self._definitions.stack(parent, self._frame(event.name), "imported")
            self._keep(a.python_id, stack)
            stacks.append(stack)
            parents.append(parent)
        self._pieces.append((
            threads, start, duration, np.array(stacks, np.int32), np.array(parents, np.int32)
        ))  # fmt: skip
        return stacks

    def _frame(self, name: str) -> int:
        known = self._frames.get(name)
        if known is None:
            known = self._frames[name] = self._definitions.frame(frame_of(name))
        return known

    def _known(self, number: int | None) -> int:
        if number is None:
            return 0
        return self._dense[number] if 0 <= number < len(self._dense) else self._sparse.get(number, 0)

    def _keep(self, number: int | None, stack: int) -> None:
        if number is None:
            return
        if number == len(self._dense):
            self._dense.append(stack)
        elif 0 <= number < len(self._dense):
            self._dense[number] = stack
        else:
            self._sparse[number] = stack

    def of_text(self, text: str) -> int:
        """The stack of a `Call stack` argument: frames with `;` between them, innermost first; 0 for none."""
        known = self._texts.get(text)
        if known is None:
            frames = [frame_of(name) for name in reversed(text.split(";")) if name]
            known = self._texts[text] = self._definitions.stack_of(frames, "imported")
        return known

    def at(self, threads: Int64, moments: Int64) -> Int32:
        """Stacks that threads had at moments; 0 where no function was running."""
        found = np.zeros(len(moments), np.int32)
        for thread in np.unique(threads).tolist():
            rows = np.flatnonzero(threads == thread)
            times, stacks = self._of_thread(thread)
            if len(times):
                place = np.searchsorted(times, moments[rows], "right") - 1
                found[rows] = np.where(place >= 0, stacks[np.maximum(place, 0)], 0)
        return found

    def _of_thread(self, thread: int) -> tuple[Int64, Int32]:
        """Times at which the running function of a thread changes, sorted, and its stack from then on."""
        known = self._changes.get(thread)
        if known is None:
            parts = [tuple(column[p[0] == thread] for column in p[1:]) for p in self._pieces]
            columns: list[Any] = [
                np.concatenate([part[i] for part in parts] or [np.zeros(0, np.int64)]) for i in range(4)
            ]
            known = self._changes[thread] = _changes(*columns)
        return known


def _changes(start: Int64, duration: Int64, stack: Int32, parent: Int32) -> tuple[Int64, Int32]:
    """At one moment functions return before others begin; inner ones return first and begin last."""
    lasting = np.flatnonzero(duration > 0)
    start, duration, stack, parent = start[lasting], duration[lasting], stack[lasting], parent[lasting]
    order = np.lexsort((np.arange(len(start)), -duration, start))
    start, duration, stack, parent = start[order], duration[order], stack[order], parent[order]
    count = len(start)
    times = np.concatenate([start, start + duration])
    rank = np.concatenate([np.arange(count) + count, np.arange(count)[::-1]])
    changes = np.lexsort((rank, times))
    return times[changes], np.concatenate([stack, parent])[changes]

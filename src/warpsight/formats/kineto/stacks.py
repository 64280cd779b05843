"""Python functions as stacks, and the stack of any moment of a thread.

torch records every Python function as an interval with an id and its caller's id, so stacks follow from the ids alone. Functions
of a thread nest, so the last begin or return before a moment tells which function runs at that moment.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from warpsight.formats.kineto.group import EventGroup, text
from warpsight.formats.kineto.ordered import Ordered
from warpsight.model import arrow
from warpsight.model.definitions import Definitions, Frame

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
_FUNCTION = re.compile(r"^(.*)\((\d{1,9})\): (.*)$", re.DOTALL)


def frame_of(name: str) -> Frame:
    """A frame from torch's `file.py(12): function`; built-ins have no location, and modules are markers."""
    found = _FUNCTION.match(name)
    if found is None:
        kind = "marker" if name.startswith("nn.Module: ") else "python"
        return (name, None, None, None, kind, None)
    file, line, function = found.groups()
    return (function, file, int(line), None, "python", None)


class _ById:
    """Stacks by Python id. Ids count from 1, so an array suffices; outliers go to a dictionary."""

    def __init__(self) -> None:
        self._dense = np.zeros(1 << 16, np.int32)
        self._count = 0
        self._sparse: dict[int, int] = {}

    def of(self, ids: Int64) -> Int32:
        """Stacks of some ids; 0 where unknown."""
        inside = (ids >= 0) & (ids < len(self._dense))
        found = np.where(inside, self._dense[np.where(inside, ids, 0)], np.int32(0))
        if self._sparse:  # the array may have grown over ids that came here
            for row in np.flatnonzero(found == 0).tolist():
                found[row] = self._sparse.get(int(ids[row]), 0)
        return found

    def keep(self, ids: Int64, stacks: Int32) -> None:
        """Remember the stacks of some ids."""
        self._count += len(ids)
        limit = 4 * self._count + (1 << 16)
        dense = (ids >= 0) & (ids < limit)
        most = int(ids[dense].max(initial=0))
        if most >= len(self._dense):
            grown = np.zeros(max(most + 1, 2 * len(self._dense)), np.int32)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        self._dense[ids[dense]] = stacks[dense]
        for row in np.flatnonzero(~dense & (ids >= 0)).tolist():
            self._sparse[int(ids[row])] = int(stacks[row])


class PythonCallStacks:
    """Collects Python functions, then tells which stack a thread had at given moments."""

    def __init__(self, definitions: Definitions) -> None:
        """Stacks are interned in `definitions`."""
        self._definitions = definitions
        self._frames: dict[bytes, int] = {}
        self._texts: dict[str, int] = {}
        self._by_id = _ById()
        #: The definitions know these too, by larger keys.
        self._by_pair: dict[int, int] = {}
        #: By thread: which stack it has from a moment on.
        self._changes = Ordered()

    def __bool__(self) -> bool:
        """Whether there were any functions."""
        return bool(self._changes)

    def add(self, group: EventGroup, threads: Int64, start: Int64, duration: Int64) -> Int32:
        """Add functions; `threads` are keys of threads. Returns the stack of each."""
        ids = arrow.fill_null(group.integers("Python id"), -1).to_numpy()
        callers = arrow.fill_null(group.integers("Python parent id"), -1).to_numpy()
        stacks, parents = self._interned(self._frame_ids(group), ids, callers)
        self._by_id.keep(ids, stacks)
        # At one moment functions return before others begin; inner ones return first and begin last.
        lasting = np.flatnonzero(duration > 0)
        threads, start, duration = threads[lasting], start[lasting], duration[lasting]
        self._changes.add(threads, start, stacks[lasting], -duration)
        self._changes.add(threads, start + duration, parents[lasting], duration)
        return stacks

    def _frame_ids(self, group: EventGroup) -> Int64:
        codes, texts = group.codes(".name")
        for raw in texts:
            if raw not in self._frames:
                self._frames[raw] = self._definitions.frame(frame_of(text(raw) or ""))
        return np.array([self._frames[raw] for raw in texts] + [0], np.int64)[codes]

    def _interned(self, frames: Int64, ids: Int64, callers: Int64) -> tuple[Int32, Int32]:
        """Stacks of functions and of their callers: first those whose caller is known, then those they call, and so on."""
        stacks, parents = np.zeros(len(ids), np.int32), self._by_id.of(callers)
        own = np.argsort(ids, kind="stable")
        place = np.minimum(np.searchsorted(ids[own], callers, "right") - 1, len(ids) - 1)
        caller = np.where((place >= 0) & (callers >= 0), own[place], -1)
        caller[(caller >= 0) & (ids[caller] != callers)] = -1
        caller[caller >= np.arange(len(ids))] = -1  # later frames are not callers of earlier ones
        order = np.argsort(caller, kind="stable")
        sorted_callers = caller[order]
        level = order[: np.searchsorted(sorted_callers, 0)]
        while len(level):
            keys = parents[level].astype(np.int64) << 32 | frames[level]
            pairs, which = np.unique(keys, return_inverse=True)
            stacks[level] = np.array(self._stacks_of(pairs.tolist()), np.int32)[which]
            begins, ends = (np.searchsorted(sorted_callers, level, side) for side in ("left", "right"))
            counts = ends - begins
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            following = order[np.repeat(begins, counts) + offsets]
            parents[following] = np.repeat(stacks[level], counts)
            level = following
        return stacks, parents

    def _stacks_of(self, pairs: list[int]) -> list[int]:
        """Stacks by a caller's stack (the upper 32 bits) and a frame."""
        numbers = list(map(self._by_pair.get, pairs))
        if None in numbers:
            for place, pair in enumerate(pairs):
                if numbers[place] is None:
                    found = self._definitions.stack(pair >> 32, pair & 0xFFFFFFFF, "imported")
                    numbers[place] = self._by_pair[pair] = found
        return numbers  # type: ignore[return-value]

    def of_text(self, text: str) -> int:
        """The stack of a `Call stack` argument: frames separated by `;`, innermost first; 0 for none."""
        known = self._texts.get(text)
        if known is None:
            frames = [frame_of(name) for name in reversed(text.split(";")) if name]
            known = self._texts[text] = self._definitions.stack_of(frames, "imported")
        return known

    def at(self, threads: Int64, moments: Int64) -> Int64:
        """Stacks that threads had at moments; 0 where no function was running."""
        return self._changes.before(threads, moments)

    def close(self) -> None:
        """Drop everything."""
        self._changes.close()

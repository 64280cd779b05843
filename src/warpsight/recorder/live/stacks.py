"""Host stacks of a running recording: the code behind the GPU time of the last seconds, and host samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Frames of work whose launch is not known, or was made without a stack.
NO_STACK = ("[no host stack]",)
_UNKNOWN = "?"


@dataclass(frozen=True)
class TopStack:
    """One stack in the window.

    Attributes:
        frames: Outermost first; the last is the launched kernel or copy, or `running` or `waiting` for a sample.
        weight: Time on the GPU in ns, or samples.
        share: Share of the weight of all stacks, 0 to 1.
    """

    frames: tuple[str, ...]
    weight: int
    share: float


@dataclass
class LiveStacks:
    """The stacks of one process, by the ids in its rows."""

    _frames: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _callers: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add_frames(self, rows: Array) -> None:
        """Add `Frame` rows."""
        self._frames.update(zip(rows["id"].tolist(), _tuples(rows, "function", "file", "line"), strict=True))

    def add_stacks(self, rows: Array) -> None:
        """Add `Stack` rows."""
        self._callers.update(zip(rows["id"].tolist(), _tuples(rows, "parent", "frame"), strict=True))

    def frames(self, stack: int, texts: Mapping[int, str]) -> tuple[str, ...]:
        """Frames of a stack, outermost first, as flame graphs write them."""
        found = []
        while stack in self._callers:
            stack, frame = self._callers.get(stack, (0, 0))
            function, file, line = self._frames.get(frame, (0, 0, 0))
            place = f" ({texts.get(file, _UNKNOWN)}{f':{line}' if line else ''})" if file else ""
            found.append(texts.get(function, _UNKNOWN) + place)
        return tuple(found[::-1]) or NO_STACK


def _tuples(rows: Array, *names: str) -> Iterable[Any]:
    return zip(*(rows[name].tolist() for name in names), strict=True)


def joined(keys: Array, call_keys: Array, call_stacks: Array) -> Array:
    """The stack of the call with each key, or 0; the last one with a stack if several share a key."""
    if not len(call_keys) or not len(keys):
        return np.zeros(len(keys), np.int64)
    order = np.argsort(call_keys, kind="stable")
    known, stacks = call_keys[order], call_stacks[order]
    place = np.searchsorted(known, keys, "right") - 1
    out: Array = np.where(
        (place >= 0) & (known[np.maximum(place, 0)] == keys), stacks[np.maximum(place, 0)], 0
    )
    return out


def grouped(columns: Sequence[Array], weight: Array) -> list[tuple[tuple[int, ...], int]]:
    """The sum of the weights of rows with equal values in all columns."""
    keys, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, place.reshape(-1), weight)
    return list(zip(map(tuple, keys.tolist()), sums.tolist(), strict=True))


def heaviest(found: Iterable[tuple[tuple[str, ...], int]], most: int) -> tuple[TopStack, ...]:
    """Merge equal stacks of several processes, the heaviest first."""
    merged: dict[tuple[str, ...], int] = {}
    for frames, weight in found:
        merged[frames] = merged.get(frames, 0) + weight
    whole = max(sum(merged.values()), 1)
    best = sorted(merged.items(), key=lambda item: (-item[1], item[0]))[:most]
    return tuple(TopStack(frames, weight, weight / whole) for frames, weight in best if weight)

"""Stacks with a weight and no time, laid end to end, so that lengths are weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from warpsight.model.definitions import Frame

if TYPE_CHECKING:
    from warpsight.formats.target import Target

#: The leaf that represents a kernel in merged stacks.
KERNEL = "[GPU_Kernel]"
#: Kind of the events that carry weights.
KIND = "weighted stack"
_MOST = 1 << 62


def place(target: Target, stacks: Iterable[tuple[tuple[Frame, ...], int]], unit: str) -> None:
    """Add stacks (frames from the outermost inwards) and their weights.

    A stack whose leaf names a kernel becomes a `kernel` row with the rest as its host stack, any other a `user_event`
    named after its leaf.
    """
    process = target.process(0, command="weighted stacks")
    kernels: list[tuple[int, int, int]] = []
    events: list[tuple[str, int, int]] = []
    for frames, weight in stacks:
        leaf = frames[-1][0]
        if leaf.startswith(KERNEL):
            kernels.append((target.name(leaf[len(KERNEL) :]), target.stack(frames[:-1]) or 0, weight))
        else:
            events.append((leaf, target.stack(frames) or 0, weight))
    import pyarrow as pa

    if kernels:
        names, found, weights = (np.array(column, np.int64) for column in zip(*kernels, strict=True))
        start, length = _laid(weights)
        context = target.context(process, 0)
        stream = target.stream(process, context, 0)
        count = len(kernels)
        target.add("kernel", {"start": start, "duration": length, "name_id": names.astype(np.int32),
                              "stack": pa.array(found.astype(np.int32), mask=found == 0), "context": [context] * count,
                              "stream": [stream] * count, "process": [process] * count,
                              "graph_level": [False] * count})  # fmt: skip
    if events:
        leaves = [leaf for leaf, _, _ in events]
        found, weights = (np.array(column, np.int64) for column in list(zip(*events, strict=True))[1:])
        start, length = _laid(weights)
        count, thread = len(events), target.thread(process, 0)
        target.add("user_event", {"start": start, "duration": length, "name": leaves, "kind": [KIND] * count,
                                  "stack": pa.array(found.astype(np.int32), mask=found == 0), "thread": [thread] * count,
                                  "process": [process] * count})  # fmt: skip
    target.note(
        f"the file has weights ({unit}) and no times: stacks are laid end to end, lengths are weights"
    )


def _laid(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Begins and lengths."""
    kept = np.clip(weights, 0, _MOST)
    ends = np.cumsum(kept)
    return ends - kept, kept

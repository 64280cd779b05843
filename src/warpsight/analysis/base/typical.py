"""Typical lengths where many are nearly zero."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.work import blocks


def half(lengths: NDArray[Any]) -> int:
    """The length of the piece at which half of the total time is reached, counting from the longest down; 0 without time.

    Formats round times, so kernels that ran back to back may appear 1 ns apart. A median over 1, 1, 1, 500 and 700 ns would be 1
    ns; of the 1,203 ns, half are in pieces of 700 ns or more.
    """
    total = int(lengths.sum())
    if total <= 0:
        return 0
    # Only lengths of about the right size are sorted: a float's upper bits count as its size does.
    least, most = (int(_size(edge)) for edge in (lengths.min(), lengths.max()))
    held = np.zeros(most - least + 1)
    for block in blocks(len(lengths)):
        size = _size(lengths[block])
        low = int(size.min())
        sums = np.bincount(size - low, weights=lengths[block])
        held[low - least : low - least + len(sums)] += sums
    held = held[::-1].cumsum()
    place = int(np.searchsorted(2 * held, total))
    wanted = most - place
    parts = [lengths[block][_size(lengths[block]) == wanted] for block in blocks(len(lengths))]
    down = np.sort(np.concatenate(parts))[::-1]
    reached = np.cumsum(down) + int(held[place] - down.sum())
    return int(down[np.searchsorted(2 * reached, total)])


def _size(lengths: NDArray[Any]) -> NDArray[np.int64]:
    size: NDArray[np.int64] = lengths.astype(np.float64).view(np.int64) >> 44
    return size

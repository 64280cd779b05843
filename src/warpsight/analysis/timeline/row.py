"""Rows of the timeline, and the names of their slices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model import intervals
from warpsight.model.intervals import Intervals

Column = NDArray[Any]
#: The kind of a slice; a page gives each kind a color. A sample represents a host stack.
KINDS = (
    "kernel",
    "communication",
    "copy",
    "set",
    "launch",
    "blocked",
    "call",
    "range",
    "op",
    "step",
    "outlier",
    "stack",
)


@dataclass(frozen=True)
class SelectedColumn:
    """Some rows of a column, read on demand: a timeline of millions of slices shows few at once."""

    column: Column
    rows: Column

    def __getitem__(self, where: slice) -> Column:
        """The values of some of these rows."""
        found: Column = self.column[self.rows[where]]
        return found


@dataclass(frozen=True)
class Row:
    """Slices that do not nest, by begin (ns).

    Attributes:
        key: Identifies the row in addresses of a page: the same row of the same trace has the same key.
        label: What it is called.
        role: steps, ranges, ops, calls, stacks, device, stream or copies; one role of one `group` is drawn as one track.
        group: Key of the track that the row belongs to; nested ranges take a row for each level.
        name: Number of the name of each slice; of role stacks the host stack itself.
        stack: Host stack of each slice, 0 none; None where the row has none.
        call: Index of the call that asked for each slice (:func:`warpsight.model.calls.load` with `api`), -1 none.
        device: Device of the row; None for the host's.
    """

    key: str
    label: str
    role: str
    group: str
    start: Column
    end: Column
    name: Column | SelectedColumn
    stack: Column | SelectedColumn | None = None
    call: Column | SelectedColumn | None = None
    device: int | None = None

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def covered(self) -> Intervals:
        """The times at which the row has a slice."""
        return intervals.union(self.start, self.end)

    @cached_property
    def reach(self) -> Column:
        """The furthest end so far, because slices of a device overlap."""
        return intervals.reach(self.end)

    def between(self, begin: int, end: int) -> slice:
        """The slices that may overlap [begin, end)."""
        return slice(int(np.searchsorted(self.reach, begin, "right")), int(np.searchsorted(self.start, end)))

    def busy(self, begin: int, end: int) -> int:
        """Time in [begin, end) covered by slices, ns."""
        before, after = intervals.measure(self.covered, np.array([begin, end]))
        return int(after - before)

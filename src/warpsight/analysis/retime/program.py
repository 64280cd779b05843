"""A recording as a program to run again: the dependencies of every call and every piece of device work, and their delays.

Everything happens as soon as what it waits for has happened and the time in between has passed. With the recorded times in
between, everything happens when it was recorded. Other times give another run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.path import dependencies
from warpsight.analysis.path.dependencies import DependencyGraph

if TYPE_CHECKING:
    from warpsight.analysis.retime.structure import Structure

Column = npt.NDArray[Any]
#: Lag of a missing dependency (ns): nothing is ever that early.
NO_LAG = -(1 << 60)
#: Kinds of links: those of the dependency graph, and what only this model has.
LINKS = (*dependencies.EDGES, "launch queue", "poll", "moved")
QUEUE, POLL, MOVED = range(len(dependencies.EDGES), len(LINKS))


@dataclass(frozen=True)
class Links:
    """Dependencies that are neither a thread's order, nor a launch, nor a stream's order; columns of equal length.

    `source` and `target` are points of the graph: begins and ends of calls, ends of device nodes (as a target: their begins).
    `lag` is the time in between, ns; `kind` indexes :data:`LINKS`.
    """

    source: Column
    target: Column
    lag: Column
    kind: Column

    def __len__(self) -> int:
        return len(self.source)

    def joined(self, source: Column, target: Column, lag: Column, kind: int) -> Links:
        """These links plus more."""
        kinds = np.full(len(source), kind, np.int8)
        return Links(*(
            np.concatenate([own, more.astype(np.int64, copy=False) if own.dtype == np.int64 else more])
            for own, more in zip((self.source, self.target, self.lag, self.kind), (source, target, lag, kinds), strict=True)
        ))  # fmt: skip


@dataclass(frozen=True)
class Meetings:
    """Device nodes that end together, as a collective's kernels on all ranks: `group` numbers the meetings from 0.

    Each ends `duration` after the last of its group has begun.
    """

    node: Column
    group: Column

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True)
class Program:
    """Times in ns, relative to `origin`. Points are those of `graph`.

    A point of a thread happens at the latest of: `lag` after the point `before` it, and its links; and then `after` later.
    A device node begins at the latest of: `arrival` after its call's end (or begin: `from_begin`), `gap` after the end of the
    node `previous` in its stream, and its links; and then `delay` later, a delay that nothing in the recording explains.

    Attributes:
        before: For each point of a thread the one before it, -1 for the thread's first: `lag` after it was recorded.
        place: For each device node the place of its call, -1 where that is not known.
        previous: For each device node the one before it, -1 for none.
        duration: Duration of device nodes; for members of a meeting, from the last member's start.
        depth: Entries of the launch queue of each stream as far as that was seen (:mod:`.queue`), else None.
        notes: What was assumed, as sentences.
    """

    graph: DependencyGraph
    origin: int
    before: Column
    lag: Column
    after: Column
    place: Column
    arrival: Column
    from_begin: Column
    previous: Column
    gap: Column
    delay: Column
    duration: Column
    links: Links
    meetings: Meetings
    depth: int | None = None
    notes: tuple[str, ...] = ()
    #: Computed once for all programs that differ only in times.
    structure: Structure | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.duration)

    @property
    def base(self) -> int:
        """The point of the first device node."""
        return self.graph.base

    def sequence(self) -> Column | None:
        """Points of threads in thread order, or None if that is 0, 1, 2 and so on."""
        return self.graph.sequence

    def but(self, **columns: Any) -> Program:
        """The program with some columns replaced."""
        same = set(columns) <= _TIMES or (
            set(columns) <= {*_TIMES, "links"}
            and columns["links"].source is self.links.source
            and columns["links"].target is self.links.target
        )
        return replace(self, **columns) if same else replace(self, structure=None, **columns)


#: Columns with times, which do not affect what waits for what.
_TIMES = frozenset({"lag", "arrival", "gap", "delay", "duration", "after", "notes"})
assert {one.name for one in fields(Program)} >= _TIMES

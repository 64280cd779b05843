"""A job: the summaries of its ranks, their collectives matched, their clocks aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.cluster import cache, places
from warpsight.cluster.clocks.rank_clocks import JobClocks, synchronize
from warpsight.cluster.executor import Executor, LocalExecutor
from warpsight.cluster.matching import Communicator, Mismatch, match, mismatches
from warpsight.cluster.summary import RankSummary
from warpsight.errors import WarpsightError
from warpsight.formats.snapshot import flight_recorder
from warpsight.formats.snapshot.flight_recorder import FlightDump

Column = NDArray[Any]


@dataclass(frozen=True)
class Job:
    """Everything known about a job.

    Attributes:
        summaries: One per rank, by rank.
        dumps: The flight recorder's dumps beside the traces.
        failed: Path and reason of everything that could not be read: answers hold for the other ranks.
        renumbered: Path, the rank that it claims and that another recording has, and the number that it got instead.
    """

    summaries: tuple[RankSummary, ...]
    dumps: tuple[FlightDump, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    renumbered: tuple[tuple[str, int, int], ...] = ()

    @cached_property
    def groups(self) -> list[Communicator]:
        """The communicators with their matched operations, the largest first."""
        return match(self.summaries)

    @cached_property
    def mismatches(self) -> list[Mismatch]:
        """Operations that differ between ranks."""
        return mismatches(self.groups, self.summaries)

    @cached_property
    def clocks(self) -> JobClocks:
        """The ranks' clocks."""
        return synchronize(self.summaries, self.groups)

    @cached_property
    def window(self) -> tuple[int, int]:
        """Start of the first and end of the last work of any rank, ns on the reference clock."""
        spans = [
            self.clocks.corrected(place, np.array([one.about.begin, one.about.end]))
            for place, one in enumerate(self.summaries)
        ]
        return min(int(one[0]) for one in spans), max(int(one[1]) for one in spans)

    @property
    def length(self) -> int:
        """Length of the window, at least 1 ns."""
        return max(self.window[1] - self.window[0], 1)

    @cached_property
    def world_sizes(self) -> dict[int, list[int]]:
        """The job sizes stated by the recordings and the ranks that state each; the most common one first."""
        said: dict[int, list[int]] = {}
        for one in self.summaries:
            if one.about.world_size:
                said.setdefault(one.about.world_size, []).append(one.about.rank)
        return dict(sorted(said.items(), key=lambda item: (-len(item[1]), -item[0])))

    @property
    def world_size(self) -> int | None:
        """The number of ranks according to most recordings; None if no recording says."""
        return next(iter(self.world_sizes), None)

    @property
    def missing(self) -> list[int]:
        """Ranks of the job without a recording."""
        there = {one.about.rank for one in self.summaries}
        return [rank for rank in range(self.world_size or 0) if rank not in there]

    def times(self, group: Communicator, column: str) -> Column:
        """`start` or `end` of a group's operations on the reference clock, by operation and rank; 0 where missing."""
        own = group.of(self.summaries, column)
        parts = [self.clocks.corrected(rank, own[:, place]) for place, rank in enumerate(group.ranks)]
        return np.where(group.row >= 0, np.stack(parts, 1), 0)


def load(paths: Sequence[Any], executor: Executor | None = None) -> Job:
    """Load a job; missing summaries are made by the executor, one trace or file at a time.

    Its workers store them beside the traces, and they are read from there, which is cheaper than sending them.

    Raises:
        UsageError: when nothing at a path can be read.
        WarpsightError: when no file could be read.
    """
    found = places.find(paths)
    failed = [
        (path, "the recording was not finished; warpsight recover makes a trace of it")
        for path in found.unfinished
    ]
    known = {path: one for path in found.traces if (one := cache.kept(path)) is not None}
    missing = [path for path in found.traces if path not in known]
    for outcome in (executor or LocalExecutor()).map(cache.make, missing) if missing else ():
        path = missing[outcome.place]
        if outcome.value is None:
            failed.append((path, outcome.error))
            continue
        made = outcome.value or cache.kept(path)
        if made is None:
            failed.append((path, "its summary disappeared while the job was read: read it again"))
        else:
            known[path] = made
    summaries = [one for path in found.traces for one in known.get(path, ())]
    dumps = []
    for path in found.dumps:
        try:
            dumps.append(flight_recorder.read(path))
        except WarpsightError as error:
            failed.append((path, str(error)))
    if not summaries and not dumps:
        raise WarpsightError(
            "; ".join(f"{path}: {reason.removeprefix(f'{path}: ')}" for path, reason in failed)
            or "there is nothing to analyze"
        )
    ranked = _ranked(summaries)
    renumbered = tuple(
        (one.about.path, before, one.about.rank)
        for one, before in ranked
        if before >= 0 and before != one.about.rank
    )
    dumps.sort(key=lambda dump: dump.rank)
    return Job(tuple(one for one, _ in ranked), tuple(dumps), tuple(sorted(failed)), renumbered)


def _ranked(summaries: Sequence[RankSummary]) -> list[tuple[RankSummary, int]]:
    """Summaries by rank, and the ranks they claim; those without a number, or with another's, get the next free ones."""
    ordered = sorted(
        summaries, key=lambda one: (one.about.rank < 0, one.about.rank, one.about.path, one.about.process)
    )
    claimed = {one.about.rank for one in ordered}
    free = (number for number in count() if number not in claimed)
    out, used = [], {-1}
    for one in ordered:
        rank = one.about.rank
        if rank < 0 or rank in used:
            number = next(free)
            out.append((replace(one, about=replace(one.about, rank=number)), rank))
        else:
            out.append((one, rank))
        used.add(rank)
    return sorted(out, key=lambda pair: pair[0].about.rank)

"""The iterations of a run that count, and how much each counts: the only place where `diff` looks for iterations.

Other activity on the machine makes some iterations slower and none faster, so the faster half counts: of iterations for the time
of an iteration, and of alike launches for device time (:meth:`RunTurns.undisturbed`). Iterations of different kinds (every tenth
evaluates, say) are distinguished by the kernels they launch; each kind counts by how often it occurs. Device time is summed up
from cells, so rows add up. What happens to the slow iterations shows in the measure `slowest tenth`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.steps import iterations
from warpsight.analysis.steps.iterations import Iterations
from warpsight.model.selection import Rows
from warpsight.model.work import Work

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Share of the iterations of a kind that is dropped, the slowest ones.
SLOWEST = 0.5
#: Minimum number of iterations for their slowest tenth to be a separate measure.
TENTH = 20
_NUMBER = re.compile(r"#?\d[\d,]*")
_ANNOUNCED = re.compile(r"^(?:range|operator|event) '(.*)'$", re.DOTALL)
#: Ranges and calls from libraries: even if they repeat, the program does not call them iterations.
_LIBRARY = re.compile(r"nccl|rccl|cuda|cudnn|cublas|cu[A-Z]|hip[A-Z]|cl[A-Z]|MPI_|aten::|<|\$")


@dataclass(frozen=True)
class RunTurns:
    """Iterations of a run, or the whole recording as one.

    Attributes:
        source: How they were found, numbers as `#`; "" for the whole recording.
        name: What the program calls one; None where it says nothing.
        kinds: How many kinds of iterations there are.
        place: For each row of work its iteration, -1 for work outside of those that count.
        weight: Weight of each iteration in the run's value; they sum up to 1.
        duration: Length of each, ns.
        busy: Time with device work in each, ns.
        kind: Kind of each, a number.
        share: Share of each in a plain mean over iterations (over processes, where several have a loop).
    """

    source: str
    name: str | None
    kinds: int
    place: Column
    weight: Column
    duration: Column
    busy: Column
    kind: Column
    share: Column

    def __len__(self) -> int:
        return len(self.duration)

    def undisturbed(self, cell: Column, length: Column) -> Column:
        """The weight of each row of work in the value of its cell: 0 for rows slower than the faster half of their kind.

        Launches are of the same kind if they are the k-th launch of a cell in iterations of one kind. A disturbance hits only
        some kernels of an iteration, so judging each launch alone keeps more than judging whole iterations. With three iterations
        of one kind

            cell gemm, first launch:   10  90  11   → mean of 10 and 11
            cell gemm, second launch:  12  12  13   → mean of 12 and 12

        the cell takes 10.5 + 12 per iteration.
        """
        out = np.zeros(len(cell))
        inside = np.flatnonzero(self.place >= 0)
        if not self.source:  # the whole recording: every row counts
            out[inside] = 1.0
            return out
        turn = self.place[inside]
        key = _numbered(cell[inside], self.kind[turn], _ordinal(turn, cell[inside]))
        order = np.lexsort((length[inside], key))
        count = np.bincount(key)
        rank = np.empty(len(inside), np.int64)
        rank[order] = np.arange(len(inside)) - np.repeat(np.cumsum(count) - count, count)
        kept = count - (SLOWEST * count).astype(np.int64)
        # The rows kept represent all launches of their kind.
        out[inside] = np.where(rank < kept[key], (count / kept)[key] * self.share[turn], 0.0)
        return out


def _numbered(*columns: Column) -> Column:
    """A number, from 0, for each distinct row of some columns."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        found = np.unique(found * len(values) + number, return_inverse=True)[1]
    return found


def _ordinal(turn: Column, cell: Column) -> Column:
    """How many earlier rows have the same iteration and cell; rows are in time order."""
    both = _numbered(turn, cell)
    order = np.argsort(both, kind="stable")
    count = np.bincount(both)
    out = np.empty(len(both), np.int64)
    out[order] = np.arange(len(both)) - np.repeat(np.cumsum(count) - count, count)
    return out


def whole(work: Work) -> RunTurns:
    """The whole recording as one iteration: from the first to the last device work."""
    one = np.ones(1)
    length = np.array([max(work.finish - work.begin, 0)])
    return RunTurns("", None, 1, np.zeros(len(work), np.int64), one, length, np.array([work.of_kind().total]),
                 np.zeros(1, np.int64), one)  # fmt: skip


def find(trace: StoredTrace, rows: Rows, work: Work) -> RunTurns | None:
    """The steady iterations of all processes of a run; None if there are none."""
    loops = iterations.find(trace, rows, work)
    if not loops:
        return None
    place = np.full(len(work), -1, np.int64)
    weights, durations, busy, each, shares = [], [], [], [], []
    kinds = number = before = 0
    for loop in loops:
        counts = np.diff(np.append(loop.first, len(loop.rows)))
        kept = np.where(loop.steady, number + np.cumsum(loop.steady) - 1, -1)
        place[loop.rows[int(loop.first[0]) :]] = np.repeat(kept, counts)
        number += int(loop.steady.sum())
        kind = _kinds(loop)[loop.steady]
        own = len(np.unique(kind))
        each.append(_numbered(kind) + before)
        kinds, before = max(kinds, own), before + own
        shares.append(np.full(len(kind), 1 / len(kind) / len(loops)))
        duration = loop.duration[loop.steady]
        weights.append(_weights(kind, duration) / len(loops))
        durations.append(duration)
        busy.append(iterations.busy(loop)[loop.steady])
    sources = dict.fromkeys(_NUMBER.sub("#", loop.source) for loop in loops)
    return RunTurns(", ".join(sources), _name(loops), kinds, place, np.concatenate(weights), np.concatenate(durations),
                 np.concatenate(busy), np.concatenate(each), np.concatenate(shares))  # fmt: skip


def _kinds(loop: Iterations) -> Column:
    """The kind of each iteration, a number: equal kernels equally often are one kind.

    The launches of an iteration are summed up as scrambled names, so that their order does not matter:
    `scramble(gemm) + scramble(softmax)` is one kind however the two streams interleave.
    """
    rows = loop.rows[int(loop.first[0]) :]
    keys = loop.work.name_id[rows].astype(np.uint64) * np.uint64(4) + loop.work.kind[rows].astype(np.uint64)
    keys = (keys + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    keys ^= keys >> np.uint64(29)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    sums = np.add.reduceat(keys, loop.first - loop.first[0])
    kinds: Column = np.unique(sums, return_inverse=True)[1]
    return kinds


def _weights(kind: Column, duration: Column) -> Column:
    """Weights that leave out the slower half of each kind and keep the share of each kind."""
    out = np.zeros(len(duration))
    for number in np.unique(kind).tolist():
        mine = np.flatnonzero(kind == number)
        order = mine[np.argsort(duration[mine], kind="stable")]
        kept = order[: len(order) - int(SLOWEST * len(order))]
        out[kept] = len(mine) / len(kind) / len(kept)
    return out


def _name(loops: list[Iterations]) -> str | None:
    """What the program calls an iteration: its range's name without numbers."""
    names = set()
    for loop in loops:
        if "ws.step()" in loop.source:
            names.add("step")
        elif (found := _ANNOUNCED.match(loop.source)) and not _LIBRARY.match(found[1]):
            names.add(_NUMBER.sub("", found[1].replace("#", "")).strip(" \t:_-=/.()[]"))
    names.discard("")
    return names.pop() if len(names) == 1 else None

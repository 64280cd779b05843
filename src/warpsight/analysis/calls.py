"""Host calls that made device work: which call each kernel, copy or set came from, by (process, correlation)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from warpsight.trace import Trace

Column = NDArray[Any]


@dataclass(frozen=True)
class Calls:
    """Calls as columns (ns): all rows of table launch, then all of table api where it was asked for.

    `end` is `start` for a call that had not returned; `correlation` and `thread` are as recorded, -1 and 0 where unknown.
    """

    start: Column
    end: Column
    thread: Column
    process: Column
    correlation: Column
    stack: Column
    name_id: Column
    launches: int

    def __len__(self) -> int:
        return len(self.start)

    #: What :meth:`of` found out about each process's correlations, kept for the next time.
    places: dict[int, Places] = field(default_factory=dict, repr=False, compare=False)

    def of(self, process: Column, correlation: Column) -> Column:
        """For each (process, correlation) the index of its call, -1 where the trace has none."""
        return _found(process, correlation, self.process, self.correlation, self.places)


def load(trace: Trace, *, api: bool = False, processes: tuple[int, ...] = ()) -> Calls:
    """The launch calls of a trace, and with `api` the other calls."""
    where = f"WHERE process IN ({', '.join(map(str, processes))})" if processes else ""
    columns = "start, coalesce(duration, 0), thread, process, coalesce(correlation, -1), coalesce(stack, 0)"
    tables = [
        trace.sql(f"SELECT {columns}, coalesce(name_id, 0) FROM launch_ids {where}").to_arrow_table(),
    ]
    if api:
        tables.append(trace.sql(f"SELECT {columns}, 0::INTEGER FROM api {where}").to_arrow_table())
    joint = [np.concatenate([t.column(i).to_numpy() for t in tables]) for i in range(7)]
    start, duration, thread, process, correlation, stack, name = joint
    end = start + np.maximum(duration, 0)
    return Calls(start, end, thread, process, correlation, stack, name, len(tables[0]))


def joined(process: Column, key: Column, other_process: Column, other_key: Column) -> Column:
    """For each (process, key) the index of the first equal pair among the others, -1 where there is none.

    Keys below 0 match nothing. Correlations are dense, so a pair is found by its place in a table, not by hashing.
    """
    return _found(process, key, other_process, other_key, {})


class Places:
    """Where each key of a column is first: a table when the keys lie close together, else the sorted keys."""

    def __init__(self, keys: Column, rows: Column | None) -> None:
        """Prepare `keys`; `rows` are their indices in the whole column, None: they are the whole column."""
        self._low, high = max(int(keys.min()), 0), int(keys.max())
        self._dense = high - self._low <= 8 * len(keys) + 4096
        self._rows = rows
        if self._dense:
            self._table = np.full(
                max(high - self._low + 1, 0), -1, np.int32 if len(keys) < 1 << 31 else np.int64
            )
            real = np.flatnonzero(keys >= self._low)[::-1]
            self._table[keys[real] - self._low] = real  # of equal keys the first is written last
        else:
            self._order = np.argsort(keys, kind="stable")
            self._keys = keys[self._order]

    def __call__(self, wanted: Column) -> Column:
        """The index of the first row with each key, -1 none."""
        out = np.full(len(wanted), -1, np.int64)
        if self._dense:
            inside = (wanted >= self._low) & (wanted < self._low + len(self._table))
            out[inside] = self._table[wanted[inside] - self._low]
        else:
            place = np.minimum(np.searchsorted(self._keys, wanted, "left"), len(self._keys) - 1)
            hit = (self._keys[place] == wanted) & (wanted >= 0)
            out[hit] = self._order[place[hit]]
        return out if self._rows is None else np.where(out >= 0, self._rows[np.maximum(out, 0)], -1)


def _found(
    process: Column, key: Column, other_process: Column, other_key: Column, places: dict[int, Places]
) -> Column:
    out = np.full(len(key), -1, np.int64)
    wanted, have = _processes(process), _processes(other_process)
    for number in wanted:
        if number not in have:
            continue
        if number not in places:
            rows = None if len(have) == 1 else np.flatnonzero(other_process == number)
            places[number] = Places(other_key if rows is None else other_key[rows], rows)
        if len(wanted) == 1:
            return places[number](key)
        mine = np.flatnonzero(process == number)
        out[mine] = places[number](key[mine])
    return out


def _processes(column: Column) -> list[int]:
    if not len(column):
        return []
    low, high = int(column.min()), int(column.max())
    if low == high:
        return [low]
    if high - low > len(column) + 1024:
        found: list[int] = np.unique(column).tolist()
    else:
        found = (np.flatnonzero(np.bincount(column - low)) + low).tolist()
    return found

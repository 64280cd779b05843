"""Any number of values by line and key (a thread and a moment; a correlation), mostly in a temporary file.

Records are taken in any order. Once there are enough, they are sorted by key and written as one run. For lookups, keys are
divided into ranges of about equal size. The records of one range are collected from all runs, sorted, and kept for a while,
because lookups come roughly in the order of the file, too.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
#: Records in a run, in a block whose first key is remembered, and in a range.
RUN = 1 << 18
BLOCK = 1 << 11
RANGE = 1 << 18
#: Number of cached ranges.
_KEPT = 4
_RECORD = np.dtype([("key", np.int64), ("order", np.int64), ("value", np.int64), ("line", np.int32)])


@dataclass(frozen=True)
class _Run:
    """A sorted run of records: its place in the file, and the first key of each block."""

    place: int
    count: int
    keys: Int64
    last: int


@dataclass(frozen=True)
class _Range:
    """Sorted records of a range of keys; those of line `lines[i]` are between `borders[i]` and `borders[i + 1]`."""

    lines: Int32
    borders: Int64
    keys: Int64
    values: Int64


class Ordered:
    """Takes records first, then answers; :meth:`close` removes the file.

    Of several records with the same line and key, one counts: among those with the greatest `order`, the last if that order is
    below 0, otherwise the first.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._waiting: list[NDArray[Any]] = []
        self._count = 0
        self._numbers: dict[int, int] = {}
        self._runs: list[_Run] = []
        self._file: IO[bytes] | None = None
        self._firsts: Int64 | None = None
        self._kept: dict[int, _Range] = {}
        #: By range: the value that each line had before it.
        self._before: NDArray[np.int64] | None = None

    def add(self, lines: Int64, keys: Int64, values: object, order: object = 0) -> None:
        """Add records."""
        if not len(keys):
            return
        records = np.empty(len(keys), _RECORD)
        records["key"], records["value"], records["order"] = keys, values, order
        records["line"] = self._lines(lines, new=True)
        self._waiting.append(records)
        self._count += len(records)
        if self._count >= RUN:
            self._spill()

    def __bool__(self) -> bool:
        """Whether there are any records."""
        return bool(self._count or self._runs)

    def _lines(self, lines: Int64, new: bool = False) -> Int32:
        """Lines as small numbers; -1 for lines without records."""
        found, which = np.unique(lines, return_inverse=True)
        if new:
            for line in found.tolist():
                self._numbers.setdefault(line, len(self._numbers))
        return np.array([self._numbers.get(line, -1) for line in found.tolist()], np.int32)[which]

    def _spill(self) -> None:
        records = np.concatenate(self._waiting)
        self._waiting, self._count = [], 0
        records = records[np.argsort(records["key"], kind="stable")]
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="warpsight-")  # noqa: SIM115 - close() does
        place = self._file.seek(0, 2)
        self._file.write(records.data)
        keys = records["key"]
        self._runs.append(_Run(place, len(records), keys[::BLOCK].copy(), int(keys[-1])))

    def _finish(self) -> Int64:
        """Cut the keys into ranges; returns the first key of each."""
        if self._firsts is None:
            if self._runs and self._count:
                self._spill()
            starts = np.sort(np.concatenate([run.keys for run in self._runs] or [np.zeros(1, np.int64)]))
            self._firsts = np.unique(starts[:: RANGE // BLOCK])
            self._firsts[0] = np.iinfo(np.int64).min
        return self._firsts

    def find(self, lines: Int64, keys: Int64) -> Int64:
        """Values of exactly these lines and keys, or 0."""
        return self._values_at(lines, keys, exact=True)

    def before(self, lines: Int64, keys: Int64) -> Int64:
        """Values of the last records of lines up to some keys, or 0."""
        if len(self._finish()) > 1 and self._before is None:
            self._look_back()
        return self._values_at(lines, keys, exact=False)

    def _look_back(self) -> None:
        ranges = len(self._finish())
        self._before = np.zeros((ranges, len(self._numbers)), np.int64)
        for number in range(ranges - 1):
            found = self._range(number)
            self._before[number + 1] = self._before[number]
            self._before[number + 1, found.lines] = found.values[found.borders[1:] - 1]

    def _values_at(self, lines: Int64, keys: Int64, exact: bool) -> Int64:
        values = np.zeros(len(keys), np.int64)
        if not self or not len(keys):
            return values
        numbers = self._lines(lines)
        ranges = np.searchsorted(self._finish(), keys, "right") - 1
        for number in np.unique(ranges).tolist():
            found = self._range(number)
            inside = ranges == number
            for line in np.unique(numbers[inside]).tolist():
                if line >= 0:
                    rows = np.flatnonzero(inside & (numbers == line))
                    values[rows] = self._of_line(found, number, line, keys[rows], exact)
        return values

    def _of_line(self, found: _Range, number: int, line: int, keys: Int64, exact: bool) -> Int64:
        index = int(np.searchsorted(found.lines, line))
        known = index < len(found.lines) and found.lines[index] == line
        a, b = found.borders[index : index + 2].tolist() if known else (0, 0)
        earlier = 0 if exact or self._before is None else int(self._before[number, line])
        if a == b:
            return np.full(len(keys), earlier)
        place = np.searchsorted(found.keys[a:b], keys, "right") - 1
        there = place >= 0
        place = np.maximum(place, 0) + a
        if exact:
            there &= found.keys[place] == keys
        return np.where(there, found.values[place], earlier)

    def _range(self, number: int) -> _Range:
        found = self._kept.pop(number, None)
        if found is None:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            found = _sorted(self._records(number))
        self._kept[number] = found
        return found

    def _records(self, number: int) -> NDArray[Any]:
        """The records of one range; those with the same key in order of arrival."""
        if self._file is None:
            return np.concatenate(self._waiting)
        firsts = self._finish()
        first, last = int(firsts[number]), int(firsts[number + 1]) if number + 1 < len(firsts) else None
        parts = [np.empty(0, _RECORD)]
        for run in self._runs:
            if run.last < first or (last is not None and run.keys[0] >= last):
                continue
            begin = max(int(np.searchsorted(run.keys, first)) - 1, 0) * BLOCK
            end = run.count if last is None else min(int(np.searchsorted(run.keys, last)) * BLOCK, run.count)
            self._file.seek(run.place + begin * _RECORD.itemsize)
            records = np.frombuffer(self._file.read((end - begin) * _RECORD.itemsize), _RECORD)
            keys = records["key"]
            a = int(np.searchsorted(keys, first))
            b = len(keys) if last is None else int(np.searchsorted(keys, last))
            parts.append(records[a:b])
        return np.concatenate(parts)

    def close(self) -> None:
        """Drop everything."""
        self._waiting, self._kept = [], {}
        if self._file is not None:
            self._file.close()
            self._file = None


def _sorted(records: NDArray[Any]) -> _Range:
    """For records with the same line and key, keep only the one that counts."""
    key, line, order = records["key"], records["line"], records["order"]
    place = np.lexsort((key, line))
    key, line = key[place], line[place]
    same = (key[1:] == key[:-1]) & (line[1:] == line[:-1])
    if same.any():
        tied = np.append(same, False)
        tied[1:] |= same
        rows = place[tied]
        position = order[rows]
        rank = np.lexsort(
            (np.where(position < 0, rows, -rows), position, position < 0, key[tied], line[tied])
        )
        place[tied] = rows[rank]
    last = np.flatnonzero(np.append(~same, len(key) > 0))
    key, line = key[last], line[last]
    lines, borders = np.unique(line, return_index=True)
    return _Range(lines, np.append(borders, len(line)), key, records["value"][place][last])

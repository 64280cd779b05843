"""Exact summaries of millions of durations per group, computed from a histogram of distinct values.

GPU timestamps are coarse, so a kernel has few distinct durations. Rows become one integer (group above, value below), and are
counted: by their place in a table if the integers are small, otherwise sorted. Every statistic follows from the small histogram.
Ten million rows take a third of the time of an SQL quantile (benchmarks/stats.py), and nothing is approximate.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.model.workers import processors

if TYPE_CHECKING:
    import duckdb

Column = NDArray[Any]
#: Columns of a summary, in the order they are shown.
SUMMARY = ("count", "total", "mean", "min", "median", "p95", "p99", "max", "std")
_SLICE_ROWS = 1_000_000


@dataclass(frozen=True)
class ValueCounts:
    """How often each value occurs in each group; sorted by group, then value. `group` counts from 0."""

    group: Column
    value: Column
    count: Column
    groups: int


def count_pairs(ids: duckdb.DuckDBPyRelation) -> tuple[Column, ValueCounts]:
    """Histogram of a relation of two integer columns, id and value, both not null and not negative ids.

    Returns:
        The id behind each group, and the histogram.
    """
    batches = ids.to_arrow_table().to_batches(_SLICE_ROWS)
    return count_columns([(b.column(0).to_numpy(), b.column(1).to_numpy()) for b in batches if len(b)])


def count_columns(chunks: list[tuple[Column, Column]]) -> tuple[Column, ValueCounts]:
    """Histogram of two columns, given in pieces; each piece must have rows."""
    if not chunks:
        return np.empty(0, np.int64), ValueCounts(*(np.empty(0, np.int64),) * 3, 0)
    low = min(int(values.min()) for _, values in chunks)
    shift = max(1, (max(int(values.max()) for _, values in chunks) - low).bit_length())
    if max(int(names.max()) for names, _ in chunks).bit_length() + shift > 62:
        return _count_wide(*(np.concatenate(column) for column in zip(*chunks, strict=True)))
    with ThreadPoolExecutor(processors()) as pool:
        counted = list(pool.map(lambda chunk: _count(chunk[0], chunk[1], low, shift), _batched(chunks)))
    keys = np.concatenate([k for k, _ in counted])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.add.reduceat(np.concatenate([n for _, n in counted])[order], first)
    keys = keys[first]
    found, group = np.unique(keys >> shift, return_inverse=True)
    return found, ValueCounts(group, (keys & ((1 << shift) - 1)) + low, counts, len(found))


def _batched(chunks: list[tuple[Column, Column]]) -> list[tuple[Column, Column]]:
    """Join chunks until they have enough rows to be worth a task."""
    out, waiting, rows = [], [], 0
    for chunk in chunks:
        waiting.append(chunk)
        rows += len(chunk[0])
        if rows >= _SLICE_ROWS or chunk is chunks[-1]:
            names, values = zip(*waiting, strict=True)
            out.append((np.concatenate(names), np.concatenate(values)))
            waiting, rows = [], 0
    return out


def _count(names: Column, values: Column, low: int, shift: int) -> tuple[Column, Column]:
    keys = names.astype(np.int64) << shift
    keys |= values - low
    if int(keys.max()) < 4 * len(keys):
        every = np.bincount(keys)
        found = np.flatnonzero(every)
        return found, every[found]
    keys.sort()
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.diff(np.append(first, len(keys)))


def _count_wide(names: Column, values: Column) -> tuple[Column, ValueCounts]:
    """The same for values that span too many bits for one integer, such as a kernel that ran for days."""
    found, group = np.unique(names, return_inverse=True)
    order = np.lexsort((values, group))
    group, values = group[order], values[order]
    first = np.flatnonzero(np.concatenate([[True], (values[1:] != values[:-1]) | (group[1:] != group[:-1])]))
    return found, ValueCounts(group[first], values[first], np.diff(np.append(first, len(values))), len(found))


def without(ids: Column, histogram: ValueCounts, value: int) -> tuple[Column, ValueCounts, int]:
    """The histogram without the rows of one value, and their number; empty groups are removed."""
    kept = histogram.value != value
    removed = int(histogram.count[~kept].sum())
    if not removed:
        return ids, histogram, 0
    found, group = np.unique(histogram.group[kept], return_inverse=True)
    return ids[found], ValueCounts(group, histogram.value[kept], histogram.count[kept], len(found)), removed


def regroup(histogram: ValueCounts, onto: Column, groups: int) -> ValueCounts:
    """The histogram with group i merged into group `onto[i]`, for several ids with one name."""
    group = onto[histogram.group]
    order = np.lexsort((histogram.value, group))
    return ValueCounts(group[order], histogram.value[order], histogram.count[order], groups)


def summarize(histogram: ValueCounts) -> dict[str, Column]:
    """The columns of :data:`SUMMARY`, one value per group; groups must not be empty.

    As by default in NumPy, percentiles interpolate linearly between the two nearest rows, and the standard deviation is the
    population's.
    """
    first = np.searchsorted(histogram.group, np.arange(histogram.groups))
    weights, values = histogram.count, histogram.value
    count = np.add.reduceat(weights, first) if len(first) else weights
    total = np.add.reduceat(weights * values, first) if len(first) else values
    mean = total / count
    deviation = (values - mean[histogram.group]) ** 2 * weights
    out = {"count": count, "total": total, "mean": mean, "min": values[first],
           "max": values[np.append(first[1:], len(values)) - 1] if len(first) else values,
           "std": np.sqrt(np.add.reduceat(deviation, first) / count) if len(first) else mean}  # fmt: skip
    ends = np.cumsum(weights)
    begin = ends[first] - weights[first]
    for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
        place = (count - 1) * share
        below = np.floor(place).astype(np.int64)
        low = values[np.searchsorted(ends, begin + below, "right")]
        high = values[np.searchsorted(ends, begin + np.minimum(below + 1, count - 1), "right")]
        out[name] = low + (high - low) * (place - below)
    return {name: out[name] for name in SUMMARY}

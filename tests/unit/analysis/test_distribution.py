"""Histograms of durations and what is summed up from them, against NumPy on the plain rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.base import distribution

#: Ids and values of a slice of rows; the wide ones do not fit one integer together.
NARROW = st.tuples(st.integers(0, 4), st.integers(-3, 9))
WIDE = st.tuples(st.sampled_from((0, 3, (1 << 40) + 1)), st.sampled_from((-5, 0, 7, (1 << 61) + 3)))
CHUNKS = st.lists(
    st.one_of(st.lists(NARROW, min_size=1, max_size=12), st.lists(WIDE, min_size=1, max_size=8)), max_size=4
)


def columns(chunk):
    return tuple(np.array(column, np.int64) for column in zip(*chunk, strict=True))


def rows(ids, found):
    """A histogram as a counter of (id, value)."""
    assert found.groups == len(ids)
    place = list(zip(found.group.tolist(), found.value.tolist(), strict=True))
    assert place == sorted(place)
    return Counter(
        {
            (int(ids[g]), v): n
            for g, v, n in zip(*(c.tolist() for c in (found.group, found.value, found.count)), strict=True)
        }
    )


@pytest.mark.parametrize("together", [1, 1_000_000])
@settings(max_examples=60)
@given(chunks=CHUNKS)
def test_every_row_is_counted_once_however_rows_are_cut(together, chunks):
    distribution._SLICE_ROWS, before = together, distribution._SLICE_ROWS
    try:
        ids, found = distribution.count_columns([columns(chunk) for chunk in chunks])
    finally:
        distribution._SLICE_ROWS = before
    assert ids.tolist() == sorted({name for chunk in chunks for name, _ in chunk})
    assert rows(ids, found) == Counter(row for chunk in chunks for row in chunk)


@settings(max_examples=60)
@given(st.lists(NARROW, min_size=1, max_size=40))
def test_summaries_are_those_of_numpy(chunk):
    ids, found = distribution.count_columns([columns(chunk)])
    summary = distribution.summarize(found)
    assert tuple(summary) == distribution.SUMMARY
    for place, name in enumerate(ids.tolist()):
        mine = np.array([value for row, value in chunk if row == name])
        expected = {
            "count": len(mine), "total": mine.sum(), "mean": mine.mean(), "min": mine.min(), "max": mine.max(),
            "median": np.median(mine), "p95": np.percentile(mine, 95), "p99": np.percentile(mine, 99), "std": mine.std(),
        }  # fmt: skip
        assert {key: summary[key][place] for key in summary} == pytest.approx(expected)


@settings(max_examples=60)
@given(st.lists(NARROW, min_size=1, max_size=30), st.integers(-3, 9))
def test_rows_of_one_value_can_be_left_out_and_groups_joined(chunk, value):
    ids, found = distribution.count_columns([columns(chunk)])
    kept, rest, removed = distribution.without(ids, found, value)
    assert rows(kept, rest) == Counter(row for row in chunk if row[1] != value)
    assert removed == sum(v == value for _, v in chunk)
    onto = ids % 2
    joined = distribution.regroup(found, onto, 2)
    counts: Counter[tuple[int, int]] = Counter()
    for group, number, count in zip(
        joined.group.tolist(), joined.value.tolist(), joined.count.tolist(), strict=True
    ):
        counts[group, number] += count
    assert counts == Counter((name % 2, v) for name, v in chunk)


def test_without_rows_there_is_nothing():
    ids, found = distribution.count_columns([])
    assert (len(ids), found.groups) == (0, 0)
    assert all(len(column) == 0 for column in distribution.summarize(found).values())

"""Joining work with its calls, and numbering rows, against dictionaries."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.model import work as device_work
from warpsight.model.calls import joined

#: Dense keys, keys of another CUPTI session (widened to 64 bits), and none.
KEYS = st.one_of(
    st.integers(0, 30), st.integers((5 << 32), (5 << 32) + 30), st.just(-1), st.just((1 << 62) + 3)
)
PAIRS = st.lists(st.tuples(st.integers(0, 2), KEYS), max_size=40)


def columns(pairs):
    return np.array([p for p, _ in pairs], np.int32), np.array([k for _, k in pairs], np.int64)


@settings(max_examples=200)
@given(PAIRS, PAIRS)
def test_joined_finds_the_first_equal_pair(wanted, among):
    first = {}
    for i, pair in enumerate(among):
        first.setdefault(pair, i)
    expected = [first.get(pair, -1) if pair[1] >= 0 else -1 for pair in wanted]
    assert joined(*columns(wanted), *columns(among)).tolist() == expected


COLUMNS = st.lists(
    st.tuples(st.integers(-1, 2), st.sampled_from([-(1 << 15), (1 << 15) - 1]), st.sampled_from([-(1 << 31), 0, (1 << 31) - 1])),
    min_size=1, max_size=30,
)  # fmt: skip


@given(COLUMNS)
def test_numbered_tells_rows_apart_at_the_limits_of_their_types(rows):
    raw = [
        np.array(c, t) for c, t in zip(zip(*rows, strict=True), (np.int16, np.int16, np.int32), strict=True)
    ]
    code, distinct = device_work.numbered(raw)
    listed = sorted(set(rows))
    assert [tuple(r) for r in zip(*(c.tolist() for c in distinct), strict=True)] == listed
    assert code.tolist() == [listed.index(row) for row in rows]


@given(st.lists(st.integers(0, 5), max_size=30))
def test_split_gives_the_rows_of_each_group_in_order(groups):
    parts = device_work.split(np.array(groups, np.int32), 6)
    assert [p.tolist() for p in parts] == [[i for i, g in enumerate(groups) if g == n] for n in range(6)]

"""Stacks are found by Python's ids, however far apart those are and in whatever order they come."""

from __future__ import annotations

import numpy as np

from warpsight.formats.kineto.stacks import _ById


def test_every_id_has_the_stack_that_was_kept_last() -> None:
    random = np.random.default_rng(1)
    found, expected = _ById(), {}
    for most in (10, 1 << 16, (1 << 16) + 5, 1 << 20, 1 << 40, 100):
        ids = random.integers(0, most, 200)
        edges = [(1 << 16) - 1, 1 << 16, 4 * (len(expected) + 204) + (1 << 16), most]
        ids = np.unique(np.concatenate([ids, edges])).astype(np.int64)
        stacks = random.integers(1, 1000, len(ids)).astype(np.int32)
        found.keep(ids, stacks)
        expected |= dict(zip(ids.tolist(), stacks.tolist(), strict=True))
        assert found.of(ids).tolist() == stacks.tolist()
    wanted = np.array([*expected, 3, -1, 1 << 50], np.int64)
    assert found.of(wanted).tolist() == [expected.get(one, 0) for one in wanted.tolist()]


def test_ids_below_zero_are_unknown() -> None:
    found = _ById()
    found.keep(np.array([-5, 5]), np.array([1, 2], np.int32))
    assert found.of(np.array([-5, 5])).tolist() == [0, 2]

"""The tests of `diff`, on values whose truth is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.diff import statistics
from warpsight.analysis.diff.design import Design


def design(runs=5, in_turn=True):
    times = range(1, 2 * runs + 1)
    return Design.of(times[::2], times[1::2]) if in_turn else Design.of(times[:runs], times[runs:])


def test_the_largest_t_is_compared_with_that_of_every_relabeling():
    rng = np.random.default_rng(4)
    values, d = rng.normal(0, 1, (3, 6)), Design.of([None] * 3, [None] * 3)

    def t(row, second):
        one = [row[i] for i in range(6) if i not in second]
        two = [row[i] for i in second]
        pooled = (np.var(one, ddof=1) * 2 + np.var(two, ddof=1) * 2) / 4
        return abs(np.mean(two) - np.mean(one)) / np.sqrt(pooled * (1 / 3 + 1 / 3) + statistics.FLOOR**2)

    ways = list(itertools.combinations(range(6), 3))
    largest = [max(t(row, way) for row in values) for way in ways]
    expected = [np.mean([most >= t(row, (3, 4, 5)) * (1 - 1e-9) for most in largest]) for row in values]
    assert statistics.largest_t(values, d)[0] == pytest.approx(expected)


def test_trimmed_means_leave_out_one_run_at_each_end():
    d = design()
    values = np.zeros((1, 10))
    values[0, :5], values[0, 5:] = [1, 2, 3, 4, 100], [11, 12, 13, 14, -50]
    fit = statistics.trimmed(values, d, 0.2)
    assert fit.change[0] == pytest.approx(12 - 3)
    # Winsorized: 2 2 3 4 4 and 11 11 12 13 13; variance 1 each; h = 3.
    assert fit.error[0] == pytest.approx(np.sqrt(2 * 1 * 4 / (3 * 2)), rel=1e-4)
    assert fit.freedom[0] == pytest.approx(4)


def test_without_trimming_it_is_welch():
    rng = np.random.default_rng(5)
    values = rng.normal(0, [[1.0] * 5 + [3.0] * 5])
    fit = statistics.trimmed(values, design(), 0.0)
    one, two = values[0, :5].var(ddof=1) / 5, values[0, 5:].var(ddof=1) / 5
    assert fit.error[0] == pytest.approx(np.sqrt(one + two), rel=1e-4)
    assert fit.freedom[0] == pytest.approx((one + two) ** 2 / (one**2 / 4 + two**2 / 4))


def test_adjusted_p_values_follow_the_definition():
    p = np.array([0.01, 0.04, 0.03, 0.5])
    expected = [min(1, min(q * 4 / np.sum(p <= q) for q in p if q >= one)) for one in p]
    found, level = statistics.benjamini_hochberg(p, 0.05)
    assert found == pytest.approx(expected)
    assert [one <= level for one in p] == [one <= 0.05 for one in found]


def test_a_drift_of_the_machine_is_no_change():
    line = np.arange(10) * 0.03
    rng = np.random.default_rng(6)
    for in_turn in (True, False):
        d = design(in_turn=in_turn)
        called = [
            statistics.headline((line[d.order] + rng.normal(0, 0.002, 10))[None], d)[0].called[0]
            for _ in range(300)
        ]
        assert np.mean(called) <= 0.05


def test_turns_find_through_a_drift_what_sides_apart_cannot():
    rng, d = np.random.default_rng(7), design()
    wandering = np.cumsum(rng.normal(0, 0.03, 10))
    values = (wandering + rng.normal(0, 0.002, 10))[d.order] + np.where(d.after, 0.15, 0)
    assert statistics.headline(values[None], d)[0].called[0]


def test_what_could_have_been_seen_is_found_four_times_in_five():
    rng, d = np.random.default_rng(8), design(6)
    needed = np.median([statistics.headline(rng.normal(0, 0.01, (1, 12)), d)[1] for _ in range(400)])
    found = [
        statistics.headline(rng.normal(0, 0.01, (1, 12)) + np.where(d.after, needed, 0), d)[0].called[0]
        for _ in range(400)
    ]
    assert 0.7 < np.mean(found) < 0.9


values = st.lists(st.floats(-1, 1), min_size=10, max_size=10)


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=6), st.booleans())
def test_an_interval_leaves_out_zero_exactly_where_a_change_is_called(rows, in_turn):
    d = design(in_turn=in_turn)
    for found in (statistics.family(np.array(rows), d), statistics.headline(np.array(rows)[:1], d)[0]):
        assert (((found.low > 0) | (found.high < 0)) == found.called).all()
        assert ((found.low <= found.change + 1e-9) & (found.change <= found.high + 1e-9)).all()


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=6), st.booleans(), st.floats(-20, 20))
def test_units_do_not_matter_and_sides_swapped_change_the_sign(rows, in_turn, shift):
    d, one = design(in_turn=in_turn), np.array(rows)
    back = Design.of([int(t) + 1 for t in d.order[d.after]], [int(t) + 1 for t in d.order[~d.after]])
    found, swapped = statistics.family(one, d), statistics.family(one[:, [*range(5, 10), *range(5)]], back)
    assert swapped.change == pytest.approx(-found.change, abs=1e-9)
    assert (swapped.called == found.called).all()
    assert (statistics.family(one + shift, d).called == found.called).all()


def test_rows_that_are_not_finite_are_never_called():
    rows = np.full((3, 10), np.nan)
    rows[1] = [0.0] * 5 + [1.0] * 5
    found = statistics.family(rows + np.random.default_rng(9).normal(0, 0.01, 10), design())
    assert found.called.tolist() == [False, True, False]


@pytest.mark.parametrize("in_turn", [True, False])
def test_the_interval_of_a_headline_holds_that_of_every_test(in_turn):
    d = design(in_turn=in_turn)
    for seed in range(20):
        values = np.random.default_rng(seed).normal([0.0] * 5 + [0.4] * 5, 0.2)[None]
        fits = statistics.sides(values, d)
        found, _ = statistics.headline(values, d)
        ends = [fit.interval(statistics.HEADLINE) for fit in fits]
        assert found.low[0] == min(found.change[0], *(low[0] for low, _ in ends))
        assert found.high[0] == max(found.change[0], *(high[0] for _, high in ends))
        assert found.called[0] == all(fit.p()[0] < statistics.HEADLINE for fit in fits)
        worst = max(fit.p()[0] for fit in fits)
        assert found.p[0] == pytest.approx(worst if found.called[0] else max(worst, statistics.HEADLINE))


def test_pairs_have_one_degree_of_freedom_less_than_there_are_pairs():
    """Differences 1, 2, 3, 4: t = 2.5 / (1.291 / 2) = 3.873, of which Student's table gives 3.05% with 3 degrees."""
    values = np.array([[0.0, 0, 0, 0, 1, 2, 3, 4]])
    fit = statistics.paired(values, Design.of(range(1, 8, 2), range(2, 9, 2)))
    assert fit.p()[0] == pytest.approx(0.0305, abs=1e-4)


def test_the_smallest_visible_change_is_that_of_level_and_power():
    """Student's table for 3 degrees: 5.841 for the level of 1%, 0.978 for a power of 80%."""
    values = np.array([[0.0, 0, 0, 0, 1, 2, 3, 4]])
    _, needed = statistics.headline(values, Design.of(range(1, 8, 2), range(2, 9, 2)))
    error = np.sqrt(np.var([1, 2, 3, 4], ddof=1) / 4 + statistics.FLOOR**2)
    assert needed == pytest.approx((5.841 + 0.978) * error, rel=1e-3)


def test_the_t_to_exceed_agrees_with_the_p_value_of_a_permutation_test():
    """Three runs against five: 56 labelings, so a row may be reached by one other and is still below 5%."""
    d, second = Design.of([None] * 3, [None] * 5), 0
    for seed in range(200):
        values = np.random.default_rng(seed).normal([0.0] * 3 + [1.5] * 5, 1.0)[None]
        p, limit, error = statistics.largest_t(values, d)
        t = abs(statistics.difference(values, d)[0]) / error[0]
        assert (t > limit) == (p[0] <= 0.05)
        second += p[0] == pytest.approx(2 / 56)
    assert second

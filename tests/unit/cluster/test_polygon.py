"""The lines that constraints on a clock allow, against all corners that any two constraints make."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from warpsight.cluster.clocks import clock_fit
from warpsight.cluster.clocks.clock_fit import MOST_DRIFT, Constraints, OffsetStretch

DRIFT = Fraction(MOST_DRIFT)
MOMENTS = (-4_000_000, 0, 1_500_000, 9_000_000)
#: Moment, least offset, room above it; and whether the upper, the lower side or both are known.
ROW = st.tuples(
    st.integers(0, 5_000_000), st.integers(-3_000, 3_000), st.integers(0, 4_000), st.sampled_from("hlb")
)


def allowed(rows: list[tuple[int, int, int, str]]) -> list[tuple[Fraction, Fraction]] | None:
    """Corners (level at 0, drift) of all lines that no constraint forbids; None without any."""
    bounds = [(Fraction(at), Fraction(low), False) for at, low, _, side in rows if side != "h"]
    bounds += [(Fraction(at), Fraction(low + room), True) for at, low, room, side in rows if side != "l"]

    def fits(level: Fraction, drift: Fraction) -> bool:
        return abs(drift) <= DRIFT and all(
            level + drift * at <= value if upper else level + drift * at >= value
            for at, value, upper in bounds
        )

    corners = [(value - drift * at, drift) for at, value, _ in bounds for drift in (-DRIFT, DRIFT)]
    for (at, value, _), (other, more, _) in itertools.combinations(bounds, 2):
        if at != other:
            drift = (more - value) / (other - at)
            corners.append((value - drift * at, drift))
    return [corner for corner in corners if fits(*corner)] or None


@settings(deadline=None, max_examples=150)
@given(st.lists(ROW, min_size=1, max_size=6))
@example([(0, 0, 0, "l"), (1_999_989, -1, 0, "b")])
def test_the_limits_at_every_moment_are_those_of_the_extreme_lines(
    rows: list[tuple[int, int, int, str]],
) -> None:
    rows = sorted(rows)
    sides = "".join(side for *_, side in rows)
    if not ({"h", "b"} & set(sides) and {"l", "b"} & set(sides)):
        return
    found = Constraints(
        *[np.array([at for at, *_ in rows])] * 2,
        np.array([-np.inf if side == "h" else low for _, low, _, side in rows], float),
        np.array([np.inf if side == "l" else low + room for _, low, room, side in rows], float),
        np.full(len(rows), np.nan), 0,
    )  # fmt: skip
    polygon, gap, _ = clock_fit._polygon(found, 0.0)
    corners = allowed(rows)
    if polygon is None:
        assert corners is None or gap < 1e-3  # a single line
        return
    assert corners is not None
    stretch = OffsetStretch(0, 0, polygon.origin, 0.0, 0.0, polygon.slopes, polygon.highest, polygon.lowest)
    low, high = stretch.limits(np.array(MOMENTS))
    for number, at in enumerate(MOMENTS):
        values = [float(level + drift * at) for level, drift in corners]
        assert (low[number], high[number]) == pytest.approx((min(values), max(values)), abs=0.01)


def test_room_between_the_limits_grows_by_the_slack_on_both_sides() -> None:
    found = Constraints(
        *[np.array([0, 1_000])] * 2, np.array([5.0, 5.0]), np.array([9.0, 9.0]), np.full(2, np.nan), 0
    )
    for slack in (0.0, 3.0):
        polygon, _, _ = clock_fit._polygon(found, slack)
        assert polygon is not None
        stretch = OffsetStretch(
            0, 0, polygon.origin, 0.0, 0.0, polygon.slopes, polygon.highest, polygon.lowest
        )
        low, high = stretch.limits(np.array([500]))
        assert (low[0], high[0]) == pytest.approx((5 - slack, 9 + slack), abs=0.3)


def test_the_constraint_that_contradicts_most_others_is_named() -> None:
    low = np.array([0.0, 0, 0, 0, 50_000, 0])
    found = Constraints(*[np.arange(6) * 1_000] * 2, low, low + 10, np.full(6, np.nan), 0)
    polygon, gap, guilty = clock_fit._polygon(found, 0.0)
    assert (polygon, guilty) == (None, 4) and gap > 49_000
    mirrored = Constraints(*[np.arange(6) * 1_000] * 2, -low - 10, -low, np.full(6, np.nan), 0)
    assert clock_fit._polygon(mirrored, 0.0)[2] == 4
    halves = np.repeat([0.0, 50_000.0], 3)  # two clocks of the same right: neither is left out
    assert (
        clock_fit._polygon(Constraints(found.at, found.at, halves, halves + 10, found.end, 0), 0.0)[2] is None
    )


def test_noise_is_the_spread_of_single_readings() -> None:
    """Ends on a line have none; a line with normal noise of 200 ns has about that; few ends say nothing."""
    random = np.random.default_rng(1)
    at = np.cumsum(random.integers(1, 10**9, 4_000))
    line = 3e-5 * at  # a drift of 30 ppm, however far apart the readings are
    assert clock_fit._noise(at, line) < 1
    assert clock_fit._noise(at, line + random.normal(0, 200, 4_000)) == pytest.approx(200, rel=0.1)
    assert clock_fit._noise(at[:8], line[:8]) < 1
    assert clock_fit._noise(at[:7], line[:7]) == clock_fit._noise(at[:20], np.full(20, np.nan)) == 1_000


def test_a_line_through_ends_is_that_of_most_of_them() -> None:
    t = np.arange(0, 90_000, 1_000.0)
    value = 700 + 2e-4 * t
    value[[3, 50, 80]] += 1e6
    assert clock_fit._robust_line(t, value) == pytest.approx((700, 2e-4))
    assert clock_fit._robust_line(t, 1e-2 * t)[1] == MOST_DRIFT  # no clock drifts like that
    assert clock_fit._robust_line(np.zeros(3), np.array([1.0, 5.0, 6.0])) == (5.0, 0.0)

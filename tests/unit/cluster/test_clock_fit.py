"""The offset between two clocks: recovered where collectives permit it, and never further off than it says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cluster.simulated_clocks import Clock, Meetings, constraints, meetings, true_offset
from warpsight.cluster.clocks.clock_fit import Constraints, fit


def trial(seed: int) -> tuple[float, float, float]:
    """Largest error, the bound where it was, and the transfer time of one drawn pair of clocks (ns)."""
    random = np.random.default_rng(seed)
    seconds = float(random.choice([2.0, 20.0, 120.0]))
    transfer = float(random.choice([8e3, 20e3, 200e3]))
    always = None if random.random() < 0.7 else int(random.integers(0, 2))
    seen = meetings(random, int(random.choice([40, 400, 4000])), seconds, transfer, float(random.choice([1e3, 1e5, 3e6])),
                    always)  # fmt: skip
    ours, theirs = (
        Clock(int(random.integers(-(10**12), 10**18)), random.uniform(-50e-6, 50e-6), float(random.choice([0, 200, 1000])),
              float(random.choice([0, 200]))) for _ in range(2)
    )  # fmt: skip
    found = fit(constraints(seen, ours, theirs, random))
    assert found is not None
    t = random.uniform(0, seconds * 1e9, 64)
    offset, bound = found.offset(theirs.shown(t))
    error = np.abs(offset - true_offset(ours, theirs, t))
    worst = int(np.argmax(error - bound))
    return float(error[worst]), float(bound[worst]), transfer


def test_bounds_hold_in_99_of_100_of_a_thousand_trials() -> None:
    errors, bounds, _ = np.array([trial(seed) for seed in range(1000)]).T
    assert (errors <= bounds).mean() >= 0.99


@pytest.mark.parametrize("drift", [0.0, 20e-6, -80e-6])
@pytest.mark.parametrize("offset", [0, 5_000_000, -3 * 10**17])
def test_a_planted_offset_is_found_within_20_microseconds(offset: int, drift: float) -> None:
    random = np.random.default_rng(7)
    seen = meetings(random, 500, 30.0, 12e3, 2e5)
    ours, theirs = Clock(10**18, 0.0, 500), Clock(10**18 + offset, drift, 500)
    found = fit(constraints(seen, ours, theirs, random))
    assert found is not None
    t = np.linspace(0, 30e9, 100)
    at, bound = found.offset(theirs.shown(t))
    assert np.abs(at - true_offset(ours, theirs, t)).max() < 20_000
    assert bound.max() < 40_000
    assert found.drift == pytest.approx(-drift, abs=1e-6)


def test_a_rank_that_is_always_last_leaves_an_honest_wide_bound() -> None:
    random = np.random.default_rng(3)
    seen = meetings(random, 300, 10.0, 10e3, 5e6, always=1)
    start = seen.start.copy()
    start[:, 1] = start[:, 0] + 5e6 + random.uniform(0, 1e6, len(start))
    seen = Meetings(start, start.max(1)[:, None] + 10e3 + np.zeros((1, 2)))
    ours, theirs = Clock(0, 0.0), Clock(77_000_000, 1e-6)
    found = fit(constraints(seen, ours, theirs, random))
    assert found is not None
    t = np.linspace(0, 10e9, 50)
    at, bound = found.offset(theirs.shown(t))
    assert np.abs(at - true_offset(ours, theirs, t)).max() < 20_000
    assert bound.min() > 1e6


def test_a_wrongly_matched_collective_is_left_out() -> None:
    random = np.random.default_rng(5)
    seen = meetings(random, 400, 10.0, 12e3, 2e5)
    ours, theirs = Clock(0, 0.0, 100), Clock(10**9, 10e-6, 100)
    made = constraints(seen, ours, theirs, random)
    made.low[200] += 50e6
    made.high[200] += 50e6
    found = fit(made)
    assert found is not None and found.left_out == 1
    t = np.linspace(0, 10e9, 50)
    assert np.abs(found.offset(theirs.shown(t))[0] - true_offset(ours, theirs, t)).max() < 20_000


def test_a_clock_that_is_set_while_the_job_runs_is_followed() -> None:
    random = np.random.default_rng(9)
    seen = meetings(random, 600, 60.0, 12e3, 1e5)
    ours = Clock(0, 0.0, 100)
    before, after = Clock(10**9, 0.0, 100), Clock(10**9 + 3_000_000, 0.0, 100)
    early = seen.start.max(1) < 30e9
    first = constraints(Meetings(seen.start[early], seen.end[early]), ours, before, random)
    second = constraints(Meetings(seen.start[~early], seen.end[~early]), ours, after, random)
    shift = second.base - first.base
    joined = Constraints(*(np.concatenate([getattr(first, c), getattr(second, c) + (shift if c not in ("start", "at") else 0)])
                           for c in ("start", "at", "low", "high", "end")), first.base)  # fmt: skip
    found = fit(joined)
    assert found is not None and len(found.stretches) > 1
    for clock, t in ((before, np.linspace(1e9, 20e9, 20)), (after, np.linspace(40e9, 59e9, 20))):
        assert np.abs(found.offset(clock.shown(t))[0] - true_offset(ours, clock, t)).max() < 20_000


def test_constraints_of_one_side_say_nothing() -> None:
    none = np.full(3, np.inf)
    assert fit(Constraints(np.arange(3), np.arange(3), -none, np.ones(3), none * np.nan, 0)) is None


@pytest.mark.parametrize("step", [2_000, 1_000_000])
def test_collectives_that_contradict_each_other_leave_a_bound_that_covers_both(step: int) -> None:
    random = np.random.default_rng(11)
    seen = meetings(random, 12, 0.5, 12e3, 1e3)
    ours, before, after = Clock(0, 0.0), Clock(433_000_000, 0.0), Clock(433_000_000 + step, 0.0)
    first, second = constraints(seen, ours, before, random), constraints(seen, ours, after, random)
    late = np.arange(12) % 2 == 1
    columns = (
        np.where(late, getattr(second, c) + second.base - first.base, getattr(first, c))
        for c in ("low", "high", "end")
    )
    found = fit(Constraints(first.start, first.at, *columns, first.base))
    assert found is not None
    offset, bound = found.offset(first.at)
    for true in (-433_000_000, -433_000_000 - step):
        assert (np.abs(offset - true) <= bound).all()


def test_an_offset_is_not_known_better_than_its_readings() -> None:
    """Limits of opposite sides that contradict each other by nearly all that is allowed for leave one line."""
    at = np.arange(40) * 100_000_000
    side = np.where(np.arange(40) % 2 == 0, 139.0, -139.0)
    found = fit(Constraints(at, at, side, side + 1.0, np.zeros(40), 0))
    assert found is not None and found.offset(at)[1].min() >= 100


def test_bounds_hold_where_a_clock_changes_its_pace() -> None:
    """A crystal that warms up runs 2 ppm faster from some moment on: no one line fits, though limits may allow one."""
    honest = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        seen = meetings(random, 600, 300.0, 60e3, 1e6)
        bend = random.uniform(60e9, 240e9)
        ours, theirs = Clock(0, 0.0, 200), Clock(5_000_000, 10e-6, 200)
        warmer = Meetings(*(part + 2e-6 * np.maximum(part - bend, 0) for part in (seen.start, seen.end)))
        mixed = Meetings(
            *(
                np.stack([one[:, 0], other[:, 1]], 1)
                for one, other in ((seen.start, warmer.start), (seen.end, warmer.end))
            )
        )
        found = fit(constraints(mixed, ours, theirs, random))
        assert found is not None
        t = random.uniform(0, 300e9, 64)
        moments = t + 2e-6 * np.maximum(t - bend, 0)
        offset, bound = found.offset(theirs.shown(moments))
        honest.append(bool((np.abs(offset - (ours.shown(t) - theirs.shown(moments))) <= bound).all()))
    assert np.mean(honest) >= 0.99


def stepped(
    random: np.random.Generator, seen: Meetings, at: float, step: int, noise: float
) -> tuple[Constraints, Clock, Clock]:
    """Collectives whose second rank's clock is set by `step` at true time `at`, and its clocks before and after."""
    ours, before = Clock(0, 0.0, noise), Clock(10**9, 15e-6, noise)
    after = Clock(10**9 + step, 15e-6, noise)

    def read(moments: np.ndarray) -> np.ndarray:
        return np.where(moments < at, before.read(moments, random), after.read(moments, random))

    start0, end0 = ours.read(seen.start[:, 0], random), ours.read(seen.end[:, 0], random)
    start1, end1 = read(seen.start[:, 1]), read(seen.end[:, 1])
    base = int(np.median(end0 - end1))
    low, high, end = ((a - b - base).astype(float) for a, b in ((start0, end1), (end0, start1), (end0, end1)))
    return Constraints(start1, end1, low, high, end, base), before, after


def test_bounds_hold_where_a_clock_is_set() -> None:
    """By 0.1 to 100 ms, forward or back, among few or many collectives that are apart less or more than that."""
    honest = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        seconds, count = float(random.choice([1.0, 30.0, 300.0])), int(random.choice([30, 300, 1500]))
        seen = meetings(
            random,
            count,
            seconds,
            float(random.choice([8e3, 60e3, 400e3])),
            float(random.choice([1e4, 1e6, 2e7])),
        )
        at = float(random.uniform(0.2, 0.8)) * seconds * 1e9
        step = int(random.choice([-1, 1]) * 10 ** random.uniform(5, 8))
        made, before, after = stepped(random, seen, at, step, float(random.choice([0, 200, 2000])))
        found = fit(made)
        assert found is not None
        t = random.uniform(0, seconds * 1e9, 64)
        ready = seen.start.min(1)  # between two collectives nothing says when the clock was set
        t = t[(t < ready[ready < at].max()) | (t > ready[ready > at].min())]
        shown = np.where(t < at, before.shown(t), after.shown(t))
        offset, bound = found.offset(shown)
        honest.append(bool((np.abs(offset + shown - np.rint(t)) <= bound).all()))
    assert np.mean(honest) >= 0.99


def test_times_that_a_clock_shows_twice_have_a_bound_that_covers_both() -> None:
    random = np.random.default_rng(2)
    seen = meetings(random, 2_000, 10.0, 12e3, 1e5)
    made, before, after = stepped(random, seen, 5e9, -80_000_000, 100)
    found = fit(made)
    assert found is not None and len(found.stretches) == 2
    twice = before.shown(np.linspace(4.93e9, 4.99e9, 20))
    offset, bound = found.offset(twice)
    for clock in (before, after):
        assert (np.abs(offset + clock.offset + 15e-6 * 5e9) < bound + 20_000).all()
    assert bound.max() < 60_000_000
    for clock, t in ((before, np.linspace(0, 4.8e9, 20)), (after, np.linspace(5.2e9, 10e9, 20))):
        offset, bound = found.offset(clock.shown(t))
        assert np.abs(offset + clock.shown(t) - t).max() < 20_000
        assert bound.max() < 40_000


def test_a_long_wait_does_not_move_the_limits() -> None:
    """The other rank waits for two seconds each time: its start and its end are of different offsets."""
    seen = meetings(np.random.default_rng(3), 40, 200.0, 10e3, 1e3)
    start = seen.start.copy()
    start[:, 1] -= 2e9
    random = np.random.default_rng(4)
    ours, theirs = Clock(0, 0.0), Clock(5_000_000, 50e-6)
    found = fit(constraints(Meetings(start, seen.end), ours, theirs, random))
    assert found is not None
    low, _ = found.stretches[0].limits(theirs.shown(seen.end[:, 1]))
    true = true_offset(ours, theirs, seen.end[:, 1]) - found.base
    assert (low <= true).all()
    assert (low > true - 25_000).all()


def test_a_burst_of_load_is_no_change_of_a_clock() -> None:
    """For some milliseconds the ends of one rank come late and scattered: one line holds before, during and after it."""
    random = np.random.default_rng(6)
    seen = meetings(random, 4_000, 5.0, 12e3, 1e5)
    late = seen.end.copy()
    burst = (seen.start[:, 0] > 0.1e9) & (seen.start[:, 0] < 0.2e9)
    late[burst, 1] += random.exponential(1e6, burst.sum())
    ours, theirs = Clock(0, 0.0, 500), Clock(3_000_000_000, 40e-6, 500)
    found = fit(constraints(Meetings(seen.start, late), ours, theirs, random))
    assert found is not None and len(found.stretches) == 1
    t = np.linspace(0, 5e9, 50)
    assert np.abs(found.offset(theirs.shown(t))[0] - true_offset(ours, theirs, t)).max() < 20_000

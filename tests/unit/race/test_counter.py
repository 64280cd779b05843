"""Delays: published values of the generator, and golden delays that the device's function must give too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.race_model import delays as model
from warpsight.race import counter
from warpsight.race.plan import Plan, Point

POINT = Point(kernel="_Z4copyPf", code="ab" * 32, pc=0x1A0, kind="global", opcode="LDG.E")


def plan(**changes: object) -> Plan:
    values = {
        "mode": "random",
        "seed": 0x0123456789ABCDEF,
        "floor_ns": 100,
        "ceiling_ns": 50_000,
        "points": (POINT,),
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "key", "expected"),
    [  # from kat_vectors of Random123, which the paper's authors publish
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_values(
    words: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]
) -> None:
    assert tuple(int(word) for word in model.philox(words, key)) == expected


@pytest.mark.parametrize(
    ("launch", "cta", "warp", "occurrence", "delay"),
    [
        (0, 0, 0, 0, 7936),
        (1, 0, 0, 0, 41305),
        (0, 1, 0, 0, 24473),
        (0, 0, 1, 0, 17181),
        (0, 0, 0, 1, 41147),
        (7, 3, 31, 65535, 11393),
        (2**32 - 1, 2**32 - 1, 31, 2**32 - 1, 12865),
    ],
)
def test_golden_delays(launch: int, cta: int, warp: int, occurrence: int, delay: int) -> None:
    assert int(model.delays(plan(), POINT, launch, cta, warp, occurrence)) == delay


def test_a_probability_lets_some_occurrences_pass() -> None:
    found = model.delays(plan(probability=0.25), POINT, 0, 0, 0, np.arange(12))
    assert found.tolist() == [-1, -1, -1, -1, 27131, -1, -1, 49862, -1, -1, -1, -1]
    many = model.delays(plan(probability=0.25), POINT, 0, np.arange(100_000), 0, 0)
    assert abs((many >= 0).mean() - 0.25) < 0.005
    assert (model.delays(plan(probability=0.0), POINT, 0, np.arange(1000), 0, 0) == -1).all()


def test_delays_lie_between_floor_and_ceiling_and_reach_both_ends() -> None:
    drawn = model.delays(plan(floor_ns=5, ceiling_ns=8), POINT, 0, np.arange(1000), 0, 0)
    assert sorted(set(drawn.tolist())) == [5, 6, 7, 8]
    longest = plan(floor_ns=0, ceiling_ns=4_000_000_000)
    drawn = model.delays(longest, POINT, 0, np.arange(100_000), 0, 0)
    assert 0 <= drawn.min() < 1_000_000 and 3_999_000_000 < drawn.max() <= 4_000_000_000
    fixed = plan(mode="fixed", floor_ns=700, ceiling_ns=700)
    assert (model.delays(fixed, POINT, np.arange(9), 0, 0, 0) == 700).all()


def test_a_points_delays_do_not_depend_on_the_other_points() -> None:
    other = Point(kernel="k", code="cd" * 32, pc=0, kind="barrier")
    assert model.delays(plan(points=(other, POINT)), POINT, 1, 2, 3, 4) == model.delays(
        plan(), POINT, 1, 2, 3, 4
    )
    assert model.delays(plan(), other, 1, 2, 3, 4) != model.delays(plan(), POINT, 1, 2, 3, 4)


def schedule(depth: int, steps: int, **changes: object) -> Plan:
    return plan(mode="pct", depth=depth, steps=steps, floor_ns=0, ceiling_ns=10**6, **changes)


def test_a_warps_priority_is_one_wait_for_all_its_steps() -> None:
    waits = model.priority_delays(schedule(1, 50), 3, np.arange(8)[:, None], np.arange(50), 8)
    assert (waits == waits[:, :1]).all() and len(set(waits[:, 0].tolist())) == 8
    assert (model.priority_delays(schedule(1, 50, probability=0.0), 3, 0, np.arange(5), 8) == -1).all()


def test_at_each_change_one_warp_falls_behind_all_others() -> None:
    waits = model.priority_delays(schedule(3, 40), 0, np.arange(16)[:, None], np.arange(40), 16)
    changed = np.argwhere(np.diff(waits, axis=1))
    assert len(changed) == 2
    for warp, step in changed.tolist():
        others = np.delete(waits[:, 0], warp)
        assert waits[warp, step + 1] > others.max()


def test_every_warp_and_step_is_drawn_as_often_as_the_bound_says() -> None:
    """A bug of depth 2 that needs warp 1 slowest at first and warp 2 behind it from step 3 on, of 3 warps with 5 steps."""
    shown = 0
    for seed in range(6000):
        waits = model.priority_delays(schedule(2, 5, seed=seed), 0, np.arange(3)[:, None], np.arange(5), 3)
        shown += waits[1, 0] == waits[:, 0].max() and waits[2, 2] < waits[2, 3] and waits[2, 3] > waits[1, 3]
    assert shown / 6000 >= 0.8 * counter.bound(2, 3, 5)
    assert counter.bound(1, 7, 9) == 1 / 7 and counter.bound(3, 2, 5) == 1 / 200

"""What `bench` calls the cost of a launch."""

import numpy as np
import pytest

from warpsight.errors import WarpsightError
from warpsight.recorder.trial import bench


def noisy(level: float, seed: int, turns: int = 200) -> list[float]:
    """Turns that take `level`, or longer where something else ran."""
    random = np.random.default_rng(seed)
    return (
        level + random.normal(0, 5, turns) + random.exponential(1, turns) * random.choice([0, 800], turns)
    ).tolist()


def test_the_cost_is_found_among_turns_that_others_made_longer() -> None:
    found, sure = bench.cost([noisy(3000, 1)], [noisy(3200, 2)])
    assert found == pytest.approx(200, abs=sure + 1)
    assert sure < 30


@pytest.mark.parametrize("after", [2990.0, 3000.0])
def test_less_than_the_uncertainty_is_no_cost(after: float) -> None:
    found, sure = bench.cost([noisy(3000, 1)], [noisy(after, 2)])
    assert found is None and sure > 0


def test_a_single_turn_says_what_it_measured() -> None:
    assert bench.cost([[100.0]], [[150.0]]) == (50.0, 0.0)


def test_programs_that_differ_from_set_to_set_make_the_cost_less_sure() -> None:
    """Each set is sure of its own cost; the spread of five says how far that is from the next one's."""
    before = [noisy(level, seed) for seed, level in enumerate((3000, 3200, 2900, 3100, 3050))]
    after = [noisy(level, 9 + seed) for seed, level in enumerate((3300, 3300, 3350, 3250, 3380))]
    found, sure = bench.cost(before, after)
    assert found == pytest.approx(266, abs=15)
    assert 120 < sure < 220


def test_every_launch_belongs_to_one_turn() -> None:
    for launches, turns in ((0, 500), (1, 500), (19, 500), (9999, 500), (49_999, 500), (100, 1)):
        sizes = bench._sizes(launches, turns)
        assert sum(sizes) == launches and len(sizes) <= turns
        assert launches < bench.LEAST or min(sizes) >= bench.LEAST


def test_a_program_that_fails_is_quoted() -> None:
    failing = ["sh", "-c", "echo broken >&2; exit 3"]
    with pytest.raises(WarpsightError, match=r"ended with 3: broken"):
        bench._in_turn([failing], [10])

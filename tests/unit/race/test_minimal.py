"""The smallest failing set: found within the bound without noise, and as often as promised with it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.race_reduce import floor, simulated
from warpsight.race.search.minimal import Search, Undecided, exact


class Counted:
    """An oracle that fails where all (or any) of the needed elements run, and counts its calls."""

    def __init__(self, needed: set[int], any_of: bool = False) -> None:
        self.needed, self.any_of, self.calls = needed, any_of, 0

    def __call__(self, elements: tuple[int, ...]) -> bool:
        assert list(elements) == sorted(set(elements))
        self.calls += 1
        present = self.needed & set(elements)
        return bool(present) if self.any_of else present == self.needed


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 100, 255, 256, 257, 1000])
def test_without_noise_all_of_k_are_found_within_the_bound(count: int) -> None:
    random = np.random.default_rng(count)
    for k in (k for k in (1, 2, 3, 4, 8, 16) if k <= count):
        cases = [random.choice(count, k, replace=False).tolist() for _ in range(40)]
        for case in (*cases, range(k), range(count - k, count)):
            oracle = Counted(set(case))
            assert set(exact(count, oracle).elements) == set(case)
            assert oracle.calls <= k * math.log2(count) + 2 * k + 1


def test_without_noise_one_is_found_where_any_suffices() -> None:
    random = np.random.default_rng(1)
    for k in (1, 2, 4, 8, 256):
        needed = set(random.choice(256, k, replace=False).tolist())
        oracle = Counted(needed, any_of=True)
        found = exact(256, oracle)
        assert len(found.elements) == 1 and set(found.elements) <= needed
        assert oracle.calls <= math.log2(256) + 3


def test_one_of_several_pairs_is_found_whole() -> None:
    pairs = [{3, 200}, {40, 41}, {90, 7}]
    found = exact(256, lambda elements: any(pair <= set(elements) for pair in pairs))
    assert set(found.elements) in pairs


@pytest.mark.parametrize("search", [exact, lambda n, oracle: Search(n, oracle).run()])
def test_what_fails_by_itself_needs_no_element(search: object) -> None:
    assert search(256, lambda _: True).elements == ()  # type: ignore[operator]
    assert search(256, lambda _: True).fails  # type: ignore[operator]


@pytest.mark.parametrize("search", [exact, lambda n, oracle: Search(n, oracle).run()])
def test_what_never_fails_is_told(search: object) -> None:
    assert not search(256, lambda _: False).fails  # type: ignore[operator]


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_a_noisy_search_is_right_in_95_of_100_with_few_runs(k: int) -> None:
    results = [simulated(k, seed) for seed in range(200)]
    calls = np.array([calls for _, calls in results])
    assert sum(right for right, _ in results) >= 190
    assert calls.mean() <= {1: 150, 2: 240, 4: 420, 8: 780}[k]
    if k == 4:
        assert calls.max() <= 600
    assert calls.mean() > floor(k)  # less would mean that the simulation is wrong


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.0), (0.9, 0.001), (0.6, 0.05), (0.1, 0.002), (0.8, 0.3)])
def test_other_rates_are_learned_on_the_way(p: float, q: float) -> None:
    results = [simulated(3, seed, p, q) for seed in range(40)]
    assert sum(right for right, _ in results) >= 37


def test_a_noisy_search_finds_one_where_any_suffices() -> None:
    right = 0
    for seed in range(50):
        random = np.random.default_rng(seed)
        needed = set(random.choice(256, 4, replace=False).tolist())

        def oracle(points: tuple[int, ...], random=random, needed=needed) -> bool:  # type: ignore[no-untyped-def]
            return bool(random.random() < (0.3 if needed & set(points) else 0.01))

        found = Search(256, oracle).run()
        right += len(found.elements) == 1 and set(found.elements) <= needed
    assert right >= 47


def test_a_search_gives_up_when_it_was_told_to() -> None:
    random = np.random.default_rng(1)
    with pytest.raises(Undecided, match="after 50 runs"):
        Search(256, lambda _: bool(random.random() < 0.3), most_calls=50).run()

"""A hundred programs of kinds that the analysis was not made with: what holds for the others must hold for them.

See one of them with `python -m tests.truth SEED`.
"""

from __future__ import annotations

import pytest

from tests.truth.programs import LATER_SEEDS, generate
from tests.truth.test_generated_programs import GROUPS, MOST, judged, listed

LATER_GROUPS = [range(first, first + len(GROUPS[0])) for first in LATER_SEEDS[:: len(GROUPS[0])]]


@pytest.mark.parametrize("seeds", LATER_GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_nanosecond_is_in_the_account_and_nothing_false_is_said(seeds: range) -> None:
    found = {seed: (*judged(seed).account, *judged(seed).false) for seed in seeds}
    problems = {seed: "; ".join(texts) for seed, texts in found.items() if texts}
    assert not problems, listed(problems)


@pytest.mark.parametrize("kind", ["first", "count", "median"])
def test_the_first_cause_and_the_iterations_are_right(kind: str) -> None:
    found = {seed: getattr(judged(seed), kind) for seed in LATER_SEEDS}
    problems = {seed: text for seed, text in found.items() if text is not None}
    assert len(problems) <= (1 - MOST) * len(LATER_SEEDS), listed(problems)


def test_every_later_kind_is_among_them() -> None:
    assert len({generate(seed).family for seed in LATER_SEEDS}) == 10

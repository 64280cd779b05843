"""Two hundred programs whose truth is known: what `warpsight analyze` says of each must be true.

The programs and their truth are made without any knowledge of the analysis (see README.md). `python -m tests.truth SEED` shows
one of them.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.truth import synthetic
from tests.truth.answers import answer
from tests.truth.judging import Judgement, judge
from tests.truth.programs import SEEDS, generate
from tests.truth.truth import truth_of
from tests.truth.world import run

#: Part of all programs of which the first finding, the number of iterations and their median have to be right.
MOST = 0.95
GROUPS = [range(first, first + 20) for first in range(0, len(SEEDS), 20)]


@cache
def judged(seed: int) -> Judgement:
    """What is wrong with the answer to the program of a seed."""
    execution = run(generate(seed))
    truth = truth_of(execution)
    with tempfile.TemporaryDirectory() as folder:
        path = synthetic.write(execution, Path(folder))
        try:
            return judge(truth, answer(path))
        except (AssertionError, KeyError, TypeError, json.JSONDecodeError) as error:
            failure = f"no answer that can be read: {error!r}"
            none = None if truth.iterations is None else failure
            return Judgement(seed, (failure,), (), failure, none, none)


def listed(problems: dict[int, str]) -> str:
    """Problems by seed, as lines."""
    shown = "\n".join(f"  seed {seed} ({generate(seed).family}): {text}" for seed, text in problems.items())
    return f"\n{shown}\nSee one of them with: python -m tests.truth SEED --keep DIR"


def missing(kind: str) -> dict[int, str]:
    """What is wrong by seed, of one kind that has at most one problem a program."""
    found = {seed: getattr(judged(seed), kind) for seed in SEEDS}
    return {seed: text for seed, text in found.items() if text is not None}


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_every_nanosecond_is_in_the_account_under_its_cause(seeds: range) -> None:
    problems = {seed: "; ".join(judged(seed).account) for seed in seeds if judged(seed).account}
    assert not problems, listed(problems)


@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_nothing_false_is_said(seeds: range) -> None:
    problems = {seed: "; ".join(judged(seed).false) for seed in seeds if judged(seed).false}
    assert not problems, listed(problems)


def test_the_largest_cause_comes_first() -> None:
    problems = missing("first")
    assert len(problems) <= (1 - MOST) * len(SEEDS), listed(problems)


def test_iterations_are_counted() -> None:
    problems = missing("count")
    iterating = sum(generate(seed).iterating for seed in SEEDS)
    assert len(problems) <= (1 - MOST) * iterating, listed(problems)


def test_iterations_have_the_right_median() -> None:
    problems = missing("median")
    iterating = sum(generate(seed).iterating for seed in SEEDS)
    assert len(problems) <= (1 - MOST) * iterating, listed(problems)

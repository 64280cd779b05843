"""Names that look alike when they are shortened are told apart as far as they can be, and the search for that ends."""

from __future__ import annotations

from random import Random

import pytest

from warpsight.ui.render.numbers import shorten, shorten_apart


@pytest.mark.parametrize("seed", range(30))
def test_many_alike_names_end_and_fit_and_are_told_apart_no_worse(seed: int) -> None:
    random = Random(seed)
    names = [
        f"kernel<{''.join(random.choice('ab') + '______' for _ in range(8))}>(int)"
        for _ in range(random.randint(3, 40))
    ]
    shown = shorten_apart(names, 30)
    assert all(len(one) <= 30 for one in shown)
    assert len({*zip(names, shown, strict=True)}) == len(set(names))  # one form for one name
    assert len(set(shown)) >= len({shorten(name, 30) for name in names})

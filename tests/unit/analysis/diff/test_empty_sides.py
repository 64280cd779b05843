"""What the headline of a comparison says where there is no device work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from warpsight.analysis.diff import answer


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0, 0, "neither side has any device work"),
        (5, 0, "the second side has no"),
        (0, 5, "the first side has no"),
    ],
)
def test_the_headline_names_the_side_without_device_work(before: int, after: int, said: str) -> None:
    found = SimpleNamespace(loop=SimpleNamespace(name=""))
    assert answer._headline(found, {"before": before, "after": after})[1].startswith(said)  # type: ignore[arg-type]

"""What a timeline spans."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.analysis.conftest import Build, kernel, launch
from warpsight.analysis.timeline.scene import scene
from warpsight.model.selection import Rows


@pytest.mark.parametrize(
    ("tables", "rows", "span"),
    [
        ({"kernel": [kernel(100, 50), kernel(300, 20)]}, Rows(), (100, 320)),
        ({"kernel": [kernel(100, 50)], "launch": [launch(90, 5, 7), launch(200, 9, 8)]}, Rows(), (90, 209)),
        ({"kernel": [kernel(100, 500), kernel(300, 20)]}, Rows(), (100, 600)),
        ({"kernel": [kernel(100, 50), kernel(300, 20)]}, Rows(begin=120, end=310), (120, 310)),
        ({"kernel": [kernel(100, 50)]}, Rows(begin=50, end=400), (100, 150)),
        ({"kernel": [kernel(100, 0)]}, Rows(), (100, 101)),  # a span is never empty
        ({}, Rows(), (0, 1)),
        ({}, Rows(begin=7, end=7), (7, 8)),
    ],
)
def test_a_timeline_reaches_from_the_first_begin_to_the_last_end(
    build: Build, tables: dict[str, Any], rows: Rows, span: tuple[int, int]
) -> None:
    found = scene(build(**tables), rows)
    assert (found.begin, found.end) == span

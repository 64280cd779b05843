"""Layers of a model that was passed a few times are no iterations: the passes are."""

from __future__ import annotations

import random

import pytest

from tests.unit.analysis.written_loops import announced, launches


def run(names):
    """A function that writes launches of these names, without waits."""
    return lambda writer: launches(writer, 1_000_000, 2_000_000, names, 1)


@pytest.mark.parametrize("seed", range(8))
def test_passes_are_counted_where_what_is_between_them_begins_and_ends_a_pass(tmp_path, seed):
    draw = random.Random(seed)
    layer = [f"k{draw.randint(0, 9)}" for _ in range(draw.randint(5, 40))] + ["gelu"]
    begin = [f"begin{number}" for number in range(draw.randint(1, 4))]
    end = [f"end{number}" for number in range(draw.randint(0, 4))]
    layers = draw.randint(4, 24)
    once = [*begin, *layer * layers, *end]
    found = announced(tmp_path / "t.warp", run(["upload", "fill", *once, *once]))
    assert found == [(f"repetition of {len(layer)} kernels and copies, {layers} in a turn", 2)]


TURN = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "names",
    [
        TURN * 8 + ["log"] + TURN * 8,  # it says half-way how far it is
        ["log"] + TURN * 8 + ["log"] + TURN * 7,
        ["first"] + TURN * 8 + ["last", "other"] + TURN * 8 + ["last"],
    ],
)
def test_what_comes_in_the_middle_of_a_loop_makes_no_passes_of_it(tmp_path, names):
    ((source, number),) = announced(tmp_path / "t.warp", run(names))
    assert "in a turn" not in source and number in (15, 16)

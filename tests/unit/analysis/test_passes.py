"""Layers of a model that was passed a few times are no iterations: the passes are."""

from __future__ import annotations

import random

import pytest

from tests.unit.analysis.written_loops import announced, launches, mark


def run(names):
    """A function that writes launches of these names, without waits."""
    return lambda writer: launches(writer, 1_000_000, 2_000_000, names, 1)


@pytest.mark.parametrize("seed", range(8))
def test_passes_are_counted_where_what_is_between_them_begins_and_ends_a_pass(tmp_path, seed):
    draw = random.Random(seed)
    layer = [f"k{draw.randint(0, 9)}" for _ in range(draw.randint(4, 11))] + ["gelu"]
    begin = [f"begin{number}" for number in range(draw.randint(1, 4))]
    end = [f"end{number}" for number in range(draw.randint(0, 4))]
    layers = draw.randint(4, 9)
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


def in_a_pass(number, outer, named="attention"):
    """Ranges of one name with kernels, all of them in one outer range."""

    def build(writer):
        time = 1_000_000
        begin = time - 5_000
        for turn in range(number):
            mark(writer, named, time - 2_000, 110_000)
            launches(writer, time, 10 * time, ["a", "b", "c", "d"], 1 + turn * 10)
            launches(writer, time + 150_000, 10 * time + 500_000, ["e", "f"], 6 + turn * 10)
            time += 400_000
        mark(writer, outer, begin, time - begin)

    return build


@pytest.mark.parametrize("outer", ["forward pass", "model.forward", "bwd"])
def test_what_comes_again_in_one_pass_through_a_model_is_a_layer(tmp_path, outer):
    assert announced(tmp_path / "t.warp", in_a_pass(12, outer)) == []


@pytest.mark.parametrize(("outer", "named"), [("benchmark", "attention"), ("forward pass", "step")])
def test_what_comes_again_in_another_range_or_is_called_a_turn_is_one(tmp_path, outer, named):
    assert announced(tmp_path / "t.warp", in_a_pass(12, outer, named)) == [(f"range '{named}'", 12)]

"""The operators of a trace as columns, each recounted operator by operator."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.unit.analysis.conftest import EPOCH, Build
from tests.unit.analysis.ops.calls import attributes
from warpsight.analysis.ops import rows
from warpsight.analysis.ops.arguments import Tensor

SHAPES: tuple[list[list[int]], ...] = ([], [[4, 2]], [[4, 2], [2, 3]])


@dataclass(frozen=True)
class Op:
    """An operator as written: its place, name, shapes and thread of its forward."""

    process: int
    thread: int
    start: int
    end: int
    name: str
    shapes: int
    dtype: str
    forward: int
    number: int


def nested(rng: random.Random, thread: int, process: int, begin: int, end: int, depth: int) -> list[Op]:
    """Operators one after another and inside each other, some of them as long as the one around."""
    found: list[Op] = []
    at = begin
    while at < end and depth:
        length = rng.choice((1, 3, 10, end - at, end - at))
        if at + length > end:
            break
        found.append(Op(process, thread, at, at + length, rng.choice("abc"), rng.randrange(3),
                        rng.choice(("float", "double")), rng.choice((0, 0, 5)), rng.randrange(1 << 30)))  # fmt: skip
        if length > 1:
            inner = nested(rng, thread, process, at, at + length, depth - 1)
            found += [one for one in inner if (one.start, one.end) != (at, at + length)]
        at += length + rng.choice((0, 1, 4))
    return found


def row(op: Op) -> dict[str, Any]:
    more: dict[str, Any] = {"Fwd thread id": op.forward} if op.forward else {}
    return {"process": op.process, "thread": op.thread, "start": EPOCH + op.start, "duration": op.end - op.start,
            "name_id": "abc".index(op.name) + 1, "sequence": op.number, "correlation": op.number + 1,
            "stack": None, **attributes(list(SHAPES[op.shapes]), op.dtype, **more)}  # fmt: skip


@pytest.fixture(params=range(6))
def program(request: pytest.FixtureRequest, build: Build) -> tuple[rows.Operators, list[Op]]:
    """The columns, and the operators in the order that they are defined to have."""
    rng = random.Random(request.param)
    every = [
        op for process in range(2) for thread in (3, 4) for op in nested(rng, thread, process, 0, 120, 4)
    ]
    shuffled = every[:]
    rng.shuffle(shuffled)
    written = [row(op) for op in shuffled]
    written.append({**row(every[0]), "duration": None})
    found = rows.load(build(names=("a", "b", "c"), op=written))
    return found, sorted(every, key=lambda op: (op.process, op.thread, op.start, -op.end))


def around(every: list[Op], place: int) -> list[int]:
    """The operators that an operator is inside, outermost first."""
    own = every[place]
    return [
        other
        for other in range(place)
        if (every[other].process, every[other].thread) == (own.process, own.thread)
        and every[other].start <= own.start
        and every[other].end >= own.end
    ]


def test_operators_are_sorted_so_that_children_follow(program: tuple[rows.Operators, list[Op]]) -> None:
    found, every = program
    assert len(found) == len(every)
    assert (found.ranges.start - EPOCH).tolist() == [op.start for op in every]
    assert (found.ranges.end - EPOCH).tolist() == [op.end for op in every]
    assert found.sequence.tolist() == [op.number for op in every]
    assert found.correlation.tolist() == [op.number + 1 for op in every]
    assert found.forward_thread.tolist() == [op.forward for op in every]
    assert found.stack.tolist() == [0] * len(every)
    assert found.parent.tolist() == [(around(every, i) or [-1])[-1] for i in range(len(every))]


def test_the_size_and_depth_of_each_are_those_of_its_tree(program: tuple[rows.Operators, list[Op]]) -> None:
    found, every = program
    outside = [around(every, place) for place in range(len(every))]
    assert found.size.tolist() == [1 + sum(place in one for one in outside) for place in range(len(every))]
    deepest = max(map(len, outside))
    assert [level.tolist() for level in found.depth] == [
        [place for place, one in enumerate(outside) if len(one) == depth] for depth in range(deepest, 0, -1)
    ]


def test_a_sum_over_an_operator_is_of_all_inside_it(program: tuple[rows.Operators, list[Op]]) -> None:
    found, every = program
    values = np.random.default_rng(1).integers(-1_000, 1_000, len(every))
    expected = values.tolist()
    for place in range(len(every)):
        for other in around(every, place):
            expected[other] += int(values[place])
    assert found.inside(values).tolist() == expected


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_nearest_of_some_is_the_innermost_around_or_the_operator_itself(
    program: tuple[rows.Operators, list[Op]], share: float
) -> None:
    found, every = program
    chosen = np.random.default_rng(2).random(len(every)) < share
    expected = [
        ([-1] + [one for one in [*around(every, place), place] if chosen[one]])[-1]
        for place in range(len(every))
    ]
    assert found.nearest(chosen).tolist() == expected


def test_the_outermost_of_a_group_is_inside_none_of_the_group(
    program: tuple[rows.Operators, list[Op]],
) -> None:
    found, every = program
    group = np.array(["abc".index(op.name) for op in every])
    expected = [
        all(every[other].name != op.name for other in around(every, place)) for place, op in enumerate(every)
    ]
    assert found.outermost_of_group(group).tolist() == expected


def test_calls_are_one_where_name_shapes_and_types_are(program: tuple[rows.Operators, list[Op]]) -> None:
    found, every = program
    distinct = {(op.name, op.shapes, op.dtype if op.shapes else "") for op in every}
    assert len(found.calls) == len(distinct)
    for place, op in enumerate(every):
        call = found.calls[int(found.call[place])]
        dtype = {"float": "fp32", "double": "fp64"}[op.dtype]
        assert call.name == op.name
        assert call.arguments == tuple(Tensor(tuple(shape), dtype) for shape in SHAPES[op.shapes])


def test_what_the_file_does_not_say_has_its_own_number(build: Build) -> None:
    plain = {"process": 0, "thread": 3, "start": EPOCH, "duration": -4, "name_id": 1}
    found = rows.load(build(names=("a",), op=[plain, {**plain, "start": EPOCH + 1, "duration": 0}]))
    assert (found.ranges.start - EPOCH).tolist() == (found.ranges.end - EPOCH).tolist() == [0, 1]
    for column, missing in (("sequence", -1), ("correlation", -1), ("stack", 0), ("forward_thread", 0)):
        assert getattr(found, column).tolist() == [missing] * 2
    assert found.calls[0].arguments == () and not found.calls[0].has_values
    assert found.parent.tolist() == [-1, -1] and found.size.tolist() == [1, 1]


def test_attributes_that_say_the_same_of_the_arguments_are_one_call(build: Build) -> None:
    common = {"process": 0, "thread": 3, "duration": 1, "name_id": 1, "shapes": "[[2]]"}
    texts = [{"Input type": ["float"]}, {"Input type": ["float"], "Ev Idx": 4}, {"Input type": ["double"]}]
    written = [{**common, "start": EPOCH + n, "attributes": json.dumps(text)} for n, text in enumerate(texts)]
    written.append({**common, "start": EPOCH + 9})
    found = rows.load(build(names=("a",), op=written))
    first, second, third, last = found.call.tolist()
    assert first == second and len({first, third, last}) == 3 == len(found.calls)
    assert found.calls[last].arguments == (Tensor((2,), ""),)


def test_a_trace_without_operators_has_none(build: Build) -> None:
    found = rows.load(build())
    assert len(found) == 0 and found.calls == []
    assert found.inside(np.zeros(0, np.int64)).tolist() == []
    assert found.nearest(np.zeros(0, bool)).tolist() == []
    assert found.outermost_of_group(np.zeros(0, np.int64)).tolist() == []


def test_operators_are_read_once(build: Build) -> None:
    trace = build(names=("a",), op=[{"process": 0, "thread": 1, "start": EPOCH, "duration": 1, "name_id": 1}])
    assert rows.load(trace) is rows.load(trace)


def test_an_operator_inside_another_kind_is_still_inside_its_own(build: Build) -> None:
    """The first operator of the trace counts as one around, too."""
    ends = ((0, 100, 1), (10, 90, 2), (20, 80, 1), (30, 70, 2), (200, 300, 1), (210, 220, 1))
    written = [
        {"process": 0, "thread": 3, "start": EPOCH + a, "duration": b - a, "name_id": name}
        for a, b, name in ends
    ]
    found = rows.load(build(names=("a", "b"), op=written))
    assert found.outermost_of_group(found.ranges.name_id).tolist() == [True, True, False, False, True, False]
    assert found.outermost_of_group(np.arange(6)).tolist() == [True] * 6

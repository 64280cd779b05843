"""Backward joined to its forward: by number and thread, where numbers of threads clash, and for nodes without a number."""

import pytest

from tests.unit.analysis.ops.programs import LINEAR_FLOPS, Program, linear
from warpsight.analysis.ops import backward
from warpsight.analysis.ops.operators import operators
from warpsight.analysis.ops.rows import load
from warpsight.model.selection import Rows

EVALUATE = "autograd::engine::evaluate_function: "
ENGINE = 900


def node(program, name, start, sequence, *, forward=1, length=40, thread=ENGINE):
    """A backward node as the engine runs it, with a product inside."""
    program.op(EVALUATE + name, start, start + 90, thread=thread, sequence=sequence, forward=forward)
    program.op(name, start + 2, start + 80, thread=thread, sequence=sequence, forward=forward)
    program.op("aten::mm", start + 10, start + 50, ([16, 64], [64, 32]), thread=thread)
    program.kernel(start + 20, length, thread=thread)


def origins(trace):
    """Name → the names and starts of the forwards that its operators have, None without."""
    ops = load(trace)
    joined = backward.of_operators(trace, ops)
    out = {}
    first = int(ops.ranges.start.min())
    for i, call in enumerate(ops.call.tolist()):
        origin = int(joined.origin[i])
        found = (
            None if origin < 0 else (ops.calls[ops.call[origin]].name, int(ops.ranges.start[origin]) - first)
        )
        out.setdefault(ops.calls[call].name, []).append(found)
    return out


@pytest.fixture
def program():
    return Program()


def test_a_node_belongs_to_the_last_operator_with_its_number(build, program):
    # linear has the number that its transposition takes; addmm has the next one
    program.op("aten::linear", 0, 90, sequence=5, forward=0)
    program.op("aten::t", 5, 15, sequence=5, forward=0)
    program.op("aten::addmm", 20, 60, sequence=6, forward=0)
    node(program, "AddmmBackward0", 1000, 6)
    node(program, "TBackward0", 2000, 5)
    found = origins(program.built(build))
    assert found["AddmmBackward0"] == [("aten::addmm", 20)]
    assert found["TBackward0"] == [("aten::t", 5)]
    assert found["aten::mm"] == [("aten::addmm", 20), ("aten::t", 5)]
    assert found["aten::linear"] == [None]


def test_every_iteration_has_its_own_numbers(build, program):
    for step in range(3):
        program.op("aten::addmm", 10_000 * step, 10_000 * step + 50, sequence=step, forward=0)
        node(program, "AddmmBackward0", 10_000 * step + 1000, step)
    assert origins(program.built(build))["AddmmBackward0"] == [
        ("aten::addmm", 10_000 * step) for step in range(3)
    ]


def test_numbers_count_per_thread(build, program):
    # two threads with the same numbers; the first made more nodes, which tells it from the other
    for sequence in range(4):
        program.op("aten::mul", 10 * sequence, 10 * sequence + 5, sequence=sequence, forward=0, thread=1)
    program.op("aten::exp", 0, 5, sequence=3, forward=0, thread=2)
    program.op("aten::exp", 10, 15, sequence=9, forward=0, thread=2)
    for sequence in range(4):
        node(program, "MulBackward0", 1000 + 100 * sequence, sequence, forward=1)
    node(program, "ExpBackward0", 2000, 3, forward=2)
    node(program, "ExpBackward0", 2100, 9, forward=2)
    found = origins(program.built(build))
    assert found["MulBackward0"] == [("aten::mul", 10 * sequence) for sequence in range(4)]
    assert found["ExpBackward0"] == [("aten::exp", 0), ("aten::exp", 10)]


def test_arrows_tell_threads_apart_where_numbers_do_not(build, program):
    for thread in (1, 2):
        program.op(f"op{thread}", 0, 5, sequence=3, forward=0, thread=thread)
    node(program, "Backward0", 1000, 3, forward=1)
    ambiguous = dict(program.rows)
    assert origins(build(names=tuple(program.names), **ambiguous))["Backward0"] == [None]
    second = next(row for row in program.rows["op"] if row["thread"] == 2)
    ends = next(row for row in program.rows["op"] if row["thread"] == ENGINE)
    program.add(
        "flow",
        from_correlation=second["correlation"],
        to_correlation=ends["correlation"],
        kind="forward-backward",
    )
    assert origins(program.built(build))["Backward0"] == [("op2", 0)]


def test_gradients_are_added_up_for_the_node_before(build, program):
    program.op("aten::addmm", 0, 50, sequence=6, forward=0)
    node(program, "AddmmBackward0", 1000, 6)
    name = "torch::autograd::AccumulateGrad"
    program.op(EVALUATE + name, 1100, 1150, thread=ENGINE)
    program.op(name, 1105, 1145, thread=ENGINE)
    program.op("aten::add_", 1110, 1140, thread=ENGINE)
    program.kernel(1120, 5, thread=ENGINE)
    found = origins(program.built(build))
    assert found["aten::add_"] == [("aten::addmm", 0)]


def test_backward_inside_of_backward_belongs_to_what_was_computed_again(build, program):
    # a checkpoint: its node runs the forward again and that forward's backward, all on the engine's thread
    program.op("CheckpointFunction", 0, 50, sequence=7, forward=0)
    program.op("aten::other", 60, 70, sequence=8, forward=0)
    program.op(EVALUATE + "OtherBackward0", 900, 950, thread=ENGINE, sequence=8, forward=1)
    program.op(EVALUATE + "CheckpointFunctionBackward", 1000, 5000, thread=ENGINE, sequence=7, forward=1)
    program.op("aten::addmm", 1100, 1200, thread=ENGINE, sequence=3, forward=0)
    node(program, "AddmmBackward0", 2000, 3, forward=2)
    found = origins(program.built(build))
    assert found["AddmmBackward0"] == [("aten::addmm", 1100)]
    assert found["aten::addmm"] == [("CheckpointFunction", 0)]


def test_ranges_that_torch_emits_have_no_threads_and_are_joined_too(build, program):
    program.op("aten::addmm", 0, 50, sequence=6)
    program.op(EVALUATE + "AddmmBackward0", 1000, 1090, thread=ENGINE, sequence=6)
    program.op("aten::mm", 1010, 1050, thread=ENGINE)
    program.kernel(1020, 5, thread=ENGINE)
    assert origins(program.built(build))["aten::mm"] == [("aten::addmm", 0)]


def test_a_forward_that_the_file_does_not_hold_is_none(build, program):
    program.op("aten::addmm", 0, 50, sequence=6, forward=0)
    node(program, "AddmmBackward0", 1000, 6)
    node(program, "MulBackward0", 2000, 4)
    assert origins(program.built(build))["MulBackward0"] == [None]


def test_the_first_operator_of_a_trace_can_be_a_forward(build, program):
    program.op("aten::exp", 0, 50, sequence=3, forward=0)
    program.op("aten::other", 60, 70)
    node(program, "ExpBackward0", 1000, 3, length=60)
    rows = operators(program.built(build), Rows(), "forward").tables["ops"].to_pylist()
    assert [(row["name"], row["calls"], row["nodes"], row["backward"]) for row in rows] == [
        ("aten::exp", 1, 1, 60)
    ]


def test_forward_operators_with_what_their_backward_did(build, program):
    for step in range(2):
        linear(program, 10_000 * step, sequence=10 * step)
        node(program, "AddmmBackward0", 10_000 * step + 1000, 10 * step + 1, length=60)
        node(program, "AddmmBackward0", 10_000 * step + 2000, 10 * step + 1, length=60)
    (row,) = operators(program.built(build), Rows(), "forward").tables["ops"].to_pylist()
    assert (row["name"], row["calls"], row["nodes"], row["forward"], row["backward"]) == (
        "aten::addmm",
        2,
        4,
        200,
        240,
    )
    assert row["ratio"] == pytest.approx(1.2)
    assert (row["flops_forward"], row["flops_backward"]) == (2 * LINEAR_FLOPS, 4 * 2 * 16 * 64 * 32)

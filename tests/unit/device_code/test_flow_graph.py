"""Which instructions can follow each other."""

from __future__ import annotations

from tests.unit.sass.programs import Line, graph
from warpsight.device_code.flow.flow_graph import FlowGraph


def test_a_branch_goes_on_or_to_its_target_and_an_exit_nowhere() -> None:
    found = graph([Line("@P0 BRA 0x20", to=2), Line("MOV R1, R2"), Line("EXIT")])
    assert found.following == [(1, 2), (2,), ()]


def test_code_that_is_cut_off_ends_where_it_is_cut() -> None:
    assert graph([Line("MOV R1, R2"), Line("MOV R2, R3")]).following == [(1,), ()]


def test_targets_of_an_indirect_branch_are_those_inside_the_section() -> None:
    plain = graph([Line("MOV R1, R2"), Line("MOV R2, R3"), Line("EXIT")])
    found = FlowGraph(plain.instructions, plain._flow, {0: [0, 0x20, 0x30, -0x10]})
    assert found.following == [(1, 0, 2), (2,), ()]

"""Which instructions can follow each other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sass.programs import Line, graph
from warpsight.device_code.flow.control_flow import LARGEST_LOOP, ControlFlow
from warpsight.device_code.flow.flow_graph import FlowGraph
from warpsight.device_code.flow.liveness import liveness
from warpsight.device_code.registers import only


def test_a_branch_goes_on_or_to_its_target_and_an_exit_nowhere() -> None:
    found = graph([Line("@P0 BRA 0x20", to=2), Line("MOV R1, R2"), Line("EXIT")])
    assert found.following == [(1, 2), (2,), ()]


def test_code_that_is_cut_off_ends_where_it_is_cut() -> None:
    assert graph([Line("MOV R1, R2"), Line("MOV R2, R3")]).following == [(1,), ()]


def test_targets_of_an_indirect_branch_are_those_inside_the_section() -> None:
    plain = graph([Line("MOV R1, R2"), Line("MOV R2, R3"), Line("EXIT")])
    found = FlowGraph(plain.instructions, plain._flow, {0: [0, 0x20, 0x30, -0x10]})
    assert found.following == [(1, 0, 2), (2,), ()]


@st.composite
def programs(draw: st.DrawFn) -> list[Line]:
    """Up to 14 instructions with branches anywhere, some of them guarded; the last one ends the program."""
    length = draw(st.integers(1, 14))
    lines = []
    for _ in range(length - 1):
        guard = draw(st.sampled_from(["", "@P0 ", "@!P1 "]))
        kind = draw(st.sampled_from(["MOV R1, R2", "MOV R1, R2", "BRA", "BRA", "EXIT"]))
        to = draw(st.integers(0, length - 1)) if kind == "BRA" else None
        lines.append(Line(f"{guard}{kind}" if to is None else f"{guard}BRA {to * 16:#x}", to=to))
    return [*lines, Line("EXIT")]


def reached(following: dict[int, set[int]], start: int, without: int | None = None) -> set[int]:
    """What can be reached from a place, itself included, without passing another."""
    seen: set[int] = set()
    waiting = [] if start == without else [start]
    while waiting:
        here = waiting.pop()
        if here not in seen:
            seen.add(here)
            waiting += [one for one in following[here] if one != without]
    return seen


def turned(following: dict[int, set[int]]) -> dict[int, set[int]]:
    return {here: {one for one in following if here in following[one]} for here in following}


@settings(max_examples=60, deadline=None)
@given(programs())
def test_blocks_are_the_longest_runs_that_nothing_enters_or_leaves(lines: list[Line]) -> None:
    found = graph(lines)
    for index, line in enumerate(lines):
        ends = line.text == "EXIT" or (line.to is not None and not line.text.startswith("@"))
        ahead = {*([] if ends else [index + 1]), *([] if line.to is None else [line.to])}
        assert set(found.following[index]) == ahead
    jumped = {one for index, ahead in enumerate(found.following) if ahead != (index + 1,) for one in ahead}
    first = [i for i in range(len(lines)) if i == 0 or i in jumped or found.following[i - 1] != (i,)]
    assert [block.first for block in found.blocks] == first
    assert [block.last for block in found.blocks] == [*(i - 1 for i in first[1:]), len(lines) - 1]
    for block in found.blocks:
        assert {found.blocks[one].first for one in block.successors} == set(found.following[block.last])
        assert set(block.predecessors) == {b.number for b in found.blocks if block.number in b.successors}
        assert {found.block_of[i] for i in range(block.first, block.last + 1)} == {block.number}


@settings(max_examples=100, deadline=None)
@given(programs())
def test_dominators_and_loops_are_those_of_every_way_through_the_program(lines: list[Line]) -> None:
    found = graph(lines)
    following = {block.number: set(block.successors) for block in found.blocks}
    known = reached(following, 0)
    above = {one: {over for over in known if one not in reached(following, 0, over)} for one in known}
    for one in following:
        closest = [over for over in above.get(one, ()) if over != one and above[one] - {one} <= above[over]]
        assert found.dominators[one] == (None if one not in known else closest[0] if closest else one)
        assert [found.dominates(over, one) for over in known] == [
            over in above.get(one, {one}) for over in known
        ]
    behind = turned(following)
    bodies: dict[int, set[int]] = {}
    for tail in known:
        for head in following[tail] & above[tail]:
            bodies.setdefault(head, set()).update({head} | (reached(behind, tail, head) & known))
    assert {loop.head: set(loop.blocks) for loop in found.loops} == bodies
    for loop in found.loops:
        around = [other for other in found.loops if loop.head in other.blocks and other.head != loop.head]
        inner = min(around, key=lambda other: len(other.blocks), default=None)
        assert (None if loop.parent is None else found.loops[loop.parent]) == inner
        assert loop.depth == len(around) + 1
    for one in range(len(lines)):
        for other in range(len(lines)):
            both = {found.block_of[one], found.block_of[other]}
            common = [number for number, loop in enumerate(found.loops) if both <= loop.blocks]
            smallest = min(common, key=lambda number: len(found.loops[number].blocks), default=None)
            assert found.innermost_common_loop(one, other) == smallest
        assert found.loop_at(one) == found.innermost_common_loop(one, one)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_the_loop_around_an_instruction_is_the_smallest_that_is_entered_at_its_head_alone(
    lines: list[Line],
) -> None:
    flow = graph(lines)._flow
    following = {index: set(flow.following(index)) for index in range(len(lines))}
    behind = turned(following)
    closed = {}  # branch → its loop
    for branch, line in enumerate(lines):
        if line.to is not None:
            body = {line.to} | reached(behind, branch, line.to)
            if all(behind[one] for one in body if one != line.to) and (
                branch == line.to or line.to in behind
            ):
                closed[branch] = body
    for index in range(len(lines)):
        ahead = {
            branch: body
            for branch, body in closed.items()
            if index in body and branch in reached(following, index)
        }
        loop = flow.loop_around(index)
        smallest = min((len(body) for body in ahead.values()), default=None)
        assert (None if loop is None else len(loop.body)) == smallest
        if loop is None:
            continue
        assert set(loop.body) == ahead[loop.branch] and lines[loop.branch].to == loop.head
        inside = {one: following[one] & set(loop.body) for one in loop.body}
        for one in loop.body:
            passed = one in (loop.head, loop.branch) or loop.branch not in reached(inside, loop.head, one)
            assert flow.in_every_turn(loop, one) == passed


@settings(max_examples=60, deadline=None)
@given(programs(), st.randoms(use_true_random=False))
def test_a_register_is_live_where_some_way_reads_it_before_it_is_written(
    lines: list[Line], choice: random.Random
) -> None:
    plain = [
        line if "MOV" not in line.text else Line(f"MOV R{choice.randrange(4)}, R{choice.randrange(4)}")
        for line in lines
    ]
    found = graph(plain)
    live = liveness(found)
    following = {index: set(ahead) for index, ahead in enumerate(found.following)}
    access = [one.access for one in found.instructions]
    for index in range(len(plain)):
        behind = 0
        for register in (1 << bit for bit in range(4)):
            kept = {i: ahead if not access[i].writes & register else set() for i, ahead in following.items()}
            ways = set().union(*(reached(kept, one) for one in following[index]))
            behind |= register if any(access[i].reads & register for i in ways) else 0
        assert only(live.after[index], "R") & 15 == behind
        assert only(live.before[index], "R") & 15 == access[index].reads & 15 | behind & ~access[index].writes
    most = max(range(len(plain)), key=lambda index: (live.pressure(index), -index))
    assert live.highest == most


def test_a_call_that_never_comes_back_is_a_branch() -> None:
    """ptxas leaves loops of Triton's matrix products by `CALL.REL.NOINC`; nvdisasm draws both edges."""
    flow = graph([
        Line("IADD3 R1, R1, R1, RZ"), Line("@!P0 CALL.REL.NOINC 0x30"), Line("BRA 0x0", to=0),
        Line("STG.E [R2], R1"), Line("EXIT"),
    ])  # fmt: skip
    assert flow.following == [(1,), (2, 3), (0,), (4,), ()]
    assert (flow.calls, flow.entries) == ({}, [0])
    assert [sorted(loop.blocks) for loop in flow.loops] == [[0, 1]]


def test_a_call_that_comes_back_goes_on_behind_itself() -> None:
    flow = graph([
        Line("CALL.REL.NOINC 0x20"), Line("EXIT"), Line("IADD3 R1, R1, R1, RZ"),
        Line("RET.REL.NODEC R4 0x0"),
    ])  # fmt: skip
    assert flow.following[0] == (1,)
    assert (flow.calls, flow.entries) == ({0: 2}, [0, 2])


def test_nothing_follows_the_last_instruction_of_code_that_is_cut() -> None:
    flow = graph([Line("MOV R1, R2"), Line("MOV R2, R3")])._flow
    assert (flow.following(0), flow.following(1)) == ([1], [])
    assert flow.falls_through.tolist() == [True, False]


def test_a_loop_to_the_first_instruction_and_one_of_the_greatest_size_are_loops() -> None:
    for size, found in ((LARGEST_LOOP, True), (LARGEST_LOOP + 1, False)):
        lines = [*(Line("MOV R1, R2") for _ in range(size - 1)), Line("@P0 BRA 0x0", to=0), Line("EXIT")]
        loop = graph(lines)._flow.loop_around(3)
        assert (loop is not None) == found
        if loop is not None:
            assert (loop.head, loop.branch, len(loop.body)) == (0, size - 1, size)


def test_of_two_branches_back_to_one_head_the_nearer_one_closes_the_loop() -> None:
    flow = graph([
        Line("MOV R1, R2"), Line("@P0 BRA 0x0", to=0), Line("@P1 BRA 0x0", to=0), Line("EXIT"),
    ])._flow  # fmt: skip
    loop = flow.loop_around(0)
    assert loop is not None and (loop.branch, loop.body) == (1, (0, 1))


@pytest.mark.parametrize(
    ("architecture", "bits", "always"),
    [(80, 0, True), (80, 2, True), (90, 0, True), (90, 1, False), (90, 2, False), (100, 3, False)],
)
def test_since_hopper_a_branch_of_a_uniform_predicate_or_by_convergence_may_go_on(
    architecture: int, bits: int, always: bool
) -> None:
    low, high = 0x947 | 7 << 12 | bits << 32, 7 << 23
    code = low.to_bytes(8, "little") + high.to_bytes(8, "little") + bytes(32)
    assert ControlFlow(code, architecture).falls_through.tolist() == [not always, True, False]

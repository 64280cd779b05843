"""Dependencies and live registers of random programs, against an interpreter that runs them."""

from __future__ import annotations

import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sass.programs import Line, graph
from warpsight.device_code.flow.liveness import liveness
from warpsight.device_code.registers import bits
from warpsight.sass.why.dependencies import Dependencies, waited_for

_RUNS, _STEPS = 30, 120
_REGISTERS = st.integers(0, 4)
_PREDICATES = st.integers(0, 1)


@st.composite
def programs(draw: st.DrawFn) -> list[Line]:
    """Up to 14 instructions on five registers, two predicates and three scoreboard barriers, with branches anywhere."""
    length = draw(st.integers(3, 14))
    lines = []
    for _ in range(length):
        guard = draw(st.sampled_from(["", "", "", "@P0 ", "@!P0 ", "@P1 "]))
        a, b, c = draw(_REGISTERS), draw(_REGISTERS), draw(_REGISTERS)
        waits = draw(st.sampled_from([0, 0, 0, 1, 2, 4, 3]))
        kind = draw(st.sampled_from(["add", "add", "load", "store", "compare", "branch"]))
        stall = draw(st.integers(1, 6))
        if kind == "add":
            lines.append(Line(f"{guard}IADD3 R{a}, R{b}, R{c}, RZ", stall=stall, waits=waits))
        elif kind == "load":
            write = draw(st.integers(0, 2))
            lines.append(Line(f"{guard}LDS R{a}, [R{b}]", stall=stall, write=write, waits=waits))
        elif kind == "store":
            read = draw(st.integers(0, 2))
            lines.append(Line(f"{guard}STS [R{a}], R{b}", stall=stall, read=read, waits=waits))
        elif kind == "compare":
            lines.append(
                Line(f"ISETP.GE.AND P{draw(_PREDICATES)}, PT, R{a}, R{b}, PT", stall=stall, waits=waits)
            )
        else:
            to = draw(st.integers(0, length))
            lines.append(Line(f"{guard}BRA {to * 16:#x}", to=to, stall=stall, waits=waits))
    return [*lines, Line("EXIT")]


def runs(lines: list[Line], seed: int) -> list[list[tuple[int, bool]]]:
    """Executions: (instruction, whether its guard let it through); what comparisons find is chance, and kept until the next."""
    chance = random.Random(seed)
    found = []
    for _ in range(_RUNS):
        at, run, known = 0, [], {number: chance.random() < 0.5 for number in range(2)}
        while len(run) < _STEPS:
            text = lines[at].text
            guarded = text.startswith("@")
            passes = not guarded or known[int(text.split()[0][-1])] != ("!" in text.split()[0])
            run.append((at, passes))
            if text == "EXIT":
                break
            if text.startswith("ISETP"):
                known[int(text.split("P", 2)[2][0])] = chance.random() < 0.5
            branch = lines[at].to
            at = branch if branch is not None and passes else at + 1
        found.append(run)
    return found


@settings(max_examples=120, deadline=None, derandomize=True)
@given(programs(), st.integers(0, 1000))
def test_each_value_that_is_read_comes_from_a_producer_that_was_found(lines: list[Line], seed: int) -> None:
    asked = Dependencies(graph(lines))
    instructions = asked.graph.instructions
    for run in runs(lines, seed):
        writer: dict[int, int] = {}
        for index, passes in run:
            known = instructions[index].access
            if passes:
                found = {(one.index, bit) for one in asked.producers(index) for bit in bits(one.registers)}
                for bit in bits(known.reads):
                    assert bit not in writer or (writer[bit], bit) in found
                writer.update(dict.fromkeys(bits(known.writes), index))


@settings(max_examples=120, deadline=None, derandomize=True)
@given(programs(), st.integers(0, 1000))
def test_each_operation_in_flight_is_found_by_what_waits_for_it(lines: list[Line], seed: int) -> None:
    asked = Dependencies(graph(lines))
    instructions = asked.graph.instructions
    for run in runs(lines, seed):
        in_flight: dict[int, set[int]] = defaultdict(set)
        for index, _ in run:
            one = instructions[index]
            found = {(setter.index, bit) for setter in asked.setters(index) for bit in bits(setter.barriers)}
            for barrier in bits(waited_for(one)):
                assert {(setter, barrier) for setter in in_flight[barrier]} <= found
                in_flight[barrier].clear()
            for barrier in bits(one.scheduling.sets):
                in_flight[barrier].add(index)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(programs(), st.integers(0, 1000))
def test_what_is_read_later_is_live(lines: list[Line], seed: int) -> None:
    flow = graph(lines)
    live = liveness(flow)
    for run in runs(lines, seed):
        needed = 0
        for index, passes in reversed(run):
            known = flow.instructions[index].access
            assert not needed & ~live.after[index]
            if passes:
                needed = (needed & ~known.writes) | known.reads
            needed |= known.guard
            assert not needed & ~live.before[index]


def test_producers_of_straight_code_are_the_last_writers_alone() -> None:
    asked = Dependencies(graph([
        Line("IADD3 R1, R0, R0, RZ"), Line("IADD3 R1, R0, R0, RZ", stall=3), Line("@P0 IADD3 R2, R0, R0, RZ"),
        Line("IADD3 R3, R1, R2, RZ"), Line("EXIT"),
    ]))  # fmt: skip
    assert [(one.index, one.cycles) for one in asked.producers(3)] == [(2, 1), (1, 4)]


def test_an_index_that_another_load_has_taken_over_is_not_blamed_on_the_first() -> None:
    """GPA's known weakness: both loads set barrier 0, but the first was waited for before the second was issued."""
    asked = Dependencies(graph([
        Line("LDS R1, [R0]", write=0), Line("IADD3 R4, R1, R1, RZ", waits=1), Line("LDS R2, [R0]", write=0),
        Line("IADD3 R3, R2, R1, RZ", waits=1), Line("EXIT"),
    ]))  # fmt: skip
    assert [one.index for one in asked.setters(3)] == [2]
    assert [one.index for one in asked.setters(1)] == [0]

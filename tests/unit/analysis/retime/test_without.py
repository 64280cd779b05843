"""Programs without a cause: which times go, and that all others stay."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.unit.analysis.device_program import Machine
from warpsight.analysis.path import dependencies
from warpsight.analysis.retime import without
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.program import Program
from warpsight.model import open as open_trace
from warpsight.model.work import COPY, KERNEL


@pytest.fixture(params=[(0, False), (1, False), (2, False), (3, True)])
def program(request: pytest.FixtureRequest, tmp_path) -> Program:
    """A random program, some of whose work comes before its launch has returned or its stream was free.

    In the last one, launches make system calls.
    """
    machine = Machine(*request.param)
    machine.run(100)
    machine.write(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace:
        found = build(trace)
    early = np.arange(len(found)) % 5 == 0
    return found.but(arrival=np.where(early, -7, found.arrival), gap=np.where(early, -3, 13),
                     delay=found.delay + 11)  # fmt: skip


def changed(before: Program, after: Program) -> set[str]:
    """Columns of times that differ."""
    names = [
        one.name
        for one in dataclasses.fields(before)
        if one.name in ("lag", "arrival", "gap", "delay", "duration", "after")
    ]
    return {name for name in names if (getattr(before, name) != getattr(after, name)).any()}


def within(program: Program) -> dict[int, set[int]]:
    """The points inside each call, its own begin and end left out, by its end."""
    lined = [*range(program.base)] if program.graph.sequence is None else program.graph.sequence.tolist()
    place = {point: number for number, point in enumerate(lined)}
    ends = range(1, program.base, 2)
    return {end: set(lined[place[end - 1] + 1 : place[end]]) for end in ends}


def between_calls(program: Program) -> list[int]:
    """Begins of calls that follow another call of their thread, not inside one."""
    inside = set().union(*within(program).values())
    return [
        point for point in range(0, program.base, 2) if program.before[point] >= 0 and point not in inside
    ]


def functions(program: Program) -> list[str]:
    """The function of each call, in the order of the threads."""
    calls = program.graph.calls
    return [calls.functions[number] for number in calls.function[program.graph.by_thread.call].tolist()]


def test_work_of_a_kind_takes_no_time_nor_do_calls_of_copies(program):
    copies = [kind == COPY for kind in program.graph.kind.tolist()]
    found = without.copies(program)
    calls = {place for place, mine in zip(program.place.tolist(), copies, strict=True) if mine and place >= 0}
    ends = [2 * place + 1 for place in sorted(calls)]
    assert found.lag[ends].tolist() == [0] * len(ends)
    others = np.setdiff1d(np.arange(program.base), ends)
    assert (found.lag[others] == program.lag[others]).all()
    assert found.arrival.tolist() == [
        0 if place in calls and (time < 0 or followed) else time
        for time, place, followed in zip(
            program.arrival.tolist(), program.place.tolist(), program.from_begin.tolist(), strict=True
        )
    ]
    assert found.duration.tolist() == [
        0 if mine else length for mine, length in zip(copies, program.duration.tolist(), strict=True)
    ]
    kernels = without.kernels(program, np.unique(program.graph.work.name_id))
    assert kernels.duration.tolist() == [
        0 if kind == KERNEL else length
        for kind, length in zip(program.graph.kind.tolist(), program.duration.tolist(), strict=True)
    ]
    assert changed(program, without.communication(program)) == set()


def test_launches_take_no_time_and_nothing_is_late_but_what_came_early_stays_early(program):
    found = without.launches(program)
    assert changed(program, found) == {"lag", "arrival", "gap"}
    issuing = {2 * place + 1 for place in program.place.tolist() if place >= 0}
    expected = program.lag.tolist()
    inner = within(program)
    for point in issuing:
        expected[point] = min(expected[point], 0)
        for one in inner[point]:
            expected[one] = 0
    assert found.lag.tolist() == expected
    assert found.arrival.tolist() == [min(time, 0) for time in program.arrival.tolist()]
    assert found.gap.tolist() == [min(time, 0) for time in program.gap.tolist()]
    assert -7 in found.arrival and -3 in found.gap


def test_work_whose_launch_is_not_known_is_as_late_without_launches(program):
    unknown = np.arange(len(program)) % 3 == 0
    program = program.but(place=np.where(unknown, -1, program.place))
    found = without.launches(program)
    for before, after in ((program.arrival, found.arrival), (program.gap, found.gap)):
        assert (after[unknown] == before[unknown]).all() and (before[unknown] > 0).any()
        assert (after[~unknown] == np.minimum(before[~unknown], 0)).all()


def test_host_code_between_calls_goes_and_with_launching_only_what_is_short(program):
    begins = between_calls(program)
    found = without.host_code(program)
    assert changed(program, found) == {"lag"}
    system = {2 * place + 1 for place, function in enumerate(functions(program)) if function == "read"}
    assert found.lag.tolist() == [
        0 if point in begins or point in system else time for point, time in enumerate(program.lag.tolist())
    ]
    short = 900
    lengths = {int(program.lag[point]) for point in begins}
    assert short in lengths and max(lengths) > short  # the bound is among them
    both, alone = without.launching(program, short), without.launches(program)
    assert both.lag.tolist() == [
        0 if point in begins and time <= short else time for point, time in enumerate(alone.lag.tolist())
    ]
    assert both.arrival.tolist() == alone.arrival.tolist() and both.gap.tolist() == alone.gap.tolist()


def test_a_call_returns_at_once_whatever_it_waited_for(program):
    name = "cudaSynchronize"
    points = {2 * place + 1 for place, function in enumerate(functions(program)) if function == name}
    found = without.calls(program, name)
    assert points
    assert found.lag.tolist() == [
        0 if point in points else time for point, time in enumerate(program.lag.tolist())
    ]
    assert found.after.tolist() == [
        0 if point in points else time for point, time in enumerate(program.after.tolist())
    ]
    links = zip(program.links.source.tolist(), program.links.target.tolist(), strict=True)
    assert list(zip(found.links.source.tolist(), found.links.target.tolist(), strict=True)) == [
        (source, target) for source, target in links if target not in points
    ]
    assert without.calls(program, "cudaFree") is program


def test_no_stream_waits_for_another(program):
    found = without.other_streams(program)
    streams = {dependencies.EVENT, dependencies.DEFAULT, dependencies.LISTED}
    rows = zip(program.links.target.tolist(), program.links.kind.tolist(), strict=True)
    kept = [(t, k) for t, k in rows if k not in streams or t < program.base]
    assert list(zip(found.links.target.tolist(), found.links.kind.tolist(), strict=True)) == kept
    assert len(kept) < len(program.links)
    assert (without.unexplained(program).delay == 0).all()

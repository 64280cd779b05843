"""The solver against a simulator that computes every moment from its definition, one by one."""

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.unit.analysis.device_program import Machine
from warpsight.analysis.retime import meetings
from warpsight.analysis.retime.building import build
from warpsight.analysis.retime.solving import solve
from warpsight.model import open as open_trace


def recording(tmp_path, seed, steps=120):
    machine = Machine(seed)
    machine.run(steps)
    machine.write(tmp_path / "t.warp")
    return open_trace(tmp_path / "t.warp")


def event_by_event(program):
    """Begin and end of every device node, and every point of the threads, from what each waits for."""
    links = {}
    for source, target, lag in zip(
        program.links.source, program.links.target, program.links.lag, strict=True
    ):
        links.setdefault(int(target), []).append((int(source), int(lag)))
    members = {}
    for node, group in zip(program.meetings.node, program.meetings.group, strict=True):
        members.setdefault(int(group), []).append(int(node))
    group_of = {node: group for group, nodes in members.items() for node in nodes}
    base, graph = program.base, program.graph

    @cache
    def moment(point):
        if point >= base:
            node = point - base
            if node not in group_of:
                return begin(node) + int(program.duration[node])
            return max(begin(one) for one in members[group_of[node]]) + int(program.duration[node])
        before = int(program.before[point])
        times = [moment(before) + int(program.lag[point]) if before >= 0 else int(graph.time[point])]
        times += [moment(source) + lag for source, lag in links.get(point, ())]
        return max(times) + int(program.after[point])

    @cache
    def begin(node):
        times = [moment(source) + lag for source, lag in links.get(base + node, ())]
        place, previous = int(program.place[node]), int(program.previous[node])
        if place >= 0:
            times.append(moment(2 * place + (not program.from_begin[node])) + int(program.arrival[node]))
        if previous >= 0:
            times.append(moment(base + previous) + int(program.gap[node]))
        if not times:
            return int(graph.start[node])
        return max(times) + int(program.delay[node])

    return [moment(point) for point in range(base)], [begin(node) for node in range(len(program))]


@pytest.mark.parametrize("seed", range(12))
def test_a_recording_solved_as_it_is_gives_the_recorded_times(tmp_path, seed):
    with recording(tmp_path, seed) as trace:
        program = build(trace)
        times = solve(program)
    graph = program.graph
    assert (times.start == graph.start).all()
    assert (times.end == graph.end).all()
    assert (times.begin == graph.time[0 : graph.base : 2]).all()
    assert (times.returned == graph.time[1 : graph.base : 2]).all()


@pytest.mark.parametrize("seed", range(12))
def test_other_times_give_what_an_event_by_event_simulation_gives(tmp_path, seed):
    draw = np.random.default_rng(seed)
    with recording(tmp_path, seed) as trace:
        program = build(trace)
    changed = program.but(
        duration=(program.duration * draw.uniform(0, 3, len(program))).astype(np.int64),
        lag=np.maximum(program.lag, 0) * draw.integers(0, 3, len(program.lag)),
        delay=program.delay // 2,
    )
    points, starts = event_by_event(changed)
    times = solve(changed)
    assert times.begin.tolist() == points[0::2]
    assert times.returned.tolist() == points[1::2]
    assert times.start.tolist() == starts


@pytest.mark.parametrize("seed", range(6))
def test_collectives_end_after_their_last_member_has_come(tmp_path, seed):
    """Two ranks whose kernels of one name end together: a late rank holds up the other."""
    from warpsight.model import TraceWriter

    draw = random.Random(seed)
    rows = {"kernel": [], "launch": []}
    clock = [0, 0]
    with TraceWriter(tmp_path / "t.warp") as writer:
        name = writer.name("ncclDevKernel_AllReduce_Sum")
        for number in range(10):
            for rank in (0, 1):
                clock[rank] += draw.randint(10_000, 90_000)
            arrived = max(clock)
            for rank in (0, 1):
                rows["launch"].append({"start": clock[rank] - 5_000, "duration": 2_000, "function": "cudaLaunchKernel",
                                       "captured": False,
                                       "thread": 1, "process": rank, "correlation": number + 1})  # fmt: skip
                rows["kernel"].append({"start": clock[rank], "duration": arrived + 30_000 - clock[rank], "name_id": name,
                                       "device": rank, "context": 1, "stream": 7, "graph_level": False, "process": rank,
                                       "correlation": number + 1})  # fmt: skip
            clock = [arrived + 30_000] * 2
        for table, content in rows.items():
            writer.add(table, content)
    with open_trace(tmp_path / "t.warp") as trace:
        program = build(trace)
    assert len(program.meetings) == 20
    first = solve(program)
    assert (first.end == program.graph.end).all()
    late = program.lag.copy()
    late[program.base - 2] += 1_000_000  # the last call of the last rank
    times = solve(program.but(lag=late))
    own = np.flatnonzero(program.place == len(program.graph.by_thread) - 1)[0]
    assert times.start[own] == program.graph.start[own] + 1_000_000
    assert times.end.max() == times.start.max() + 30_000
    assert (times.end == times.end.max()).sum() == 2


def test_what_was_found_out_about_a_program_holds_while_only_its_times_change(tmp_path):
    with recording(tmp_path, 1, 20) as trace:
        program = build(trace)
        solve(program)
        solved = replace(program, structure=object())
        assert solved.but(duration=program.duration * 2).structure is solved.structure
        added = program.links.joined(np.array([0]), np.array([1]), np.array([0]), 0)
        assert solved.but(links=added).structure is None
        assert solved.but(meetings=program.meetings).structure is None


@pytest.mark.parametrize("others", [[5], [1, 4], [-9, 0, 3, 3, 8, 20]])
def test_the_nearest_of_ascending_times_is_found(others):
    time = np.arange(-15, 30)
    found = meetings._nearest(time, np.array(others))
    assert [abs(others[i] - t) for i, t in zip(found.tolist(), time.tolist(), strict=True)] == [
        min(abs(one - t) for one in others) for t in time.tolist()
    ]

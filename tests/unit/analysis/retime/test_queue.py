"""A full launch queue: how many launches it holds, by CUPTI's mark and without it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.analysis.conftest import kernel, launch
from warpsight.analysis.retime import queue
from warpsight.analysis.retime.building import build as build_program
from warpsight.analysis.retime.solving import solve
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

US = 1_000
KERNEL, CALL = 10 * US, 2 * US


def recording(path, held, marks):
    """200 launches on one stream that holds `held` of them: once it is full, each call returns when a kernel begins."""
    with TraceWriter(path) as writer:
        name = writer.name("work")
        launches, kernels, overheads = [], [], []
        clock, free = 0, 0
        for i in range(200):
            begin = clock
            end = begin + CALL
            if i >= held:  # blocked until the work `held` launches earlier begins
                end = max(end, kernels[i - held]["start"] + 500)
            start = max(begin + CALL + US, free)
            free = start + KERNEL
            launches.append({"start": begin, "duration": end - begin, "function": "cudaLaunchKernel", "thread": 1, "process": 0,
                             "correlation": i + 1, "captured": False})  # fmt: skip
            kernels.append({"start": start, "duration": KERNEL, "name_id": name, "device": 0, "context": 1, "stream": 7,
                            "process": 0, "correlation": i + 1, "graph_level": False})  # fmt: skip
            if marks and i >= held:
                overheads.append({"start": begin + 300, "duration": end - begin - 600, "kind": "command buffer full", "thread": 1,
                                  "process": 0})  # fmt: skip
            clock = end + 100
        writer.add("launch", launches)
        writer.add("kernel", kernels)
        if overheads:
            writer.add("overhead", overheads)
    return open_trace(path)


@pytest.mark.parametrize("held", [12, 40, 90])
def test_marked_launches_say_how_many_a_queue_holds(tmp_path, held):
    """Calls of 9 µs among those of 2 µs are too short to be told from ordinary ones without the mark."""
    with recording(tmp_path / "marked.warp", held, marks=True) as trace:
        program = build_program(trace)
        times = solve(program)
    assert program.depth == pytest.approx(held, abs=1)
    assert int((times.returned - program.graph.time[1 : program.base : 2]).max()) == 0  # as recorded


def test_a_queue_that_was_never_full_has_no_known_depth(tmp_path):
    with recording(tmp_path / "a.warp", 300, marks=False) as trace:
        assert build_program(trace).depth is None


@settings(derandomize=True, max_examples=80)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 90), st.integers(0, 90), st.booleans()),
        min_size=1,
        max_size=14,
    ),
    st.integers(1, 4),
)
def test_launches_ahead_are_those_of_the_stream_whose_work_has_not_begun(rows, depth):
    """Stream, begin of the call, begin of the work, and whether the call launches a second kernel (a graph)."""
    rows.sort(key=lambda row: row[0])
    nodes = [
        (place, start + extra)
        for place, (_, _, start, twice) in enumerate(rows)
        for extra in range(1 + twice)
    ]
    begun = [call for _, call, _, _ in rows]
    program = SimpleNamespace(
        place=np.array([place for place, _ in nodes]),
        graph=SimpleNamespace(
            order=np.arange(len(nodes)), kind=np.zeros(len(nodes), int), start=np.array([start for _, start in nodes]),
            queue=np.array([rows[place][0] for place, _ in nodes]), time=np.array([t for b in begun for t in (b, b + 25)]),
        ),
    )  # fmt: skip
    lines = queue._launches(program)
    first = [next(i for i, (place, _) in enumerate(nodes) if place == one) for one in range(len(rows))]
    assert lines.tolist() == first
    ahead = []
    for place, (stream, call, _, _) in enumerate(rows):
        own = [row for row in rows if row[0] == stream]
        before = sum(row[0] == stream for row in rows[:place])
        ahead.append(before - sum(row[2] <= call for row in own))
    assert queue._ahead(program, lines).tolist() == ahead
    full = np.array([twice for *_, twice in rows])
    held = [one for one, twice in zip(ahead, full, strict=True) if twice]
    middle = int(np.median(held)) if len(held) >= 4 else 0
    assert queue._marked_depth(program, lines, full) == (middle if middle > 1 else None)
    # Of those, the part that returned within 20 µs of when the work so many launches earlier on their stream began.
    near = [
        abs(rows[one][1] + 25 - rows[one - depth][2]) <= 30
        for one in np.flatnonzero(full).tolist()
        if one >= depth and rows[one][0] == rows[one - depth][0]
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue, "_NEAR", 30)
        assert queue._released(program, lines, depth, full) == (sum(near) / len(near) if near else 0)


def test_a_mark_belongs_to_the_call_of_its_thread_around_its_middle(build):
    marks = [
        {"start": 100, "duration": 20, "thread": 100, "kind": "Command buffer full"},
        {
            "start": 195,
            "duration": 30,
            "thread": None,
            "kind": "command buffer full",
        },  # nobody says which thread
        {
            "start": 300,
            "duration": 10,
            "thread": 101,
            "kind": "command buffer full",
        },  # a thread without calls then
        {"start": 400, "duration": 10, "thread": 100, "kind": "cupti buffer flush"},
        {
            "start": 490,
            "duration": 60,
            "thread": 100,
            "kind": "command buffer full",
        },  # its middle is after the call
    ]
    starts = (100, 200, 300, 400, 500)
    trace = build(
        kernel=[kernel(1_000 + i * 100, 50, correlation=i + 1) for i in range(6)],
        launch=[launch(start, 10, i + 1) for i, start in enumerate(starts)]
        + [launch(205, 10, 6, thread=101)],
        overhead=[{**mark, "process": 0} for mark in marks],
    )
    program = build_program(trace)
    by_thread, calls = program.graph.by_thread, program.graph.calls
    full = queue.marked(trace, program)
    found = {(int(calls.thread[one]), int(calls.start[one])) for one in by_thread.call[full].tolist()}
    assert found == {(100, 100), (100, 200), (101, 205)}
    assert queue.marked(build(kernel=[kernel(0, 5)], overhead=[{**marks[3], "process": 0}]), program) is None

"""A full launch queue: how many launches it holds, by CUPTI's mark and without it."""

import pytest

from warpsight.analysis.retime.building import build
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
        program = build(trace)
        times = solve(program)
    assert program.depth == pytest.approx(held, abs=1)
    assert int((times.returned - program.graph.time[1 : program.base : 2]).max()) == 0  # as recorded


def test_a_queue_that_was_never_full_has_no_known_depth(tmp_path):
    with recording(tmp_path / "a.warp", 300, marks=False) as trace:
        assert build(trace).depth is None

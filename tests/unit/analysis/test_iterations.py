import numpy as np
import pytest

from warpsight.analysis.path.critical_path import critical_path
from warpsight.analysis.steps import repetition
from warpsight.analysis.steps.iterations import find, iterations, outliers, steady_state
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def sequence(warm, layers, per_layer, turns, tail=0, extra=()):
    rng = np.random.default_rng(layers)
    names = rng.integers(300, 340, warm).tolist()
    begins = []
    for turn in range(turns):
        begins.append(len(names))
        names += [100, 101, *(list(range(per_layer)) * layers), 200, 201, 202]
        names += [77] * 50 if turn in extra else []
    names += rng.integers(300, 340, tail).tolist()
    gap = np.zeros(len(names))
    gap[begins] = 100
    return np.array(names), gap, begins


@pytest.mark.parametrize(
    "plan", [(50, 16, 7, 30), (500, 48, 5, 20, 3, (7,)), (20, 80, 9, 12, 100, (3,)), (3, 1, 1, 1000)]
)
def test_turns_of_a_loop_with_layers_warm_up_and_a_longer_turn(plan):
    names, gap, begins = sequence(*plan)
    found = repetition.find(names, gap)
    assert found.period == 5 + plan[1] * plan[2]
    assert found.begins.tolist() == begins


def test_what_does_not_repeat_is_no_loop():
    assert repetition.find(np.random.default_rng(0).integers(0, 50, 5000), np.zeros(5000)) is None
    assert repetition.find(np.arange(1000), np.zeros(1000)) is None
    assert repetition.find(np.zeros(3), np.zeros(3)) is None


def test_the_shortest_period_counts():
    assert repetition.period(np.array([0, 1] * 500))[0] == 2
    assert repetition.period(np.array([0] * 500))[0] == 1


def test_warm_up_and_outliers_are_told_from_the_steady_state():
    duration = np.array([900, 300, 100, 101, 99, 100, 102, 400, 98, 100, 101, 20])
    steady = steady_state(duration)
    assert steady.tolist() == [False, False, *[True] * 9, False]
    assert np.flatnonzero(outliers(duration, steady) & steady).tolist() == [7]


def write(path, mark):
    """Ten turns of 1 ms; launches run 50 ms ahead of the device. `mark(writer, turn, host)` announces turns."""
    with TraceWriter(path) as writer:
        ids = [writer.name("gemm"), writer.name("relu")]
        for turn in range(10):
            host = 1_000_000 + turn * 200_000
            mark(writer, turn, host)
            for i in range(4):
                correlation = turn * 4 + i + 1
                device = 60_000_000 + turn * 1_000_000 + i * 200_000
                both = {"process": 0, "correlation": correlation, "name_id": ids[i % 2]}
                writer.add("launch", [{**both, "start": host + i * 10_000, "duration": 4_000, "function": "f", "thread": 7,
                                       "captured": False}])  # fmt: skip
                writer.add("kernel", [{**both, "start": device, "duration": 150_000 + (turn == 6) * 40_000, "context": 1,
                                       "stream": 7, "device": 0, "graph_level": False}])  # fmt: skip


def marker(writer, turn, host):
    writer.add("marker", [{"start": host - 1000, "duration": 60_000, "kind": "push/pop", "open": False,
                           "name_id": writer.name(f"step {turn}"), "source": "nvtx", "thread": 7, "process": 0}])  # fmt: skip


def step(writer, turn, host):
    writer.add("user_event", [{"start": host + 100_000, "duration": 0, "name": "step", "kind": "step", "thread": 7,
                               "process": 0}])  # fmt: skip


def profiler_step(writer, turn, host):
    writer.add("op", [{"start": host - 1000, "duration": 60_000, "name_id": writer.name(f"ProfilerStep#{turn}"), "thread": 7,
                       "process": 0}])  # fmt: skip


@pytest.mark.parametrize(
    ("mark", "source", "count"),
    [
        (marker, "range 'step #'", 10),
        (step, "ws.step()", 10),
        (profiler_step, "operator 'ProfilerStep#'", 10),
    ],
)
def test_announced_iterations_are_those_of_the_device_though_the_host_runs_ahead(
    tmp_path, mark, source, count
):
    write(tmp_path / "t.warp", mark)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
        rows = iterations(trace).tables["iterations"].to_pylist()
    assert (found.source, len(found)) == (source, count)
    assert found.start.tolist() == [60_000_000 + (i + 10 - count) * 1_000_000 for i in range(count)]
    assert found.duration[:-1].tolist() == [1_000_000] * (count - 1)
    assert [row["work"] for row in rows] == [4] * count
    assert [row["busy"] for row in rows] == [760_000 if i == 6 else 600_000 for i in range(10 - count, 10)]


def test_without_announcements_the_kernels_tell(tmp_path):
    write(tmp_path / "t.warp", lambda *_: None)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
    assert found.source.startswith("repetition of 2 kernels")  # gemm, relu, gemm, relu: two kernels repeat
    assert len(found) == 20


def test_the_critical_path_of_the_steady_state_leaves_the_start_out(tmp_path):
    write(tmp_path / "t.warp", marker)
    with open_trace(tmp_path / "t.warp") as trace:
        (found,) = find(trace)
        tables = critical_path(trace).tables
    begin, end = found.window()
    assert sum(r["time"] for r in tables["steady"].to_pylist()) == end - begin
    assert {r["cause"] for r in tables["steady"].to_pylist()} == {"kernel", "gap in the stream"}
    assert sum(r["time"] for r in tables["causes"].to_pylist()) > end - begin


def copies_around(writer, count, before, kernel, pause):
    """Small copies, the first `before` of them before one kernel of some length (ns), at a pause from each other."""
    name, time = writer.name("the_program"), 1_000
    for place in range(count):
        if place == before:
            writer.add("launch", [{"start": time, "duration": 500, "function": "cudaLaunchKernel", "thread": 7, "process": 0,
                                   "correlation": 1_000, "captured": False}])  # fmt: skip
            writer.add("kernel", [{"start": time + 1_000, "duration": kernel, "name_id": name, "device": 0, "context": 1,
                                   "stream": 7, "process": 0, "correlation": 1_000, "graph_level": False}])  # fmt: skip
            time += kernel + 2_000
        both = {"process": 0, "correlation": place + 1}
        writer.add("api", [{**both, "start": time, "duration": 5_000, "function": "cudaMemcpy", "thread": 7}])
        writer.add("memcpy", [{**both, "start": time + 1_000, "duration": 2_000, "kind": "HtoD", "source_kind": "pageable",
                               "destination_kind": "device", "bytes": 64, "asynchronous": False, "device": 0, "context": 1,
                               "stream": 7}])  # fmt: skip
        time += 5_000 + pause


def found_in(path, **plan):
    with TraceWriter(path) as writer:
        copies_around(writer, **plan)
    with open_trace(path) as trace:
        return find(trace)


def test_copies_around_the_one_kernel_that_is_the_program_are_no_iterations(tmp_path):
    assert found_in(tmp_path / "t.warp", count=84, before=75, kernel=50_000_000, pause=10_000) == []


def test_a_loop_of_single_works_is_one(tmp_path):
    (found,) = found_in(tmp_path / "t.warp", count=84, before=75, kernel=20_000, pause=10_000)
    assert len(found) == 84
    assert found.source == "repetition of one kernel or copy"

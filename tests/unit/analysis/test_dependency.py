import numpy as np
import pytest

from tests.unit.analysis.device_program import LATENCY, Machine
from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path.critical_path import critical_path, trace_back
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def run(tmp_path, seed, steps=60):
    machine = Machine(seed, nested=seed >= 8)
    machine.run(steps)
    machine.write(tmp_path / "t.warp")
    return open_trace(tmp_path / "t.warp")


def brute_longest(graph):
    """The longest path by relaxing every edge in topological order: an edge weighs the time from its source to its
    target (start of device work) when nothing later released the target, else nothing."""
    source, target, kind = graph.edges
    base = graph.base
    begin = np.where(np.arange(len(graph)) < base, graph.time, 0)
    begin[base:] = graph.start
    incoming = {}
    for s, t, k in zip(source.tolist(), target.tolist(), kind.tolist(), strict=True):
        incoming.setdefault(t, []).append((s, k))
    best = {}

    def longest(point):
        if point in best:
            assert best[point] is not None, "a cycle"
            return best[point]
        best[point] = None
        told = [
            (int(graph.time[s]) + (graph.floor if k == dependency.LAUNCH else 0), s)
            for s, k in incoming.get(point, ())
        ]
        latest = max((t for t, _ in told), default=0)
        into = int(begin[point])
        value = max(
            (longest(s) + (into - int(graph.time[s]) if when == latest else 0) for when, s in told),
            default=into,
        )
        value += int(graph.time[point]) - into
        best[point] = value
        return value

    # In the order of time what a point waits for is known already: nothing goes deep.
    return max(longest(p) for p in np.argsort(graph.time, kind="stable").tolist())


@pytest.mark.parametrize("seed", range(12))
def test_the_path_is_the_longest_of_the_graph_and_the_length_of_the_recording(tmp_path, seed):
    with run(tmp_path, seed) as trace:
        graph = dependency.build(trace)
        path = trace_back(graph)
        assert path.length == int(graph.time.max()) - int(min(graph.time.min(), graph.start.min()))
        assert (path.begin[1:] == path.end[:-1]).all()  # no gap, no overlap
        assert brute_longest(graph) == int(graph.time.max())


def test_without_edges_the_path_is_the_same_and_asking_for_edges_is_an_error(tmp_path):
    with run(tmp_path, 3) as trace:
        whole, bare = dependency.build(trace), dependency.build(trace, edges=False)
        for name in ("time", "parent", "cause"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(bare, name))
        assert len(whole.edges[0])
        with pytest.raises(ValueError, match="without its edges"):
            _ = bare.edges


@pytest.mark.parametrize("seed", range(12))
def test_every_begin_has_the_cause_that_the_machine_gave_it(tmp_path, seed):
    with run(tmp_path, seed) as trace:
        graph = dependency.build(trace)
        assert graph.clamped == 0
        assert graph.floor in (0, LATENCY)
        base = graph.base
        for node in range(len(graph.work)):
            parent, cause = graph.parent[base + node], graph.cause[base + node]
            assert parent >= 0
            lead = LATENCY if cause == dependency.LAUNCH else 0
            assert graph.start[node] == graph.time[parent] + lead, dependency.EDGES[cause]


def test_calls_that_waited_are_released_by_the_work_they_waited_for(tmp_path):
    machine = Machine(3)
    machine.streams = [8]
    machine.random.choice = lambda options: options[-1]  # kernels of 60 µs on stream 8
    machine.launch()
    machine.sync(machine.call("api", "cudaStreamSynchronize", 70_000), "stream", 8)
    machine.write(tmp_path / "t.warp")
    with open_trace(tmp_path / "t.warp") as trace:
        causes = critical_path(trace).tables["causes"].to_pylist()
    assert {row["cause"]: row["time"] for row in causes} == {
        "kernel": 60_000,
        "launch latency": LATENCY,
        "wake-up after a wait": 1_500 + 15_000 + 70_000 - LATENCY - 60_000,
    }


@pytest.mark.parametrize("kernels", [0, 1])
def test_traces_without_calls_or_work(tmp_path, kernels):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add(
            "process", [{"process": 0, "pid": 1, "host": "h", "command": "c", "executable": "e", "start": 5}]
        )
        if kernels:
            writer.add(
                "kernel",
                [{"start": 10, "duration": 7, "context": 1, "stream": 7, "process": 0, "graph_level": False}],
            )
    with open_trace(tmp_path / "t.warp") as trace:
        result = critical_path(trace)
    assert [r["time"] for r in result.tables["causes"].to_pylist()] == [7] * kernels


def test_clocks_that_go_backwards_are_clamped_and_counted(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("launch", [{"start": 1000, "duration": 500, "function": "f", "thread": 1, "process": 0, "correlation": 1,
                               "captured": False}])  # fmt: skip
        writer.add("kernel", [{"start": 400, "duration": 100, "context": 1, "stream": 7, "process": 0, "correlation": 1,
                               "graph_level": False}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
        path = trace_back(graph)
        assert graph.clamped == 1
        assert path.length == 1100
        assert (path.end >= path.begin).all()
        assert "1 dependency ended" in critical_path(trace).findings[0].text


@pytest.mark.parametrize(
    ("called", "other", "cause"),
    [(90, None, "stream"), (91, None, "launch"), (89, None, "stream"), (90, 100, "wait list"), (91, 100, "launch"),
     (80, 99, "stream"), (91, 101, "wait list"), (80, 101, "wait list")],
)  # fmt: skip
def test_of_two_releases_at_one_moment_the_work_before_counts(tmp_path, called, other, cause):
    """Launches take 10 ns to arrive. Work of the stream has ended at 100, listed work at `other`; what follows begins then."""
    begin = max(called + 10, 100, other or 0)
    rows = [(7, 0, 10, 100), (7, called, begin, begin + 9)] + ([(8, 1, 11, other)] if other else [])
    with TraceWriter(tmp_path / "t.warp") as writer:
        for number, (stream, issued, start, end) in enumerate(rows, 1):
            both = {"process": 0, "correlation": number}
            writer.add("kernel", [{**both, "start": start, "duration": end - start, "context": 1, "stream": stream,
                                   "graph_level": False}])  # fmt: skip
            writer.add(
                "launch",
                [{**both, "start": issued, "duration": 1, "function": "f", "thread": 1, "captured": False}],
            )
        if other:
            writer.add(
                "flow", [{"from_correlation": 3, "to_correlation": 2, "kind": "wait list", "process": 0}]
            )
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
        assert graph.floor == 10
        (node,) = np.flatnonzero(graph.start == begin)
        assert dependency.EDGES[graph.cause[graph.base + node]] == cause


@pytest.mark.parametrize(
    ("function", "length", "late", "waits"),
    [("cuModuleLoadData", 1_000_000, 20_000, True), ("cuModuleLoadData", 1_000_000, 20_001, False),
     ("cuModuleLoadData", 10_000_000, 100_000, True), ("cuModuleLoadData", 10_000_000, 100_001, False),
     ("cuModuleLoadData", 500_000, 9_000, True), ("cuModuleLoadData", 499_999, 9_000, False),
     ("read", 1_000_000, 20_000, False), ("cudaFree", 3_000, 2_000, True), ("cudaFree", 3_000, 0, True),
     ("cudaFreeAsync", 3_000, 0, False), ("cudaDeviceSynchronize", 3_000, 2_000, True)],
)  # fmt: skip
def test_a_long_call_that_returns_right_after_the_work_waited_for_it(tmp_path, function, length, late, waits):
    """Within a fiftieth of its length and 100 µs; a call that frees or synchronizes waits whenever work ends during it."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        both = {"thread": 5, "process": 0}
        writer.add(
            "launch",
            [{**both, "start": 0, "duration": 5, "function": "f", "correlation": 1, "captured": False}],
        )
        writer.add("kernel", [{"start": 10, "duration": 990 + length - late, "context": 1, "stream": 7, "process": 0,
                               "correlation": 1, "graph_level": False}])  # fmt: skip
        writer.add(
            "api", [{**both, "start": 1_000, "duration": length, "function": function, "correlation": 2}]
        )
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
    assert graph.time[3] == 1_000 + length
    assert (graph.cause[3] == dependency.SYNC) == waits


@pytest.mark.parametrize(
    ("function", "awaited"),
    [
        ("cudaStreamSynchronize", 1),
        ("cudaEventSynchronize", 1),
        ("cudaDeviceSynchronize", 2),
        ("cudaFree", 2),
    ],
)
def test_of_work_that_ends_during_a_wait_for_one_stream_the_last_counts(tmp_path, function, awaited):
    """Nothing says which stream or event it was."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        both = {"thread": 5, "process": 0}
        for number, (stream, end) in enumerate(((7, 1_500), (8, 1_900), (9, 2_500), (10, 900)), 1):
            writer.add("launch", [{**both, "start": 10 * number, "duration": 5, "function": "f", "correlation": number,
                                   "captured": False}])  # fmt: skip
            writer.add("kernel", [{"start": 100, "duration": end - 100, "context": 1, "stream": stream, "process": 0,
                                   "correlation": number, "graph_level": False}])  # fmt: skip
        writer.add(
            "api", [{**both, "start": 1_000, "duration": 1_000, "function": function, "correlation": 9}]
        )
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
    source, _, kind = graph.edges
    ends = sorted(graph.time[source[kind == dependency.SYNC]].tolist())
    assert ends == [1_500, 1_900][-awaited:]


@pytest.mark.parametrize(("end", "cause"), [(499, "call"), (500, "call"), (501, "sync")])
def test_a_call_was_released_by_work_that_ended_after_it_began(tmp_path, end, cause):
    """It waits from 500 on. Threads with numbers of 32 bits are shown as the system does."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        both = {"thread": -5, "process": 0}
        writer.add(
            "launch",
            [{**both, "start": 0, "duration": 5, "function": "f", "correlation": 1, "captured": False}],
        )
        writer.add("kernel", [{"start": 10, "duration": end - 10, "context": 1, "stream": 7, "process": 0, "correlation": 1,
                               "graph_level": False}])  # fmt: skip
        writer.add(
            "api",
            [{**both, "start": 500, "duration": 100, "function": "cudaStreamSynchronize", "correlation": 2}],
        )
        writer.add("sync", [{"start": 500, "duration": 100, "kind": "stream", "context": 1, "stream": 7, "process": 0,
                             "correlation": 2, "result": 0}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
        assert dependency.EDGES[graph.cause[3]] == cause
        threads = critical_path(trace).tables["path"]["thread"].to_pylist()
    assert set(threads) <= {None, 0xFFFFFFFB} and threads[-1] == 0xFFFFFFFB


@pytest.mark.parametrize(("lost", "said"), [(100, False), (101, True)])
def test_a_path_that_begins_with_the_unknown_says_so_beyond_a_twentieth(tmp_path, lost, said):
    """A call that nothing is known before, beside work of an earlier program on another stream."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        both = {"context": 1, "process": 0, "graph_level": False}
        writer.add(
            "kernel",
            [
                {**both, "start": 1_000, "duration": 1, "stream": 9},
                {**both, "start": 1_000 + lost, "duration": 2_000 - lost, "stream": 7, "correlation": 1},
            ],
        )
        writer.add("launch", [{"start": 1_000 + lost, "duration": 5, "function": "f", "thread": 1, "process": 0,
                               "correlation": 1, "captured": False}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        result = critical_path(trace)
    (row,) = [row for row in result.tables["causes"].to_pylist() if row["cause"] == "nothing known before"]
    assert (row["time"], row["share"]) == (lost, lost / 2_000 * 100)
    assert [one.values for one in result.findings] == ([{"time": lost}] if said else [])


@pytest.mark.parametrize("processes", [(0, 1), (1, 0)])
def test_wait_lists_of_processes_with_the_same_correlations_stay_apart(tmp_path, processes):
    """In both processes work 2 waits for work 1, on another stream; only work of its own process counts."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        for order, process in enumerate(processes):
            for correlation, stream in ((1, 7), (2, 8)):
                writer.add("kernel", [{"start": 1_000 * correlation + 100 * order, "duration": 500, "device": process,
                                       "context": 1, "stream": stream, "process": process, "correlation": correlation,
                                       "graph_level": False}])  # fmt: skip
            writer.add("kernel", [{"start": 50 + order, "duration": 10, "device": process, "context": 1, "stream": 9,
                                   "process": process, "graph_level": False}])  # fmt: skip
            writer.add("flow", [
                {"from_correlation": 1, "to_correlation": 2, "kind": "wait list", "process": process},
                {"from_correlation": 2, "to_correlation": 1, "kind": "other", "process": process},
            ])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
    source, target, kind = (column[graph.edges[2] == dependency.LISTED] for column in graph.edges)
    work = graph.work
    found = {
        (int(work.process[s]), int(work.correlation[s]), int(work.process[t]), int(work.correlation[t]))
        for s, t in zip(source - graph.base, target - graph.base, strict=True)
    }
    assert found == {(0, 1, 0, 2), (1, 1, 1, 2)}
    assert len(kind) == 2

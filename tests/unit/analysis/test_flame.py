"""Flame graphs: every way from root to leaf and its weight, recounted row by row; what goes in comes out."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.analysis.conftest import EPOCH, copy, kernel, launch
from warpsight.analysis.flame import graph as graph_module
from warpsight.analysis.flame import ranges
from warpsight.analysis.flame.graph import LEVELS, NO_STACK, WEIGHTS, Shape, flame, flame_diff
from warpsight.errors import UsageError
from warpsight.model.selection import Rows
from warpsight.ui.render.flame.layout import preorder, pruned


def python(function, line):
    return (function, "train.py", line, None, "python", None)


STACKS = (
    (python("<module>", 9), python("step", 5)),
    (python("<module>", 9), python("step", 6), python("loss", 2)),
    (python("<module>", 10),),
)
#: Stack id → frames: every prefix of a stack is a stack and has an id.
FRAMES = {
    None: [NO_STACK],
    2: ["<module> (train.py:9)", "step (train.py:5)"],
    4: ["<module> (train.py:9)", "step (train.py:6)", "loss (train.py:2)"],
    5: ["<module> (train.py:10)"],
}


def paths(graph, column=0):
    """Every way from the root with a weight of its own, as text."""
    out = Counter()
    for node in np.flatnonzero(graph.own[:, column]).tolist():
        way, at = [], node
        while at > 0:
            way.append(graph.labels[graph.label[at]])
            at = graph.parent[at]
        out[tuple(way[::-1])] += int(graph.own[node, column])
    return out


def marker(start, duration, name_id, depth=None, thread=100):
    return {"start": start, "duration": duration, "kind": "push/pop", "open": False, "name_id": name_id, "depth": depth,
            "source": "nvtx", "thread": thread, "process": 0}  # fmt: skip


@pytest.fixture
def ranged(build):
    """Kernels of two threads whose launches are in nested, crossing, touching and no ranges."""
    rng = np.random.default_rng(3)
    names = ("gemm", "add", "outer", "inner", "step 1", "step 2")
    ranges = [marker(EPOCH, 1000, 3), marker(EPOCH + 100, 300, 4), marker(EPOCH + 100, 80, 5), marker(EPOCH + 400, 100, 4),
              marker(EPOCH + 1000, 500, 6), marker(EPOCH, 2000, 3, thread=101)]  # fmt: skip
    kernels, launches = [], []
    for i in range(200):
        at, thread = EPOCH + int(rng.integers(-50, 1700)), 100 + int(rng.integers(2))
        launches.append(launch(at, 5, i, thread=thread))
        kernels.append(kernel(at + 10, int(rng.integers(0, 90)), int(rng.integers(1, 3)), correlation=i,
                              stack=(None, 2, 4, 5)[rng.integers(4)]))  # fmt: skip
    return (
        build(names=names, stacks=STACKS, kernel=kernels, launch=launches, marker=ranges),
        kernels,
        launches,
        ranges,
    )


def test_every_way_down_has_the_time_of_its_kernels(ranged):
    trace, kernels, launches, ranges = ranged
    texts = {3: "outer", 4: "inner", 5: "step *", 6: "step *"}
    expected = Counter()
    for k, call in zip(kernels, launches, strict=True):
        around = [
            r
            for r in ranges
            if r["thread"] == call["thread"] and r["start"] <= call["start"] < r["start"] + r["duration"]
        ]
        around.sort(key=lambda r: (r["start"], -r["duration"]))
        frames = [] if around and k["stack"] is None else FRAMES[k["stack"]]  # a range tells enough
        way = (*frames, *(texts[r["name_id"]] for r in around), ("gemm", "add")[k["name_id"] - 1])
        expected[way] += k["duration"]
    graph = flame(trace)
    assert paths(graph) == +expected
    account = graph.accounts[0]
    assert account.measured == account.shown == sum(k["duration"] for k in kernels)
    assert account.without_stack == sum(k["duration"] for k in kernels if not k["stack"])


@pytest.mark.parametrize("weight", WEIGHTS)
def test_what_goes_in_comes_out_of_messy_traces(messy, weight):
    trace, rows = messy
    work = [k for k in rows["kernel"] if k["start"] is not None] + rows["memcpy"] + rows["memset"]
    expected = {"time": sum(w["duration"] for w in work), "launches": len(rows["kernel"]),
                "bytes": sum(w["bytes"] for w in rows["memcpy"] + rows["memset"]), "allocated": 0, "samples": 0}  # fmt: skip
    expected["pc-samples"] = 0
    expected["idle"] = sum(_idle([w for w in work if w["device"] == d]) for d in (0, 1))
    for by in ((), ("device", "stream"), ("rank",)):
        graph = flame(trace, shape=Shape(weight, by=by))
        assert graph.total[0, 0] == expected[weight] == graph.accounts[0].shown
        children = np.zeros(len(graph), np.int64)
        np.add.at(children, graph.parent[1:], graph.total[1:, 0])
        assert (graph.total[:, 0] == graph.own[:, 0] + children).all()
    assert graph.accounts[0].without_time == (3 if weight in ("time", "idle") else 0)


def _idle(work):
    """Moments between first and last work in which nothing ran, counted one by one."""
    busy = set()
    for w in work:
        busy.update(range(w["start"], w["start"] + w["duration"]))
    first, last = min(w["start"] for w in work), max(w["start"] for w in work)
    return sum(t not in busy for t in range(first, last))


def test_a_window_takes_the_part_of_a_kernel_that_lies_in_it(build):
    trace = build(kernel=[kernel(EPOCH, 100), kernel(EPOCH + 50, 100, 2)], memcpy=[copy(EPOCH + 90, 20)])
    graph = flame(trace, Rows(EPOCH + 40, EPOCH + 100))
    assert paths(graph) == {
        (NO_STACK, "gemm"): 60,
        (NO_STACK, "add(float*)"): 50,
        (NO_STACK, "memcpy HtoD"): 10,
    }
    assert graph.accounts[0].measured == 120


def test_splits_filters_and_levels(messy):
    trace, rows = messy
    graph = flame(trace, Rows(devices=(1,)), Shape(by=("device",), levels=("stack",)))
    expected = sum(
        r["duration"] or 0 for t in ("kernel", "memcpy", "memset") for r in rows[t] if r["device"] == 1
    )
    assert graph.total[0, 0] == expected
    assert {way[0] for way in paths(graph)} == {"device 1 NVIDIA H200"}
    streams = flame(trace, shape=Shape("launches", by=("stream",)))
    assert len({way[0] for way in paths(streams)}) == len(
        {(k["process"], k["device"], k["stream"]) for k in rows["kernel"]}
    )
    named = flame(trace, Rows(name="gemm"), Shape("launches", levels=()))
    assert paths(named) == {("gemm",): sum(k["name_id"] == 1 for k in rows["kernel"])}


def test_one_call_that_two_rows_tell_of_counts_its_kernel_once(build):
    trace = build(kernel=[kernel(10, 7, correlation=1)], launch=[launch(0, 5, 1), launch(1, 3, 1, thread=101)],
                  marker=[marker(0, 20, 2), marker(0, 20, 4, thread=101)])  # fmt: skip
    assert paths(flame(trace)) == {("add(float*)", "gemm"): 7}


def test_a_difference_has_both_traces_weights_on_one_tree(build):
    before = build(
        names=("gemm", "old"), stacks=STACKS, kernel=[kernel(0, 10, 1, stack=2), kernel(20, 5, 2, stack=2)]
    )
    after = build(
        names=("new", "gemm"),
        stacks=STACKS[1::-1],
        kernel=[kernel(0, 4, 2, stack=4), kernel(9, 6, 1, stack=3)],
    )
    graph = flame_diff(before, after)
    assert paths(graph, 0) == paths(flame(before)) == {(*FRAMES[2], "gemm"): 10, (*FRAMES[2], "old"): 5}
    assert paths(graph, 1) == paths(flame(after)) == {(*FRAMES[2], "gemm"): 4, (*FRAMES[4], "new"): 6}
    assert graph.total[0].tolist() == [15, 10]
    ways = [(graph.parent[i], graph.label[i]) for i in range(1, len(graph))]
    assert len(ways) == len(set(ways))


def test_an_empty_trace_gives_an_empty_graph(build):
    for weight in WEIGHTS:
        graph = flame(build(), shape=Shape(weight))
        assert len(graph) == 1 and graph.total.tolist() == [[0]]


def test_merged_lines_and_wrong_options(build):
    trace = build(stacks=STACKS, kernel=[kernel(0, 1, stack=2), kernel(2, 2, stack=4)])
    merged = flame(trace, shape=Shape(lines=False, levels=("stack",)))
    assert sum(label.startswith("step") for label in merged.labels) == 1
    for wrong in (Shape("hours"), Shape(by=("node",)), Shape(levels=("line",)), Shape(names="long")):
        with pytest.raises(UsageError, match="there is no"):
            flame(trace, shape=wrong)
    assert set(LEVELS) == {"stack", "range", "op"}


def test_preorder_puts_heavy_children_first_and_pruning_keeps_the_weight(messy):
    graph = flame(messy[0], shape=Shape(by=("stream",), levels=("stack",)))
    order = preorder(graph).tolist()
    assert sorted(order) == list(range(len(graph)))
    seen = []
    for node in order:
        while seen and seen[-1] != graph.parent[node]:
            seen.pop()
        assert seen or node == 0
        seen.append(node)
    smaller, dropped = pruned(graph, len(graph) // 2)
    assert dropped and len(smaller) + dropped == len(graph)
    assert smaller.own.sum() == graph.own.sum() == smaller.total[0, 0]
    assert (smaller.own >= 0).all()


def sample(time, stack, state="R", gil=False, thread=100):
    return {"time": time, "thread": thread, "stack": stack, "state": state, "gil": gil, "process": 0}


def test_samples_of_host_threads_stand_under_their_threads_and_ranges(build):
    samples = [sample(EPOCH, 2), sample(EPOCH + 10, 2, "S", gil=True), sample(EPOCH + 20, 2, "S"),
               sample(EPOCH + 20, None, "D", thread=101)]  # fmt: skip
    threads = [{"thread": 100, "process": 0, "name": "main"}, {"thread": 101, "process": 0, "name": None}]
    ranges = [marker(EPOCH + 5, 10, 1)]
    trace = build(names=("load",), stacks=STACKS, sample=samples, marker=ranges, thread=threads)
    graph = flame(trace, shape=Shape("samples", by=("thread",)))
    main = ("thread 100 main", *FRAMES[2])
    assert paths(graph) == {
        (*main, "running"): 1,
        (*main, "load", "running"): 1,
        (*main, "waiting"): 1,
        ("thread 101", NO_STACK, "waiting for a disk"): 1,
    }
    account = graph.accounts[0]
    assert (account.measured, account.shown, account.without_stack) == (4, 4, 1)
    window = Rows(EPOCH + 10, EPOCH + 21, name="^running$")
    assert paths(flame(trace, window, Shape("samples", levels=("stack",)))) == {(*FRAMES[2], "running"): 1}
    with pytest.raises(UsageError, match="no device or stream"):
        flame(trace, Rows(devices=(0,)), Shape("samples"))


def test_samples_of_any_number_of_threads_are_split_by_thread(build):
    """One thread."""
    graph = flame(build(stacks=STACKS, sample=[sample(EPOCH, 2)]), shape=Shape("samples", by=("thread",)))
    assert paths(graph) == {("thread 100", *FRAMES[2], "running"): 1}


def test_device_work_is_split_by_the_thread_that_asked_for_it(build):
    trace = build(kernel=[kernel(EPOCH, 5, correlation=1), kernel(EPOCH, 7, correlation=2), kernel(EPOCH, 9)],
                  launch=[launch(EPOCH, 1, 1), launch(EPOCH, 1, 2, thread=101)])  # fmt: skip
    split = paths(flame(trace, shape=Shape(by=("thread",))))
    assert split == {(thread, NO_STACK, "gemm"): ns for thread, ns in
                     (("thread 100", 5), ("thread 101", 7), ("no thread", 9))}  # fmt: skip


@given(st.lists(st.integers(0, 30), max_size=40), st.lists(st.integers(-2, 32), max_size=60), st.booleans())
def test_the_step_at_each_moment_is_that_of_a_binary_search(edges, moments, ordered):
    edges, moments = (
        np.unique(np.array(edges, np.int64)),
        np.array(sorted(moments) if ordered else moments, np.int64),
    )
    expected = np.searchsorted(edges, moments, "right") - 1
    assert ranges._step_at(edges, moments).tolist() == expected.tolist()


@pytest.mark.parametrize("width", [3, 1 << 31])
@pytest.mark.parametrize("rows", [0, 1, 3_000])
def test_groups_of_rows_are_numbered_as_they_appear(width, rows):
    rng = np.random.default_rng(rows)
    keys = [rng.integers(0, 3, rows), rng.integers(0, 3, rows) * (width // 3), np.zeros(rows, np.int64)]
    place, first = graph_module._places(keys, rows)
    listed = list(zip(*(key.tolist() for key in keys), strict=True))
    distinct = list(dict.fromkeys(listed))
    assert place.tolist() == [distinct.index(row) for row in listed]
    assert first.tolist() == [listed.index(row) for row in distinct]

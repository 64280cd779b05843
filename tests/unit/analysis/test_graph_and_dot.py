import itertools
import random

import numpy as np
import pytest

from warpsight.analysis.path import dependencies as dependency
from warpsight.analysis.path import dot
from warpsight.errors import UsageError
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows


def cuda_graph(path, launches=2, beside=(), b=1500):
    """A diamond a → (b, c) → d with an empty node between a and c; edges are those of the graph that was captured.

    `beside` are kernels of the graph without edges: name, begin and length.
    """
    nodes = {"a": 11, "b": 12, "c": 13, "d": 14, "empty": 15, "e": 16}
    with TraceWriter(path) as writer:
        writer.add("graph_node", [{"graph_node": 100 + n, "original": n, "graph": 2, "kind": "kernel", "time": 1, "process": 0}
                                  for n in nodes.values()])  # fmt: skip
        pairs = [("a", "b"), ("a", "empty"), ("empty", "c"), ("b", "d"), ("c", "d")]
        writer.add(
            "graph_edge",
            [{"from_node": nodes[x], "to_node": nodes[y], "graph": 1, "process": 0} for x, y in pairs],
        )
        for launch in range(launches):
            begin = 10_000 + launch * 100_000
            writer.add("launch", [{"start": begin - 9_000, "duration": 2_000, "function": "cudaGraphLaunch", "thread": 1,
                                   "process": 0, "correlation": launch + 1, "captured": False}])  # fmt: skip
            for name, at, length in (
                ("a", 0, 1000),
                ("b", b, 9000),
                ("c", 1600, 2000),
                ("d", 11_000, 500),
                *beside,
            ):
                writer.add("kernel", [{"start": begin + at, "duration": length, "name_id": writer.name(name), "context": 1,
                                       "stream": 7, "device": 0, "process": 0, "correlation": launch + 1, "graph": 2,
                                       "graph_node": 100 + nodes[name], "graph_level": False}])  # fmt: skip
    return open_trace(path)


def test_kernels_of_a_graph_wait_for_what_its_edges_say(tmp_path):
    with cuda_graph(tmp_path / "t.warp") as trace:
        graph = dependency.build(trace)
        names = dict(trace.sql("SELECT id, name FROM name").fetchall())
    base = graph.base
    source, target, kind = graph.edges
    chosen = kind == dependency.GRAPH
    label = [names[int(i)] + str(n // 4) for n, i in enumerate(graph.work.name_id)]
    found = {(label[s - base], label[t - base]) for s, t in zip(source[chosen], target[chosen], strict=True)}
    assert found == {
        (f"{a}{i}", f"{b}{i}") for a, b in (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")) for i in (0, 1)
    }
    parent = {label[i]: graph.parent[base + i] for i in range(8)}
    assert label[parent["d0"] - base] == "b0"  # b ended last
    assert graph.cause[base + label.index("c0")] == dependency.GRAPH
    assert graph.clamped == 0


def test_a_kernel_of_a_graph_waits_for_nothing_else_of_its_stream(tmp_path):
    """The last to end before it is no node that it waits for."""
    with cuda_graph(tmp_path / "t.warp", 1, [("e", 10_600, 300)]) as trace:
        graph = dependency.build(trace)
    assert (graph.start[4], graph.end[3]) == (21_000, 20_900)
    assert (graph.parent[graph.base + 4], graph.cause[graph.base + 4]) == (graph.base + 1, dependency.GRAPH)
    assert graph.cause[graph.base + 3] == dependency.STREAM  # without an edge the stream's order counts


def test_an_edge_that_the_times_contradict_is_none_and_counted(tmp_path):
    """b begins after d, which waits for it."""
    with cuda_graph(tmp_path / "t.warp", 2, b=12_000) as trace:
        graph = dependency.build(trace)
        source, target, kind = graph.edges
    assert graph.clamped == 2
    chosen = kind == dependency.GRAPH
    assert (graph.start[source[chosen] - graph.base] < graph.start[target[chosen] - graph.base]).all()
    assert int(chosen.sum()) == 2 * 3


@pytest.mark.parametrize("seed", range(10))
def test_the_reduction_keeps_what_is_reachable_with_the_fewest_edges(seed):
    rng = random.Random(seed)
    count = 9
    edges = [(a, b) for a, b in itertools.combinations(range(count), 2) if rng.random() < 0.5]
    rng.shuffle(edges)

    def reach(pairs):
        follow = {a: [y for x, y in pairs if x == a] for a in range(count)}

        def below(a):
            return {b for c in follow[a] for b in (c, *below(c))}

        return {a: below(a) for a in range(count)}

    kept = dot.reduction(count, np.array([a for a, _ in edges]), np.array([b for _, b in edges]))
    small = [edge for edge, good in zip(edges, kept, strict=True) if good]
    assert reach(small) == reach(edges)
    assert all(reach([e for e in small if e != one]) != reach(edges) for one in small)


def test_dot_is_quoted_and_bounded(tmp_path, monkeypatch):
    assert dot.quoted('a "b"\\c\nd') == '"a \\"b\\"\\\\c\\nd"'
    with cuda_graph(tmp_path / "t.warp") as trace:
        text, nodes, edges = dot._text(trace, Rows())
        assert text.startswith("digraph")
        assert text.count("label=") == nodes == 10
        assert text.count("->") == edges
        assert 'color="red"' in text
        monkeypatch.setattr(dot, "MOST_NODES", 3)
        with pytest.raises(UsageError, match="choose a part with --from"):
            dot._text(trace, Rows())

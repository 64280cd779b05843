"""The dependency graph as DOT: one node for each call and each row of device work, its edges, and the critical path in red."""

from __future__ import annotations

import io
import random
import re

import numpy as np
import pytest

from tests.unit.analysis.account.rows import call, sync
from tests.unit.analysis.conftest import Build, kernel, launch
from warpsight.analysis.path import critical_path, dot
from warpsight.analysis.path import dependencies as dependency
from warpsight.errors import UsageError
from warpsight.formats.selection import Selection
from warpsight.model import StoredTrace
from warpsight.model.selection import Rows


def program(build: Build, seed: int = 0, count: int = 12) -> StoredTrace:
    """Launches to two streams and waits for the device, now and then."""
    rng = random.Random(seed)
    rows: dict[str, list[dict[str, object]]] = {"launch": [], "kernel": [], "api": [], "sync": []}
    host, device = 1_000, {7: 2_000, 8: 2_000}
    for number in range(count):
        stream = rng.choice((7, 8))
        rows["launch"].append(launch(host, 50, number))
        begin = max(device[stream], host + 70)
        device[stream] = begin + rng.randrange(40, 400)
        rows["kernel"].append(
            kernel(begin, device[stream] - begin, number % 2 + 1, correlation=number, stream=stream)
        )
        host += 50 + rng.randrange(60)
        if rng.random() < 0.3:
            end = max(*device.values(), host) + 5
            rows["api"].append(call(host, end - host, "cudaDeviceSynchronize", correlation=1_000 + number))
            rows["sync"].append(sync(host, end - host, "context", correlation=1_000 + number))
            host = end + 3
    return build(names=("gemm", 'say "hi"'), **rows)


def parsed(text: str) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Nodes and edges of a DOT file with what is in their brackets."""
    nodes = {int(n): rest for n, rest in re.findall(r"^  n(\d+) \[(.*)\];$", text, re.M)}
    edges = {
        (int(a), int(b)): rest for a, b, rest in re.findall(r"^  n(\d+) -> n(\d+) \[(.*)\];$", text, re.M)
    }
    return nodes, edges


def written(trace: StoredTrace, rows: Rows = Rows()) -> str:
    out = io.StringIO()
    dot.write_dot(trace, rows, out)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(8))
def test_points_that_nothing_else_released_are_drawn_as_one_and_the_edges_reach_as_far(
    build: Build, seed: int
) -> None:
    """A call is two nodes where its return waited for something else; all that is reachable in the graph is in the picture."""
    trace = program(build, seed)
    graph = dependency.build(trace)
    source, target, kinds = (column.tolist() for column in graph.edges)
    returned_alone = set(range(len(graph.by_thread)))
    for a, b, kind in zip(source, target, kinds, strict=True):
        inside = kind not in (dependency.SYNC, dependency.BLOCKING)
        if b < graph.base and (not inside or (b % 2 and a != b - 1)):
            returned_alone.discard(b // 2)
    shown = {
        p: p - 1 if p < graph.base and p % 2 and p // 2 in returned_alone else p for p in range(len(graph))
    }
    points = sorted(set(shown.values()))
    nodes, edges = parsed(written(trace))
    assert sorted(nodes) == list(range(len(points)))
    pairs = {(points.index(shown[a]), points.index(shown[b])) for a, b in zip(source, target, strict=True)}
    pairs = {(a, b) for a, b in pairs if a != b}
    assert set(edges) <= pairs

    def reach(of: set[tuple[int, int]]) -> np.ndarray:
        out = np.zeros((len(points), len(points)), bool)
        for a, b in of:
            out[a, b] = True
        for middle in range(len(points)):
            out |= out[:, middle, None] & out[None, middle]
        return out

    assert (reach(set(edges)) == reach(pairs)).all()
    path = set(critical_path.trace_back(graph).point.tolist())
    red = {number for number, rest in nodes.items() if 'color="red"' in rest}
    assert red == {number for number, point in enumerate(points) if point in path} and red
    for (a, b), rest in edges.items():
        assert ("penwidth=2" in rest) == (a in red and b in red)
        number = {kinds[i] for i, (x, y) in enumerate(zip(source, target, strict=True))
                  if (shown[x], shown[y]) == (points[a], points[b])}  # fmt: skip
        tooltip = re.search('tooltip="(.*?)"', rest)
        assert tooltip is not None and tooltip[1] in {dependency.EDGES[kind] for kind in number}


def test_nodes_say_what_ran_where_and_how_long(build: Build) -> None:
    trace = build(
        names=("gemm", 'say "hi"'),
        launch=[launch(1_000, 50, 1), launch(1_100, 2_000, 2)],
        kernel=[kernel(2_000, 1_500, 1, correlation=1), kernel(4_000, 7, 2, correlation=2, stream=8)],
        api=[call(5_000, 4_000, "cudaDeviceSynchronize", correlation=3)],
        sync=[sync(5_000, 4_000, "context", correlation=3)],
    )
    nodes, edges = parsed(written(trace))
    labels = [re.match(r'label="((?:[^"\\]|\\.)*)"', rest) for rest in nodes.values()]
    assert [one[1] for one in labels if one is not None] == [
        r"cudaLaunchKernel\nthread 100, 50 ns", r"cudaLaunchKernel\nthread 100, 2.00 µs",
        r"cudaDeviceSynchronize\nthread 100, 4.00 µs", r"cudaDeviceSynchronize returns\nthread 100, 4.00 µs",
        r"gemm\nstream 7, 1.50 µs", r'say \"hi\"\nstream 8, 7 ns',
    ]  # fmt: skip
    assert ['fillcolor="#d8e8ff"' in rest for rest in nodes.values()] == [False] * 4 + [True] * 2
    assert ['fillcolor="#eeeeee"' in rest for rest in nodes.values()] == [True] * 4 + [False] * 2
    shown = {pair: re.match('color="(.*?)", tooltip="(.*?)"', rest) for pair, rest in edges.items()}
    found = {pair: (one[1], one[2]) for pair, one in shown.items() if one is not None}
    assert found[0, 4] == found[1, 5] == ("blue", "launch")
    assert found[5, 3] == found[4, 3] == ("firebrick", "sync")
    assert found[0, 1] == ("gray50", "host")


def test_exactly_as_many_nodes_as_fit_are_drawn(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = program(build)
    out = io.BytesIO()
    counts = dot.write(trace, out, Selection())
    text = out.getvalue().decode()
    nodes, edges = parsed(text)
    assert counts == {"nodes": len(nodes), "edges": len(edges)} and text == written(trace)
    monkeypatch.setattr(dot, "MOST_NODES", len(nodes))
    assert written(trace) == text
    monkeypatch.setattr(dot, "MOST_NODES", len(nodes) - 1)
    with pytest.raises(
        UsageError, match=f"the graph has {len(nodes)} nodes, more than {len(nodes) - 1}: choose a part"
    ):
        written(trace)


def test_a_selection_draws_what_it_chooses(build: Build) -> None:
    trace = program(build, 3)
    begin = 1_000
    for chosen in (Selection(streams=(8,)), Selection(begin=begin, end=2_600), Selection(processes=(1,))):
        out = io.BytesIO()
        dot.write(trace, out, chosen)
        rows = Rows(chosen.begin, chosen.end, chosen.devices, chosen.streams, chosen.processes)
        assert out.getvalue().decode() == written(trace, rows) != written(trace)


def test_texts_are_quoted() -> None:
    assert dot.quoted("a\r\nb") == '"a\\nb"' and dot.quoted("\\") == '"\\\\"'

"""What released work of a stream: the definition, one piece of work at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.analysis.path.lines import CLOSE, Lines, issued

#: Of each node: its stream, how long after the one before it was issued, its start after that, its length in ns, its call, and
#: whether its launch is that of a graph.
NODES = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 3_000) | st.integers(6_000, 9_000),
        st.sampled_from((0, 1, 400, 2_000, 2_001, 9_000)),
        st.integers(-1, 2),
        st.booleans(),
    ),
    max_size=8,
)


def lined_up(nodes: list[tuple[int, int, int, int, int, bool]]) -> dict[str, np.ndarray]:
    """Columns of nodes by start."""
    moment, rows = 0, []
    for queue, later, delay, length, call, graph in nodes:
        moment += later
        rows.append((moment + delay, moment, moment + delay + length, queue, call, graph))
    rows.sort(key=lambda row: row[0])
    names = ("start", "issue", "end", "queue", "call", "graph")
    kinds = (np.int64, np.int64, np.int64, np.int16, np.int64, bool)
    return {
        name: np.array([row[i] for row in rows], kind)
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }


def released(
    node: int, line: list[int], start: list[int], end: list[int], call: list[int], graph: list[bool] | None
) -> tuple[int, bool]:
    """The node that released one, -1 for none, and whether the two overlap."""
    place = line.index(node)
    if not place:
        return -1, False
    former = max(line[:place], key=lambda one: (end[one], line.index(one)))
    over = end[former] - start[node]
    shorter = min(end[former] - start[former], end[node] - start[node])
    if over <= CLOSE and 2 * over <= max(shorter, 0):
        return former, False
    over_by_then = [one for one in line if end[one] <= start[node]]
    programmatic = call[node] == call[former] >= 0 and 2 * over < end[former] - start[former]
    if programmatic and end[node] > end[former] and len(over_by_then) >= place - 1:
        return former, False
    last = max(over_by_then, key=lambda one: (end[one], line.index(one)), default=None)
    if last is not None and line.index(last) < place:
        return last, False
    return former if graph is not None and graph[node] else line[place - 1], True


@pytest.mark.parametrize("graphs", [False, True])
@settings(derandomize=True, max_examples=200, deadline=None)
@given(nodes=NODES)
def test_work_was_released_by_what_ended_last_before_it_began(
    graphs: bool, nodes: list[tuple[int, int, int, int, int, bool]]
) -> None:
    made = lined_up(nodes)
    lines = Lines.of(made["queue"], made["issue"], made["end"], 2)
    found, overlapping = lines.previous(made["start"], made["graph"] if graphs else None, made["call"])
    start, end, call, graph = (made[name].tolist() for name in ("start", "end", "call", "graph"))
    expected, overlaps = {}, set()
    for queue in (0, 1):
        line = [n for n in range(len(start)) if made["queue"][n] == queue]
        line.sort(key=lambda n: made["issue"][n])
        for node in line:
            expected[node], beside = released(node, line, start, end, call, graph if graphs else None)
            if beside:
                overlaps.add(node)
    assert found.tolist() == [expected[node] for node in range(len(start))]
    assert set(overlapping.tolist()) == overlaps


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.booleans()), max_size=8))
def test_work_without_a_call_was_issued_before_what_follows_it(rows: list[tuple[int, int, bool]]) -> None:
    queue, when, known = (
        np.array([row[i] for row in rows], kind) for i, kind in enumerate((np.int16, np.int64, bool))
    )
    found = issued(queue, when, known).tolist()
    for place, (own, moment, there) in enumerate(rows):
        later = [row[1] for row in rows[place:] if row[0] == own and row[2]]
        expected = moment if there or not any(row[2] for row in rows) else min([moment, *later])
        assert found[place] == expected

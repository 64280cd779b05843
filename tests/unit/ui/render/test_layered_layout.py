"""Drawings of graphs: nothing overlaps, every edge is drawn from its source to its target."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.ui.render.sass.layered_layout import Size, layered

SIZES = {number: Size(60 + 13 * number, 20 + 7 * number) for number in range(9)}
EDGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=24)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(EDGES)
def test_nodes_do_not_overlap_and_edges_reach_their_ends(edges: list[tuple[int, int]]) -> None:
    found = layered(SIZES, edges)
    for one, other in combinations(SIZES, 2):
        (x0, y0), (x1, y1) = found.places[one], found.places[other]
        apart = abs(x0 - x1) >= (SIZES[one].width + SIZES[other].width) / 2 - 1e-6
        upper, lower = (one, other) if y0 <= y1 else (other, one)
        assert apart or found.places[upper][1] + SIZES[upper].height <= found.places[lower][1]
    assert set(found.routes) == {edge for edge in edges if edge[0] != edge[1]}
    for (source, target), route in found.routes.items():
        for node, (x, y) in ((source, route[0]), (target, route[-1])):
            center, top = found.places[node]
            assert abs(x - center) <= SIZES[node].width / 2 + 1e-6
            assert top - 1e-6 <= y <= top + SIZES[node].height + 1e-6


def test_a_chain_is_drawn_downward() -> None:
    found = layered({0: Size(10, 10), 1: Size(10, 10), 2: Size(10, 10)}, [(0, 1), (1, 2)])
    assert [found.places[number][1] for number in range(3)] == [0, 54, 108]

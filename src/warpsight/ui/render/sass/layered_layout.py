"""A layered drawing of a directed graph, by Sugiyama's method.

Backward edges are reversed, nodes get the layer of their longest path from a root, long edges pass through empty nodes, and each
layer is ordered by the mean position of its neighbors. Then nodes move toward the middle of their neighbors without touching.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SWEEPS = 8
_GAP, _EMPTY_WIDTH, _BESIDE = 26.0, 10.0, 12.0
#: Distance of layers.
_BETWEEN = 44.0


@dataclass(frozen=True)
class Size:
    """Width and height of a node."""

    width: float
    height: float


@dataclass(frozen=True)
class GraphLayout:
    """A drawing.

    Attributes:
        places: center on x and upper edge on y of each node.
        routes: points that each edge passes between the nodes' borders, from source to target.
        width, height: size of the whole drawing.
    """

    places: Mapping[int, tuple[float, float]]
    routes: Mapping[tuple[int, int], tuple[tuple[float, float], ...]]
    width: float
    height: float


class _Drawing:
    def __init__(self, sizes: Mapping[int, Size], edges: Sequence[tuple[int, int]]) -> None:
        self.sizes = dict(sizes)
        self.edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
        self.layer: dict[int, int] = {}
        self.layers: list[list[int]] = []
        self.above: dict[int, list[int]] = {}
        self.below: dict[int, list[int]] = {}
        self.chains: list[list[int]] = []

    def forward(self) -> list[tuple[int, int]]:
        """The edges with back edges reversed, found by depth-first search from the first node."""
        ahead: dict[int, list[int]] = {node: [] for node in self.sizes}
        for source, target in self.edges:
            ahead[source].append(target)
        state: dict[int, int] = {}
        back: set[tuple[int, int]] = set()
        for root in self.sizes:
            if root in state:
                continue
            state[root] = 1
            stack = [(root, iter(ahead[root]))]
            while stack:
                node, rest = stack[-1]
                following = next(rest, None)
                if following is None:
                    state[node] = 2
                    stack.pop()
                elif state.get(following) == 1:
                    back.add((node, following))
                elif following not in state:
                    state[following] = 1
                    stack.append((following, iter(ahead[following])))
        return [
            (target, source) if (source, target) in back else (source, target)
            for source, target in self.edges
        ]

    def assign_layers(self, forward: Sequence[tuple[int, int]]) -> None:
        """The longest way from a root to each node."""
        before: dict[int, list[int]] = {node: [] for node in self.sizes}
        ahead: dict[int, list[int]] = {node: [] for node in self.sizes}
        for source, target in forward:
            before[target].append(source)
            ahead[source].append(target)
        open_ = {node: len(before[node]) for node in self.sizes}
        ready = [node for node in self.sizes if not open_[node]]
        while ready:
            node = ready.pop(0)
            self.layer[node] = max((self.layer[one] + 1 for one in before[node]), default=0)
            for target in ahead[node]:
                open_[target] -= 1
                if not open_[target]:
                    ready.append(target)

    def add_empty_nodes(self, forward: Sequence[tuple[int, int]]) -> None:
        """Split edges over several layers; chains keep the nodes that each passes, from upper to lower end."""
        fresh = max(self.sizes, default=0) + 1
        for source, target in forward:
            chain = [source]
            for layer in range(self.layer[source] + 1, self.layer[target]):
                self.sizes[fresh] = Size(_EMPTY_WIDTH, 0.0)
                self.layer[fresh] = layer
                chain.append(fresh)
                fresh += 1
            chain.append(target)
            self.chains.append(chain)
            for upper, lower in itertools.pairwise(chain):
                self.below.setdefault(upper, []).append(lower)
                self.above.setdefault(lower, []).append(upper)
        self.layers = [[] for _ in range(max(self.layer.values(), default=0) + 1)]
        for node in self.sizes:
            self.layers[self.layer[node]].append(node)

    def order(self) -> None:
        """Order each layer by the mean place of its neighbors, downward and upward in turns."""
        for sweep in range(_SWEEPS):
            neighbours = self.below if sweep % 2 else self.above
            for nodes in reversed(self.layers) if sweep % 2 else self.layers:
                place = {node: at for layer in self.layers for at, node in enumerate(layer)}
                means = {}
                for node in nodes:
                    near = [place[one] for one in neighbours.get(node, ())]
                    means[node] = sum(near) / len(near) if near else float(place[node])
                nodes.sort(key=lambda node, means=means: means[node])  # type: ignore[misc]

    def place_x(self) -> dict[int, float]:
        """Centers on x."""
        x: dict[int, float] = {}
        for nodes in self.layers:
            at = 0.0
            for node in nodes:
                x[node] = at + self.sizes[node].width / 2
                at += self.sizes[node].width + _GAP
        for sweep in range(2 * _SWEEPS):
            neighbours = self.below if sweep % 2 else self.above
            for nodes in reversed(self.layers) if sweep % 2 else self.layers:
                self._move(nodes, x, neighbours)
        left = min((x[node] - self.sizes[node].width / 2 for node in x), default=0.0)
        return {node: at - left for node, at in x.items()}

    def _move(
        self, nodes: Sequence[int], x: dict[int, float], neighbours: Mapping[int, Sequence[int]]
    ) -> None:
        """Move each node to the middle of its neighbors, as far as its siblings leave room.

        The result is the mean of pushing from both sides.
        """
        wanted = {}
        for node in nodes:
            near = [x[one] for one in neighbours.get(node, ())]
            wanted[node] = sum(near) / len(near) if near else x[node]
        right, left, at = {}, {}, float("-inf")
        for node in nodes:
            half = self.sizes[node].width / 2
            right[node] = max(wanted[node], at + half)
            at = right[node] + half + _GAP
        at = float("inf")
        for node in reversed(nodes):
            half = self.sizes[node].width / 2
            left[node] = min(wanted[node], at - half)
            at = left[node] - half - _GAP
        for node in nodes:
            x[node] = (right[node] + left[node]) / 2

    def place_y(self) -> tuple[dict[int, float], float]:
        """Upper edges on the y axis, and the total height."""
        y: dict[int, float] = {}
        at = 0.0
        for nodes in self.layers:
            for node in nodes:
                y[node] = at
            at += max((self.sizes[node].height for node in nodes), default=0.0) + _BETWEEN
        return y, max(at - _BETWEEN, 0.0)

    def upward(
        self,
        edge: tuple[int, int],
        passed: Sequence[tuple[float, float]],
        x: Mapping[int, float],
        y: Mapping[int, float],
    ) -> tuple[tuple[float, float], ...]:
        """The points of a back edge: out of one side of its source, up, and into the same side of its target."""
        lower, upper = edge
        beside = passed[0][0] if passed else max(x[lower], x[upper])
        side = 1 if beside >= (x[lower] + x[upper]) / 2 else -1
        middle = {
            node: (x[node] + side * self.sizes[node].width / 2, y[node] + self.sizes[node].height / 2)
            for node in edge
        }
        out = (middle[lower][0] + side * _BESIDE, y[lower] - _BETWEEN / 4)
        into = (middle[upper][0] + side * _BESIDE, y[upper] + self.sizes[upper].height + _BETWEEN / 4)
        return (
            middle[lower],
            (out[0], middle[lower][1]),
            out,
            *reversed(passed),
            into,
            (into[0], middle[upper][1]),
            middle[upper],
        )


def layered(sizes: Mapping[int, Size], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Draw a graph in layers.

    Args:
        sizes: size of each node; the first is placed on top.
        edges: pairs (from, to); edges from a node to itself are not routed.
    """
    drawing = _Drawing(sizes, edges)
    forward = drawing.forward()
    drawing.assign_layers(forward)
    drawing.add_empty_nodes(forward)
    drawing.order()
    x = drawing.place_x()
    y, height = drawing.place_y()
    tall = {layer: max((drawing.sizes[n].height for n in nodes), default=0.0)
            for layer, nodes in enumerate(drawing.layers)}  # fmt: skip
    routes = {}
    for edge, (upper, lower), chain in zip(drawing.edges, forward, drawing.chains, strict=True):
        points = [(x[upper], y[upper] + drawing.sizes[upper].height)]
        for node in chain[1:-1]:
            points += [(x[node], y[node]), (x[node], y[node] + tall[drawing.layer[node]])]
        points.append((x[lower], y[lower]))
        routes[edge] = tuple(points) if edge == (upper, lower) else drawing.upward(edge, points[1:-1], x, y)
    width = max((x[node] + drawing.sizes[node].width / 2 for node in x), default=0.0)
    return GraphLayout({node: (x[node], y[node]) for node in sizes}, routes, width, height)

"""The order of a wait-for graph: its cycles, and the distance of each place from a root."""

from __future__ import annotations

from collections.abc import Sequence


def reached(start: int, after: dict[int, list[int]]) -> set[int]:
    """All places reachable from a place."""
    found, waiting = {start}, [start]
    while waiting:
        new = [one for one in after.get(waiting.pop(), ()) if one not in found]
        found.update(new)
        waiting += new
    return found


def without_possible_circles(edges: dict[tuple[int, int], bool], count: int) -> dict[tuple[int, int], bool]:
    """The edges without uncertain ones that are on a cycle."""
    part_of = {place: at for at, part in enumerate(components(count, edges)) for place in part}
    return {
        edge: certain for edge, certain in edges.items() if certain or part_of[edge[0]] != part_of[edge[1]]
    }


def components(
    count: int, edges: Sequence[tuple[int, int]] | dict[tuple[int, int], bool]
) -> list[tuple[int, ...]]:
    """The strongly connected components of a graph in topological order of their edges (Tarjan 1972, without recursion)."""
    after: list[list[int]] = [[] for _ in range(count)]
    for begin, end in edges:
        after[begin].append(end)
    number, low = [-1] * count, [0] * count
    open_, is_open, found, counter = [], [False] * count, [], 0
    for start in range(count):
        work = [(start, 0)] if number[start] < 0 else []
        while work:
            node, at = work.pop()
            if at == 0:
                number[node] = low[node] = counter
                counter += 1
                open_.append(node)
                is_open[node] = True
            elif is_open[after[node][at - 1]]:
                low[node] = min(low[node], low[after[node][at - 1]])
            while at < len(after[node]) and number[after[node][at]] >= 0:
                if is_open[after[node][at]]:
                    low[node] = min(low[node], low[after[node][at]])
                at += 1
            if at < len(after[node]):
                work += [(node, at + 1), (after[node][at], 0)]
            elif low[node] == number[node]:
                cut = open_.index(node)
                part = open_[cut:]
                del open_[cut:]
                for one in part:
                    is_open[one] = False
                found.append(tuple(sorted(part)))
    return found


def depths(parts: list[tuple[int, ...]], edges: dict[tuple[int, int], bool]) -> dict[int, int]:
    """The longest distance of each place from a place that waits for no one."""
    part_of = {place: at for at, part in enumerate(parts) for place in part}
    depth = [0] * len(parts)
    leading: dict[int, set[int]] = {}
    for waiter, holder in edges:
        if part_of[waiter] != part_of[holder]:
            leading.setdefault(part_of[waiter], set()).add(part_of[holder])
    for at in range(len(parts)):  # each part comes behind those it leads to
        depth[at] = max((depth[other] + 1 for other in leading.get(at, ())), default=0)
    return {place: depth[part_of[place]] for place in part_of}

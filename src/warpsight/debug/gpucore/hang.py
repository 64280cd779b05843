"""Why the kernels of a dump do not continue, as plain data: missing blocks, roots, and their waiters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.debug.gpucore.code import Code
from warpsight.debug.gpucore.explanation import Statement, polled_at, statements
from warpsight.debug.gpucore.groups import SourceSite
from warpsight.debug.gpucore.lane_map import LaneMap
from warpsight.debug.gpucore.layout import Kind
from warpsight.debug.gpucore.waiting.graph import Edge, WaitGraph, wait_graph
from warpsight.debug.gpucore.waiting.missing_blocks import MissingBlocks, missing_blocks


@dataclass(frozen=True)
class Hang:
    """The explanation of a hang.

    Attributes:
        lanes: the lanes, with the number of each lane's place before ordering.
        places: in the order of the explanation.
        statements: one about each place, in the same order.
        missing: grids whose blocks on the device all poll memory while others are missing.
        graph: the wait-for graph; its place numbers are also those before ordering.
    """

    lanes: LaneMap
    places: tuple[SourceSite, ...]
    statements: tuple[Statement, ...]
    missing: tuple[MissingBlocks, ...]
    graph: WaitGraph

    @classmethod
    def of(cls, lanes: LaneMap, places: Sequence[SourceSite], code: Code) -> Hang:
        """Explain the places of a dump, see :func:`~warpsight.debug.gpucore.groups.places`."""
        graph = wait_graph(lanes, places, code)
        return cls(
            lanes, tuple(places[number] for number in graph.order), tuple(statements(lanes, places, graph, code)),
            tuple(missing_blocks(lanes, places, graph, code)), graph,
        )  # fmt: skip

    def to_json(self, limit: int | None, code: Code) -> dict[str, Any]:
        """`roots`, `chain`, `missing_blocks` and `explanation` of the first places; numbers are those of `places`."""
        shown = self.statements[:limit]
        rank = {number: at for at, number in enumerate(self.graph.order)}

        def part(at: int, statement: Statement) -> dict[str, Any]:
            edges = sorted(statement.waits_for, key=lambda edge: rank[edge.holder])
            return {"place": at, "text": statement.text, "waits_for": [_edge(edge, rank) for edge in edges]}

        return {
            "roots": [{**part(at, one), "why": one.why} for at, one in enumerate(shown) if one.why],
            "chain": [part(at, one) for at, one in enumerate(shown) if not one.why],
            "missing_blocks": [self._missing(one, code) for one in self.missing],
            "explanation": [*(one.text for one in self.missing), *(one.text for one in shown)],
        }

    def _missing(self, one: MissingBlocks, code: Code) -> dict[str, Any]:
        return {
            "grid": int(self.lanes.core.table(Kind.GRIDS).rows["id"][one.grid]),
            "kernel": code.grid_name(one.grid),
            "blocks": one.blocks,
            "resident": one.resident,
            "ended": one.ended,
            "not_started": one.not_started,
            "free_multiprocessors": one.free,
            "count": one.count,
            "grid_barrier": "by name" if one.by_name else "by its code" if one.by_code else None,
            "text": one.text,
        }

    def of_place(self, at: int) -> dict[str, Any]:
        """Known facts about the memory that a place waits for: `polls` and `mbarrier`, or null."""
        place = self.places[at]
        found = polled_at(self.lanes, place)
        poll, state = place.wait.poll if place.wait else None, self.graph.mbarriers.get(self.graph.order[at])
        return {
            "polls": {
                "space": poll.space,
                "atomic": poll.atomic,
                "sleeps": poll.sleeps,
                "address": _hex(found.address if found else None),
                "last_read": _hex(found.value if found else None),
                "in_memory": _hex(found.in_memory if found else None),
            }
            if poll and not poll.mbarrier
            else None,
            "mbarrier": {
                "address": _hex(place.wait.mbarrier),
                "waits_for_parity": place.wait.parity,
                "parity": state.parity if state else None,
                "expected": state.expected if state else None,
                "pending": state.pending if state else None,
                "missing_bytes": state.missing_bytes if state else None,
            }
            if place.wait and place.wait.kind == "mbarrier"
            else None,
        }


def _edge(edge: Edge, rank: dict[int, int]) -> dict[str, Any]:
    return {"place": rank[edge.holder], "certain": edge.certain}


def _hex(value: int | None) -> str | None:
    return None if value is None else hex(value)

"""Addresses read and written by copies and fills, from the arguments of their calls or of the calls that created their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: Calls whose copies have not arrived; beyond this, the oldest are dropped (their copies have no addresses).
MAXIMUM_WAITING = 1_000_000
#: Number of segments for which a call's addresses are kept after its first copy: one call may be several.
_MAXIMUM_AGE = 2
_CALLS = {"id": np.int64, "source": np.uint64, "destination": np.uint64, "found": np.bool_, "age": np.int8}
_NODES = {"node": np.uint64, "time": np.int64, "source": np.uint64, "destination": np.uint64}


class Addresses:
    """Addresses by 64-bit correlation id, and by graph node and time; 0 is unknown."""

    def __init__(self) -> None:
        self._calls: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in _CALLS.items()}
        self._order: Array | None = None
        self._nodes: dict[str, Array] = {name: np.zeros(0, kind) for name, kind in _NODES.items()}
        self._new_nodes: list[dict[str, Array]] = []

    def put(self, correlation: Array, source: Array, destination: Array) -> None:
        """Note calls."""
        known = (correlation != 0) & ((source != 0) | (destination != 0))
        if not known.any():
            return
        count = int(known.sum())
        new = {
            "id": correlation[known],
            "source": source[known],
            "destination": destination[known],
            "found": np.zeros(count, bool),
            "age": np.zeros(count, np.int8),
        }
        surplus = max(len(self._calls["id"]) + count - MAXIMUM_WAITING, 0)
        self._calls = {
            name: np.concatenate([values, new[name].astype(values.dtype)])[surplus:]
            for name, values in self._calls.items()
        }
        self._order = None

    def put_nodes(self, node: Array, time: Array, source: Array, destination: Array) -> None:
        """Note the addresses that nodes copy or fill from a moment on (CLOCK_MONOTONIC ns)."""
        values = {"node": node, "time": time, "source": source, "destination": destination}
        self._new_nodes.append({name: values[name].astype(kind) for name, kind in _NODES.items()})

    def find(self, correlation: Array, node: Array, called: Array) -> tuple[Array, Array]:
        """Find source and destination addresses of device rows, by node if they have one, otherwise by correlation id.

        Args:
            correlation: 64-bit ids, 0 none.
            node: graph nodes, 0 none.
            called: when the row's call began, CLOCK_MONOTONIC ns: it decides which addresses a node had at that launch.
        """
        source, destination = self._of_calls(correlation)
        in_graph = node != 0
        if in_graph.any():
            of_node = self._of_nodes(node[in_graph], called[in_graph])
            source[in_graph], destination[in_graph] = of_node
        return source, destination

    def _of_calls(self, ids: Array) -> tuple[Array, Array]:
        count = len(ids)
        none = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        known = self._calls["id"]
        if not count or not len(known):
            return none
        if self._order is None:
            self._order = np.argsort(known, kind="stable")
        # of equal ids, the last one: a process that restarted its count
        place = np.searchsorted(known, ids, "right", sorter=self._order) - 1
        at = self._order[np.maximum(place, 0)]
        hit = (place >= 0) & (known[at] == ids)
        self._calls["found"][at[hit]] = True
        return np.where(hit, self._calls["source"][at], 0), np.where(hit, self._calls["destination"][at], 0)

    def _of_nodes(self, node: Array, called: Array) -> tuple[Array, Array]:
        if self._new_nodes:
            joined = [self._nodes, *self._new_nodes]
            nodes = {name: np.concatenate([part[name] for part in joined]) for name in _NODES}
            order = np.lexsort((nodes["time"], nodes["node"]))
            self._nodes, self._new_nodes = {name: values[order] for name, values in nodes.items()}, []
        known, times = self._nodes["node"], self._nodes["time"]
        if not len(known):
            return np.zeros(len(node), np.uint64), np.zeros(len(node), np.uint64)
        # one number for node and time, in their order: places among the distinct nodes and moments
        distinct, moments = np.unique(known), np.unique(times)
        keys = np.searchsorted(distinct, known) << 32 | np.searchsorted(moments, times)
        moment = np.searchsorted(moments, called, "right") - 1
        wanted = np.searchsorted(distinct, node) << 32 | np.maximum(moment, 0)
        at = np.maximum(np.searchsorted(keys, wanted, "right") - 1, 0)
        hit = (known[at] == node) & (moment >= 0)
        return np.where(hit, self._nodes["source"][at], 0), np.where(hit, self._nodes["destination"][at], 0)

    def age(self) -> None:
        """At the end of a segment, drop calls whose copies have arrived, with some delay."""
        found = self._calls["found"]
        if not found.any():
            return
        self._calls["age"][found] += 1
        keep = self._calls["age"] <= _MAXIMUM_AGE
        if not keep.all():
            self._calls = {name: values[keep] for name, values in self._calls.items()}
            self._order = None

    def state(self) -> dict[str, Array]:
        """All state beyond definitions, as named arrays."""
        return {f"address_{name}": values for name, values in self._calls.items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Restore what :meth:`state` returned."""
        if "address_id" in state:
            self._calls = {name: state[f"address_{name}"] for name in _CALLS}
            self._order = None

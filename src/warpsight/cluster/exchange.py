"""Traffic between each pair of ranks: bytes, operations and time, by the algorithm that moved them.

Messages go from their sender to their receiver. An all-to-all sends equal parts from each rank to every other. A ring passes all
but one part of the data on to the next rank, twice for an all-reduce; a tree passes it up and down between neighbors. Rings and
trees are assumed to follow the ranks' order in the communicator, because NCCL reports no other. In-switch reductions (NVLS,
CollNet) and copies by copy engines have no pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.base.tables import table
from warpsight.cluster.matching import POINT_TO_POINT, Communicator
from warpsight.cluster.summary import codes
from warpsight.cluster.waiting import GroupOperations, Waiting

Column = NDArray[Any]
_COLUMNS = "source:int32 destination:int32 bytes:int64:B count:int64 latency:float64:ns bandwidth:float64:B/s"
#: Algorithms that do not move data between pairs of ranks.
_IN_SWITCH = ("nvls", "nvls_tree", "collnet", "collnet_chain", "collnet_direct", "copy_engine", "nvshmem")
#: How often a ring passes on all but one part of the data.
_PASSES = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1, "broadcast": 1, "reduce": 1}
#: Messages large enough to reach the link's speed; a pair is slow below this share of the usual speed, given this many pairs.
_LARGE, _SLOW, _PAIRS = 1 << 20, 0.6, 3
#: Bytes, operations, and the times of the operations of one pair, with those of large messages and their sizes.
_Sums = dict[tuple[int, int], list[tuple[float, Column, Column]]]


def traffic(waiting: Waiting) -> pa.Table:
    """One row per pair of ranks that exchange data, most bytes first.

    `latency` is the median transfer time of their operations, excluding waits; `bandwidth` is the median over their large
    messages, null if there are none.
    """
    sums: _Sums = {}
    for met in waiting.groups:
        for source, target, size, times, sizes in _pairs(waiting, met):
            sums.setdefault((source, target), []).append((size, times, sizes))
    rows = []
    for (source, target), parts in sums.items():
        times, sizes = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        large = (sizes >= _LARGE) & (times > 0)
        rows.append({
            "source": source, "destination": target, "bytes": round(sum(part[0] for part in parts)), "count": len(times),
            "latency": float(np.median(times)),
            "bandwidth": float(np.median(sizes[large] / times[large] * 1e9)) if large.any() else None,
        })  # fmt: skip
    return table(_COLUMNS, sorted(rows, key=lambda row: (-row["bytes"], row["source"], row["destination"])))


def _pairs(waiting: Waiting, met: GroupOperations) -> Iterator[tuple[int, int, float, Column, Column]]:
    """For each kind of operation of a group: who sends to whom, bytes in all, and times and sizes of single messages."""
    group = met.group
    ranks = [waiting.job.summaries[place].about.rank for place in group.ranks]
    size = group.bytes[met.rows].max(1, initial=-1)
    common = group.common[met.rows]
    algorithm, names = _algorithms(waiting, group, met.rows)
    count = group.size or len(ranks)
    for code, how in sorted(set(zip(common.tolist(), algorithm.tolist(), strict=True))):
        mine = (common == code) & (algorithm == how) & (size > 0)
        operation = group.operations[code] if code >= 0 else ""
        if not mine.any() or count < 2:
            continue
        times, sizes = met.transfer[mine], size[mine].astype(float)
        total = float(sizes.sum())
        if operation in POINT_TO_POINT:
            yield from _messages(group, ranks, met.rows[mine], operation, times, sizes)
        elif operation == "all-to-all":
            for one in ranks:
                yield from (
                    (one, other, total / count, times, np.zeros(len(times)))
                    for other in ranks
                    if other != one
                )
        elif operation in _PASSES and (names[how] if how >= 0 else "") not in _IN_SWITCH:
            part = _PASSES[operation] * (count - 1) / count * total
            yield from _neighbors(ranks, count, names[how] if how >= 0 else "", operation, part, total, times)


def _algorithms(waiting: Waiting, group: Communicator, rows: Column) -> tuple[Column, list[str]]:
    """The algorithm of each operation as its first rank has it: numbers of names, -1 unknown."""
    known: dict[str, int] = {}
    out = np.full(len(rows), -1, np.int64)
    for column, place in enumerate(group.ranks):
        own, texts = codes(waiting.job.summaries[place].collectives["algorithm"])
        onto = np.array([*(known.setdefault(text, len(known)) for text in texts), -1], np.int64)
        row = group.row[rows, column]
        here = (out < 0) & (row >= 0)
        out[here] = onto[own[row[here]]]
    return out, list(known)


def _messages(
    group: Communicator, ranks: Sequence[int], rows: Column, operation: str, times: Column, sizes: Column
) -> Iterator[tuple[int, int, float, Column, Column]]:
    """Messages between the two ranks of a group, in each direction."""
    send = group.operations.index("send") if "send" in group.operations else -2
    for column in range(min(len(ranks), 2)):
        other = ranks[1 - column] if len(ranks) > 1 else -1
        if operation == "send-receive":  # as much in each direction
            yield ranks[column], other, float(sizes.sum()) / 2, times, sizes / 2
            continue
        own = group.operation[rows, column] == send
        if own.any():
            yield ranks[column], other, float(sizes[own].sum()), times[own], sizes[own]


def _neighbors(
    ranks: Sequence[int], count: int, algorithm: str, operation: str, part: float, total: float, times: Column
) -> Iterator[tuple[int, int, float, Column, Column]]:
    """What a ring or a tree passes between neighbors; only links between ranks that were recorded."""
    none = np.zeros(len(times))
    if algorithm == "tree":
        for one, other in itertools.pairwise(ranks):
            if operation in ("all-reduce", "reduce"):
                yield other, one, total, times, none
            if operation in ("all-reduce", "broadcast"):
                yield one, other, total, times, none
        return
    whole = [ranks[0]] if len(ranks) == count else []
    for one, other in itertools.pairwise([*ranks, *whole]):
        yield one, other, part, times, none


def slow_links(found: pa.Table, hosts: Mapping[int, str] | None = None) -> list[Finding]:
    """Pairs of ranks whose large messages are far slower than the usual pair's, within a host or between two."""
    known = hosts or {}
    kinds: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for row in found.to_pylist():
        if row["bandwidth"] is not None:
            kinds[known.get(row["source"]) != known.get(row["destination"])].append(row)
    return [one for rows in kinds.values() for one in _slow_among(rows)]


def _slow_among(rows: list[dict[str, Any]]) -> list[Finding]:
    if len(rows) < _PAIRS:
        return []
    usual = float(np.median([row["bandwidth"] for row in rows]))
    slow: dict[frozenset[int], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["bandwidth"]):
        if row["bandwidth"] < _SLOW * usual:
            slow.setdefault(frozenset((row["source"], row["destination"])), []).append(row)
    out = []
    for ways in list(slow.values())[:3]:
        one = ways[0]
        pair = f"rank {one['source']} to rank {one['destination']}"
        back = f" ({ways[1]['bandwidth'] / 1e9:,.1f} GB/s the other way)" if len(ways) > 1 else ""
        text = (f"slow link: messages from {pair} move {one['bandwidth'] / 1e9:,.1f} GB/s{back}, between the usual pair "
                f"{usual / 1e9:,.1f} GB/s")  # fmt: skip
        lost = sum(int(row["bytes"] * (1e9 / row["bandwidth"] - 1e9 / usual)) for row in ways)
        values = {"source": one["source"], "destination": one["destination"], "bandwidth": one["bandwidth"],
                  "usual": usual}  # fmt: skip
        out.append(Finding("warning", text, values, "cluster/slow-link", lost, (f"{words.duration(lost)} in all",),
                           "Compare what is between the two: warpsight cluster topology, the NIC and its cable."))  # fmt: skip
    return out


def matrix(found: pa.Table, column: str) -> tuple[list[int], Column]:
    """The ranks, and a column of :func:`traffic` as a source × destination matrix; 0 without traffic."""
    source, target = (found[name].to_numpy() for name in ("source", "destination"))
    ranks = np.unique(np.concatenate([source, target]))
    out = np.zeros((len(ranks), len(ranks)))
    out[np.searchsorted(ranks, source), np.searchsorted(ranks, target)] = (
        found[column].fill_null(0).to_numpy()
    )
    return ranks.tolist(), out

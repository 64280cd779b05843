"""How fast collectives moved their bytes, excluding the wait for late ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from warpsight.analysis.base.tables import table
from warpsight.analysis.stats.communication import bus_factor
from warpsight.cluster.waiting import Waiting

_COLUMNS = """group:string ranks:int32 operation:string bytes:int64:B count:int64 transfer:float64:ns wait:int64:ns
    exposed_wait:int64:ns algorithm_bandwidth:float64:B/s bus_bandwidth:float64:B/s limit:float64:B/s"""


def bandwidth(waiting: Waiting) -> pa.Table:
    """A row per group, operation and size, the most waiting first.

    `transfer` is the median time from the last rank's entry to the first rank's exit; both bandwidths follow from it. `wait` and
    `exposed_wait` are summed over operations and ranks. `limit` is the speed in one direction of the slowest rank's links to the
    GPUs of its host, to compare with bus bandwidth; null where ranks are on several hosts or the topology was not recorded.
    """
    rows: list[dict[str, Any]] = []
    for met in waiting.groups:
        group = met.group
        operation, size = group.common[met.rows], group.bytes[met.rows].max(1, initial=-1)
        limit = _limit(waiting, group.ranks)
        for code, one in sorted(set(zip(operation.tolist(), size.tolist(), strict=True))):
            mine = (operation == code) & (size == one)
            transfer = float(np.median(met.transfer[mine]))
            name = group.operations[code] if code >= 0 else "unknown"
            ranks = group.size or len(group.ranks)
            speed = one / transfer * 1e9 if one > 0 and transfer > 0 else None
            rows.append({
                "group": group.key, "ranks": ranks, "operation": name, "bytes": one if one >= 0 else None,
                "count": int(mine.sum()), "transfer": transfer, "wait": int(met.wait[mine].sum()),
                "exposed_wait": int(met.exposed[mine].sum()), "algorithm_bandwidth": speed,
                "bus_bandwidth": None if speed is None else speed * bus_factor(name, ranks), "limit": limit,
            })  # fmt: skip
    rows.sort(key=lambda row: (-row["wait"], -row["count"]))
    return table(_COLUMNS, rows)


def _limit(waiting: Waiting, ranks: Sequence[int]) -> float | None:
    """What the slowest rank of a group can send over its links, B/s; None unknown, as across hosts."""
    abouts = [waiting.job.summaries[rank].about for rank in ranks]
    speeds = [one.link_speed for one in abouts]
    if len({one.host for one in abouts}) > 1 or None in speeds:
        return None
    return min(speed for speed in speeds if speed is not None)

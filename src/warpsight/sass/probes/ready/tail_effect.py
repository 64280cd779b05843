"""Tail effect: how long multiprocessors had no CTA while a launch's last CTAs still ran."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from warpsight.sass.probes.ready import block_schedule as schedule

if TYPE_CHECKING:
    import pyarrow as pa

block_schedule = schedule.block_schedule


def derive(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """A row per launch: `idle_share` is the share of time without a CTA after a multiprocessor's last one."""
    import pyarrow as pa

    blocks = schedule.derive(tables)["blocks"]
    launch, sm, start, end = (blocks[name].to_numpy() for name in ("launch", "sm", "start", "end"))
    rows = []
    for number in np.unique(launch):
        own = launch == number
        used = np.unique(sm[own])
        last = np.array([end[own & (sm == one)].max() for one in used])
        duration = int(end[own].max() - start[own].min())
        rows.append({
            "launch": int(number), "kernel": blocks["kernel"][int(np.argmax(own))].as_py(), "blocks": int(own.sum()),
            "multiprocessors": len(used), "ns": duration, "tail_ns": int(last.max() - last.min()),
            "idle_share": float((last.max() - last).sum() / max(duration * len(used), 1)),
        })  # fmt: skip
    return {"tail": pa.Table.from_pylist(rows)}

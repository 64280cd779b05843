"""Delay plans and runs with them as text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from warpsight.race.plan import Plan
from warpsight.race.prepare import Replayed
from warpsight.ui.render import terminal


def points(plan: Plan, path: Path) -> None:
    """Say how many points of which kind a plan has."""
    kinds = Counter(point.kind for point in plan.points)
    kernels = len({point.kernel for point in plan.points})
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    terminal.note(f"{path}: {len(plan.points):,} points in {kernels:,} functions ({listed or 'none'})")


def replayed(run: Replayed) -> None:
    """Say how many delays there were, and of how many points."""
    delays = run.delays
    if not len(delays):
        terminal.note("no warp waited: no launch came to a point that the plan selects")
        return
    waited = delays.group_by(["function", "pc", "kind"]).aggregate([])
    total = pc.sum(delays["delay_ns"]).as_py() / 1e6
    terminal.note(
        f"{len(delays):,} delays, {total:,.1f} ms of warps in all, at {len(waited)} of {len(run.plan.points)} points"
    )


def write_table(delays: pa.Table, path: Path) -> None:
    """Write delays as CSV or Parquet, by the name's end."""
    if path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(delays, path)
    else:
        from pyarrow import parquet

        parquet.write_table(delays, path)

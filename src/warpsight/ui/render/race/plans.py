"""Delay plans and runs with them as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from warpsight.race.check import DetectorResult, RaceVerdict
from warpsight.race.plan import Plan
from warpsight.race.prepare import PrioritySchedule, Replayed
from warpsight.race.suspects import Access
from warpsight.ui.render import terminal


def points(plan: Plan, path: Path) -> None:
    """Print how many points of each kind a plan has."""
    kinds = Counter(point.kind for point in plan.points)
    kernels = len({point.kernel for point in plan.points})
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    terminal.note(
        f"{path}: {len(plan.points):,} points in {kernels:,} function{'s' * (kernels != 1)} ({listed or 'none'})"
    )


def schedule(made: PrioritySchedule) -> None:
    """Print which bugs a priority schedule targets, and at least how often it shows one."""
    terminal.note(
        f"up to {made.warps:,} warps of a launch, {made.plan.steps:,} steps of a warp: a bug of depth {made.plan.depth} shows in "
        f"at least one of {1 / made.bound:,.0f} launches, if waits outlast what other warps do meanwhile"
    )


def replayed(run: Replayed) -> None:
    """Print how many delays there were, and at how many points."""
    delays = run.delays
    if run.plan.mode == "memory":
        return
    if not len(delays):
        terminal.note("no warp waited: no launch reached a point that the plan selects")
        return
    waited = delays.group_by(["function", "pc", "kind"]).aggregate([])
    total = pc.sum(delays["delay_ns"]).as_py() / 1e6
    terminal.note(
        f"{len(delays):,} delays, {total:,.1f} ms of warps in all, at {len(waited)} of {len(run.plan.points)} points"
    )


def write_table(delays: pa.Table, path: Path) -> None:
    """Write delays as CSV or Parquet, depending on the file's suffix."""
    if path.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(delays, path)
    else:
        from pyarrow import parquet

        parquet.write_table(delays, path)


def verdict(found: RaceVerdict, top: int) -> str:
    """The verdict of `race check`: races with repairs, each detector's result, and disagreements."""
    count = len(found.suspects)
    lines = (
        [f"{count} race{'s' * (count != 1)}"]
        if count
        else ["a race that no detector names" if found.racy else "no race"]
    )
    shown = found.suspects[:top] if top else found.suspects
    for number, suspect in enumerate(shown, 1):
        lines += [
            "",
            f"{number}. {suspect.kernel}: {suspect.space} memory, by {' and '.join(suspect.found_by)}",
        ]
        lines.append(f"   {suspect.reason}")
        for access in (suspect.first, suspect.second):
            if access is not None:
                lines += _access(access)
        lines += textwrap.wrap(
            f"repair: {suspect.repair}", 100, initial_indent="   ", subsequent_indent="           "
        )
    if len(shown) < count:
        lines.append(f"\n… {count - len(shown):,} more (--top 0)")
    lines.append("")
    for arm in found.arms:
        lines.append(f"{arm.name}: {findings_text(arm)}" + "".join(f"\n  {note}" for note in arm.notes))
    if found.provoked is not None:
        lines.append(f"delays: {found.provoked.summary}")
    lines += [f"disagreement: {text}" for text in found.disagreements]
    return "\n".join(lines) + "\n"


def findings_text(arm: DetectorResult) -> str:
    """A detector's findings, in words."""
    if arm.findings is None:
        return "could not look"
    return f"{arm.findings:,} finding{'s' * (arm.findings != 1)}" if arm.findings else "nothing found"


def _access(access: Access) -> list[str]:
    who = f" by {access.who}" if access.who else ""
    lines = [f"   {access.operation}{who}" + (f"  {access.sass}" if access.sass else "")]
    lines += [
        f"      {frame.file}:{frame.line}  {frame.function}"
        + (f"\n        {frame.text}" if frame.text else "")
        for frame in access.frames
    ]
    return lines

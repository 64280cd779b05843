"""Event traces as text: races, waits, single events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from warpsight.sass.events.waits import BlockWaits
from warpsight.sass.races.detect import Races
from warpsight.sass.races.witness import Side


def races(found: Races, top: int) -> str:
    """Each race with its two accesses."""
    looked = "on the device" if found.accesses is None else f"{found.accesses:,} accesses of lanes"
    if not found.races:
        return f"no races in {found.launches:,} launches ({looked})\n"
    lines = [f"{len(found.races)} races in {found.launches:,} launches ({looked})"]
    shown = found.races[:top] if top else found.races
    for number, race in enumerate(shown, 1):
        times = f", {race.count:,} pairs" if race.count > 1 else ""
        lines += [
            "",
            f"{number}. {race.kernel}, launch {race.launch}: {race.space} memory at 0x{race.address:x}{times}",
            f"   {race.reason}",
        ]
        lines += [*_side(race.first), *_side(race.second)]
    if len(shown) < len(found.races):
        lines.append(f"\n… {len(found.races) - len(shown):,} more (--top 0)")
    return "\n".join(lines) + "\n"


def waits(found: BlockWaits, top: int) -> str:
    """Each wait with the warps it is missing, and the warps at the ends of the wait graph."""
    if not found.waits:
        return "no warp waits where the trace ends\n"
    lines = []
    for wait in found.waits[:top] if top else found.waits:
        warps = ", ".join(map(str, wait.warps))
        lines.append(
            f"{wait.kernel}, launch {wait.launch}, block {wait.block}: warp {warps} waits for {wait.what}"
        )
        lines.append(f"   at {wait.where}")
        if wait.missing:
            lines.append(
                "   not there: "
                + ", ".join(f"block {block} warp {warp}" for block, warp in wait.missing[:16])
            )
        if wait.detail:
            lines.append(f"   {wait.detail}")
    if top and len(found.waits) > top:
        lines.append(f"… {len(found.waits) - top:,} more (--top 0)")
    if found.roots:
        shown = ", ".join(
            f"launch {launch} block {block} warp {warp}" for launch, block, warp in found.roots[:16]
        )
        lines.append(f"waited for, but not waiting themselves: {shown}")
    return "\n".join(lines) + "\n"


def _side(side: Side) -> list[str]:
    lines = [
        f"   {side.operation} by block {side.block}, thread {side.thread}: {side.where}"
        + (f"  {side.sass}" if side.sass else "")
    ]
    for frame in side.frames:
        text = frame.text
        lines.append(
            f"      {frame.file}:{frame.line}  {frame.function}" + (f"\n        {text}" if text else "")
        )
    return lines


def listing(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each event."""
    lines = []
    for row in rows:
        lists = {**row["operands"], **row.get("registers", {}), "values": row.get("values", [])}
        operands = [_compact(name, values) for name, values in lists.items() if values]
        operands += [f"{name}={_said(value)}" for name, value in row.get("copy", {}).items()]
        lines.append(
            f"{row['launch']:>4} block {row['block']:<5} warp {row['warp']:<2} {row['lanes']} {row['kind']:<16} "
            f"{row.get('where', '')}  {row.get('sass', '')}  {' '.join(operands)}".rstrip()
        )
    return "\n".join(lines) + "\n" if lines else "no events\n"


def _said(value: Any) -> str:
    """A number as it is best read, a list or an object without spaces."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0xFFFF:
        return f"0x{value:x}"
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _compact(name: str, values: list[Any]) -> str:
    """An operand: one value, a base with its step, or the first of many."""
    steps = {b - a for a, b in pairwise(values)}
    if len(steps) <= 1:
        step = steps.pop() if steps else 0
        return f"{name}=0x{values[0]:x}" + (f"{step:+d}×" if step else "")
    return f"{name}=0x{values[0]:x},…"


def lines(rows: Sequence[dict[str, Any]]) -> str:
    """An object per line."""
    return "".join(json.dumps(row) + "\n" for row in rows)

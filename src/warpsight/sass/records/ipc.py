"""Instruction histograms of regions joined with the cycles that Proton measured for them: instructions per cycle.

A histogram (`warp_id,region_id,instruction,count`) counts the instructions of every region a warp entered, in order; Proton's
intra-kernel Chrome trace has one event per warp and region (`pid` "Core<n> CTA<m>", `tid` "warp <k>", `dur` in thousands of
cycles). The n-th region of a warp is its n-th event, so the regions of a warp are joined one by one and never crosswise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from warpsight.errors import UsageError
from warpsight.formats.errors import decodes
from warpsight.formats.source import Source

COLUMNS = (
    "core", "cta", "local_warp_id", "global_warp_id", "region_id", "name", "category", "cycles", "timestamp_ns",
    "total_instruction_count", "ipc",
)  # fmt: skip
_CORE = re.compile(r"Core\s*(\d+)\s+CTA\s*(\d+)")
_WARP = re.compile(r"warp\s+(\d+)")


@dataclass(frozen=True)
class _Region:
    """One region of one warp; values in only one of the two files are None in the other's rows."""

    core: int | None
    cta: int | None
    local_warp_id: int | None
    global_warp_id: int
    region_id: int
    name: str | None
    category: str | None
    cycles: int | None
    timestamp_ns: int | None
    total_instruction_count: int | None
    ipc: float | None

    def row(self) -> dict[str, Any]:
        """The columns by name."""
        return asdict(self)


@decodes
def events(path: Path | str, warps_per_cta: int) -> list[_Region]:
    """The events of Proton's trace in time order, numbered per warp.

    Raises:
        FormatError: for anything that is not a Chrome trace of Proton's intra-kernel profiler.
    """
    with Source(path) as source, source.open() as file:
        try:
            content = json.loads(file.read(), parse_float=Decimal)
            listed = content["traceEvents"] if isinstance(content, dict) else content
        except (ValueError, KeyError):
            raise source.error("no Chrome trace") from None
        found = [_event(e, warps_per_cta) for e in listed if isinstance(e, dict) and e.get("ph", "X") == "X"]
    regions = sorted(
        (r for r in found if r is not None), key=lambda r: (r.global_warp_id, r.timestamp_ns or 0)
    )
    if not regions:
        raise UsageError(f"{path} has no event of a warp (pid 'Core<n> CTA<m>', tid 'warp <k>')")
    numbered, last, number = [], None, 0
    for region in regions:
        number = number + 1 if region.global_warp_id == last else 0
        last = region.global_warp_id
        numbered.append(replace(region, region_id=number))
    return numbered


def _event(event: dict[str, Any], warps_per_cta: int) -> _Region | None:
    core, warp = _CORE.match(str(event.get("pid", ""))), _WARP.match(str(event.get("tid", "")))
    if not core or not warp:
        return None
    local = int(warp[1])
    return _Region(
        int(core[1]), int(core[2]), local, int(core[2]) * warps_per_cta + local, 0,
        str(event.get("name", "")), str(event.get("cat", "")), round(Decimal(str(event.get("dur", 0))) * 1000),
        round(Decimal(str(event.get("ts", 0))) * 1000), None, None,
    )  # fmt: skip


def merge(counts: dict[tuple[int, int], dict[str, int]], measured: Iterable[_Region]) -> list[_Region]:
    """Regions of both files joined; a region in only one keeps its data. Ordered by warp and region."""
    totals = {key: sum(by_instruction.values()) for key, by_instruction in counts.items()}
    first: dict[int, int] = {}
    for warp, number in totals:
        first[warp] = min(number, first.get(warp, number))
    out = []
    for region in measured:
        number = region.region_id + first.get(region.global_warp_id, 0)
        total = totals.pop((region.global_warp_id, number), None)
        rate = total / region.cycles if total is not None and region.cycles else None
        out.append(replace(region, region_id=number, total_instruction_count=total, ipc=rate))
    for (warp, number), total in totals.items():
        out.append(_Region(None, None, None, warp, number, None, None, None, None, total, None))
    return sorted(out, key=lambda r: (r.global_warp_id, r.region_id))

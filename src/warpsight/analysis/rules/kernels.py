"""Kernels whose launches do not fill the device."""

from __future__ import annotations

from collections.abc import Iterator

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.facts import Facts
from warpsight.model import names as names_of

_SMALL = 0.3


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about kernels."""
    yield from _small_grids(facts)


def _small_grids(facts: Facts) -> Iterator[Finding]:
    """Kernels with fewer blocks than the device has multiprocessors leave some of them idle."""
    begin, end = facts.window
    found = facts.trace.sql(
        f"""SELECT k.name_id, sum(k.duration)::BIGINT AS total, count(*) AS n,
              min(k.grid_x::BIGINT * k.grid_y * k.grid_z) AS blocks,
              any_value(d.multiprocessors) AS units
            FROM kernel k JOIN device d ON k.device = d.device
            WHERE k.duration IS NOT NULL AND k.start >= {begin} AND k.start < {end}
              AND {facts.rows.where().replace('device IN', 'k.device IN')}
              AND d.multiprocessors > 0 AND k.grid_x::BIGINT * k.grid_y * k.grid_z < d.multiprocessors AND k.duration > 20000
            GROUP BY k.name_id ORDER BY total DESC""").fetchall()  # fmt: skip
    total = sum(row[1] for row in found)
    if not found or total < _SMALL * facts.length:
        return
    names = names_of.texts(facts.trace, "short")
    share = total / facts.length
    text = f"{share:.0%} of the time is in kernels with fewer blocks than the GPU has multiprocessors ({found[0][4]})"
    evidence = tuple(
        f"{names.get(n, '?')}: {count:,} times, {blocks} blocks at least"
        for n, _, count, blocks, _ in found[:3]
    )
    yield Finding("note", text, {"time": total}, "kernels/small-grids", None, evidence,
                  "Give them more blocks (smaller tiles, split-k), or run them beside others on further streams.")  # fmt: skip

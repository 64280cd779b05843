"""Kernels: what the device spends its time on, and launches that do not fill it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.facts import Facts
from warpsight.model.work import COMMUNICATION, distinct, summed

#: A kernel worth naming by itself takes this share of the window.
_HOT = 0.3
_SMALL = 0.3


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about kernels."""
    yield from _hottest(facts)
    yield from _small_grids(facts)


def _hottest(facts: Facts) -> Iterator[Finding]:
    work = facts.work
    rows = np.flatnonzero(facts.inside & (work.kind <= COMMUNICATION))
    if not len(rows):
        return
    ids, inverse = distinct(work.name_id[rows])
    total = summed(inverse, (work.end - work.start)[rows], len(ids))
    best = int(np.argmax(total))
    share = float(total[best]) / (facts.length * max(len(facts.busy), 1))
    if share < _HOT:
        return
    name = facts.trace.sql("SELECT short FROM name WHERE id = $id", id=int(ids[best])).fetchall()
    label = name[0][0] if name else "?"
    count = int((inverse == best).sum())
    text = f"{share:.0%} of the time is in one kernel, {label} ({count:,} times)"
    stack = facts.common_stack(work.stack[rows[inverse == best]])
    evidence = (f"launched by {facts.stack_text(stack)}",) if stack else ()
    yield Finding("note", text, {"time": int(total[best]), "count": count, "kernel": label}, "kernels/hottest", None, evidence,
                  "Whatever makes this kernel faster makes the program faster: profile it by itself next.")  # fmt: skip


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
    names = dict(facts.trace.sql("SELECT id, short FROM name").fetchall())
    share = total / facts.length
    text = f"{share:.0%} of the time is in kernels with fewer blocks than the GPU has multiprocessors ({found[0][4]})"
    evidence = tuple(
        f"{names.get(n, '?')}: {count:,} times, {blocks} blocks at least"
        for n, _, count, blocks, _ in found[:3]
    )
    yield Finding("note", text, {"time": total}, "kernels/small-grids", None, evidence,
                  "Give them more blocks (smaller tiles, split-k), or run them beside others on further streams.")  # fmt: skip

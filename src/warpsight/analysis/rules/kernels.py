"""Kernels whose launches do not fill the device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import grids
from warpsight.analysis.rules.facts import Facts, longest
from warpsight.model.naming import texts as names_of
from warpsight.model.work import distinct, summed

_SMALL = 0.3
#: Kernels shorter than this end before filling the device would matter (ns).
_LONG = 20_000


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about kernels."""
    yield from _small_grids(facts)


def _small_grids(facts: Facts) -> Iterator[Finding]:
    """Kernels with fewer blocks than the device has multiprocessors leave some of them idle."""
    units = {
        device: count for device, count in facts.trace.rows("device", "device", "multiprocessors") if count
    }
    blocks = grids.blocks(facts.trace)
    if not units or not bool(((blocks > 0) & (blocks < max(units.values()))).any()):
        return
    kernels = grids.kernels(facts.trace, facts.rows, facts.window, longer=_LONG)
    limit = np.zeros(
        max(0, *units, int(kernels["device"].max(initial=0))) + 2, np.int64
    )  # the last one: device -1
    limit[list(units)] = list(units.values())
    small = (kernels["blocks"] < limit[kernels["device"]]) & (kernels["blocks"] > 0)
    rows = np.flatnonzero(small)
    total = int(kernels["unfilled"][rows].sum())
    if not len(rows) or total < _SMALL * facts.length:
        return
    names = names_of.texts(facts.trace, "short")
    used, place = distinct(kernels["name_id"][rows])
    each = summed(place, kernels["unfilled"][rows], len(used))
    first = np.argsort(-each, kind="stable")[:3].tolist()
    share = total / facts.length
    most = int(limit[kernels["device"][rows[place == first[0]][0]]])
    text = (
        f"{share:.0%} of the time is in kernels with fewer blocks than the GPU has multiprocessors ({most})"
    )
    evidence = tuple(
        f"{names.get(int(used[i]), '?')}: {words.times(int((place == i).sum()))}, "
        f"fewest blocks {int(kernels['blocks'][rows[place == i]].min()):,}"
        for i in first
    )
    yield Finding("note", text, {"time": total}, "kernels/small-grids", None, evidence,
                  "Give them more blocks (smaller tiles, split-k), or run them beside others on further streams.",
                  at=longest(kernels["start"][rows], kernels["start"][rows] + kernels["duration"][rows]))  # fmt: skip

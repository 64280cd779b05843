"""Kernels whose launches do not fill the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules import grids
from warpsight.analysis.rules.base.facts import Facts, longest
from warpsight.model.naming import texts as names_of
from warpsight.model.work import distinct, summed

Column = npt.NDArray[Any]
_SMALL = 0.3
#: Kernels shorter than this end before filling the device would matter (ns).
_LONG = 20_000


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about kernels."""
    yield from _small_grids(facts)


def _small_grids(facts: Facts) -> Iterator[Finding]:
    """Kernels with fewer blocks than the device has multiprocessors, which leave some of them idle."""
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
    if not len(rows) or int(kernels["duration"][rows].sum()) < _SMALL * facts.length:
        return
    # Overlapping kernels leave the device idle together; short or communication kernels may fill it in between.
    unfilled = grids.unfilled(facts.trace, kernels["place"][rows])
    total = min(_unfilled(kernels, limit), int(unfilled.sum()))
    if total < _SMALL * facts.length:
        return
    names = names_of.texts(facts.trace, "short")
    used, place = distinct(kernels["name_id"][rows])
    each = summed(place, unfilled, len(used))
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
                  "Give them more blocks (smaller tiles, split-k), or run them alongside others on more streams.",
                  at=longest(kernels["start"][rows], kernels["start"][rows] + kernels["duration"][rows]))  # fmt: skip


def _unfilled(kernels: dict[str, Column], limit: Column) -> int:
    """The time (ns) in which all kernels that run on a device together have fewer blocks than it has multiprocessors.

    Blocks in flight change where a kernel begins (+) and ends (-); one of unknown size fills its device.
    """
    total = 0
    for device in np.unique(kernels["device"]).tolist():
        own = kernels["device"] == device
        start, blocks = kernels["start"][own], kernels["blocks"][own]
        blocks = np.where(blocks > 0, np.minimum(blocks, limit[device]), limit[device])
        time = np.concatenate([start, start + kernels["duration"][own]])
        order = np.argsort(time, kind="stable")
        flying = np.cumsum(np.concatenate([blocks, -blocks])[order])[:-1]
        total += int(np.diff(time[order])[(flying > 0) & (flying < limit[device])].sum())
    return total

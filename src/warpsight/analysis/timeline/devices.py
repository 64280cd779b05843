"""Rows of the devices: each device, its streams where it has several, and its copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.analysis.account.copies import copy_names
from warpsight.analysis.base.labels import NumberedLabels
from warpsight.analysis.stats.overview import arranged, lane_rows
from warpsight.analysis.timeline.row import KINDS, Row, SelectedColumn
from warpsight.model import calls as host_calls
from warpsight.model.naming import texts as names_of
from warpsight.model.work import COMMUNICATION, COPY, Work, distinct

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = NDArray[Any]


def rows(trace: StoredTrace, work: Work, names: NumberedLabels) -> tuple[list[Row], int]:
    """The rows, and the number of streams left out because there are too many."""
    lanes, _, merged = arranged(trace, work)
    name = _names(trace, work, names)
    call = host_calls.of_work(trace, work, api=True)[1]
    out: list[Row] = []

    def add(key: str, label: str, role: str, device: int | None, chosen: Column) -> None:
        out.append(Row(key, label, role, key, work.start[chosen], work.end[chosen], SelectedColumn(name, chosen),
                       SelectedColumn(work.stack, chosen), SelectedColumn(call, chosen), device))  # fmt: skip

    for lane in lanes:
        device = "?" if lane.device is None else str(lane.device)
        chosen = lane_rows(work, lane)
        if lane.stream is None:
            add(f"gpu{device}", lane.label, "device", lane.device, chosen)
            copies = chosen[work.kind[chosen] >= COPY]
            if 0 < len(copies) < len(chosen):
                add(f"gpu{device}.copies", "copies and fills", "copies", lane.device, copies)
        else:
            process = f"p{lane.process}." if " · process " in lane.label else ""
            add(f"gpu{device}.{process}s{lane.stream}", lane.label, "stream", lane.device, chosen)
    return out, merged


def _names(trace: StoredTrace, work: Work, names: NumberedLabels) -> Column:
    """Each row's index into the names: a kernel's short name, a copy's direction."""
    out = np.zeros(len(work), np.int32)
    texts = names_of.texts(trace, "short") if len(work) else {}
    for kind in range(COMMUNICATION + 1):
        mine = np.flatnonzero(work.kind == kind)
        ids, place = distinct(work.name_id[mine])
        out[mine] = names.all(KINDS[kind], (texts.get(one) or "?" for one in ids.tolist()))[place]
    copies = np.flatnonzero(work.kind >= COPY)
    if len(copies):
        labels, code = copy_names(trace, work, copies)
        out[copies] = np.array(
            [names("copy" if place else "set", text) for place, text in enumerate(labels)], np.int32
        )[code]
    return out

"""Copies within a device, and fills: these run on the multiprocessors, not on the copy engines.

A copy that uses nearly the full memory bandwidth occupies all multiprocessors, so other work waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.analysis.ops import peaks
from warpsight.analysis.retime.program import Program
from warpsight.model import work as device_work
from warpsight.model.work import COPY, SET

if TYPE_CHECKING:
    from warpsight.model import StoredTrace

Column = npt.NDArray[Any]
#: Above this share of the memory's rate, nothing runs alongside a copy.
_FULL = 0.5
#: Bytes that go through memory for each that is copied, or filled.
_COPIED, _FILLED = 2, 1


def alone(trace: StoredTrace, program: Program) -> Column:
    """Which device nodes are copies or fills that leave no room for other work (a mask).

    If the memory's rate is unknown, that of the recording's fastest copy or fill is used.
    """
    work = program.graph.work
    rate = np.zeros(len(work))
    for kind, column, inside, times in (
        (COPY, "kind", ("DtoD",), _COPIED),
        (SET, "memory_kind", ("device", ""), _FILLED),
    ):
        nodes = np.flatnonzero(work.kind == kind)
        if not len(nodes):
            continue
        columns, texts = trace.columns("memcpy" if kind == COPY else "memset", {"bytes": 0}, [column])
        rows = device_work.table_rows(trace, work, nodes)
        wanted = np.array([text in inside for text in texts[column]] + ["" in inside])  # the last: unknown
        moved = columns["bytes"][rows] * times * wanted[columns[column][rows]]
        rate[nodes] = moved / np.maximum(work.end[nodes] - work.start[nodes], 1) * 1e9
    known = [one.bandwidth for one in peaks.of_trace(trace).values() if one.bandwidth]
    most = min(known) if known else rate.max(initial=0)
    out = np.zeros(len(program), bool)
    out[: len(work)] = (rate > 0) & (rate >= _FULL * most)
    return out

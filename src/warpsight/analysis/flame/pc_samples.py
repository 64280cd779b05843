"""Flame graphs down to the instruction: kernel → inlined calls → SASS → stall reason, weighed by samples of warps.

CUPTI does not say which launch a sample is of. The samples of a kernel in a window are spread over the host stacks that
launched it then, by their time on the device; if no launch of the kernel is known in that window, over all its launches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpsight.device_code.kept_code import KeptCode, frame_text
from warpsight.device_code.stall_places import place_of
from warpsight.errors import UsageError
from warpsight.model.selection import Rows
from warpsight.model.work import named

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.model import StoredTrace

Column = NDArray[Any]
#: CUPTI decodes ten times a second, so samples may arrive a window after their kernels.
_LATE_NS = 100_000_000
#: Rows: one for each instruction, reason and host stack; weights are whole and add up to the samples of each instruction.
_SPREAD = """
WITH sampled AS (SELECT process, context, start, duration, name_id, checksum, pc, reason, device, samples
                 FROM pc_sample_ids WHERE {where} AND samples > 0),
window_ AS (SELECT DISTINCT process, context, start, duration FROM sampled),
ran AS (SELECT process, context, name_id, coalesce(stack, 0) AS stack, start AS began, start + duration AS ended
        FROM kernel_ids WHERE duration IS NOT NULL AND name_id IN (SELECT name_id FROM sampled)),
near AS (SELECT w.process, w.context, w.start, r.name_id, r.stack,
                sum(least(r.ended, w.start + w.duration) - greatest(r.began, w.start - {late}) + 1) AS time
         FROM window_ w JOIN ran r ON r.process = w.process AND r.context = w.context
              AND r.began < w.start + w.duration AND r.ended > w.start - {late} GROUP BY ALL),
ever AS (SELECT process, context, name_id, stack, sum(ended - began + 1) AS time FROM ran GROUP BY ALL),
known AS (SELECT DISTINCT process, context, start, name_id FROM near),
share AS (
  SELECT s.*, n.stack, n.time FROM sampled s JOIN near n USING (process, context, start, name_id)
  UNION ALL
  SELECT s.*, coalesce(e.stack, 0), coalesce(e.time, 1) FROM sampled s ANTI JOIN known USING (process, context, start, name_id)
         LEFT JOIN ever e USING (process, context, name_id)),
part AS (SELECT *, samples * time / sum(time) OVER (PARTITION BY process, context, start, name_id, checksum, pc, reason) AS weight
         FROM share),
whole AS (SELECT process, context, name_id, checksum, pc, reason, device, stack, sum(weight) AS weight FROM part GROUP BY ALL),
summed AS (SELECT *, sum(weight) OVER (PARTITION BY process, context, name_id, checksum, pc, reason, device
                                       ORDER BY stack) AS upto FROM whole)
SELECT process, context, coalesce(device, -1)::SMALLINT AS device, coalesce(name_id, 0) AS name_id,
       coalesce(checksum, 0)::UBIGINT AS checksum, pc, reason, stack,
       (round(upto) - round(upto - weight))::BIGINT AS weight FROM summed
"""


def load(trace: StoredTrace, rows: Rows) -> pa.Table:
    """Samples by instruction, reason and host stack: process, context, device, name_id, checksum, pc, reason, stack, weight.

    Raises:
        UsageError: when streams are selected, because samples belong to none.
    """
    if rows.streams:
        raise UsageError("samples of program counters have no stream: leave out --stream")
    where = f"{rows.where(stream=False)}{named(trace, rows.name)}"
    table = trace.sql(_SPREAD.format(where=where, late=_LATE_NS)).to_arrow_table()
    return table.filter(np.asarray(table.column("weight")) > 0)


def measured(trace: StoredTrace, rows: Rows) -> int:
    """The samples, summed by SQL with the same conditions."""
    where = f"{rows.where(stream=False)}{named(trace, rows.name)}"
    found = trace.sql(f"SELECT coalesce(sum(samples), 0)::BIGINT FROM pc_sample_ids WHERE {where}").fetchall()
    return int(found[0][0])


def places(
    trace: StoredTrace, table: pa.Table, names: list[str]
) -> tuple[Column, Column, list[str], list[str]]:
    """The way down from the kernel of each row.

    Args:
        trace: the trace.
        table: of :func:`load`.
        names: the kernels' names, by id.

    Returns:
        the leaf of each row; the path of each leaf as numbers of labels, outermost first and filled with -1, shape
        (leaves, depth); the labels; their kinds.
    """
    code = KeptCode(trace.folder / "cubins")
    mangled = dict(trace.sql("SELECT id, name FROM name").fetchall())
    numbers: dict[tuple[str, str], int] = {}
    leaves: dict[tuple[int, int, int, str], int] = {}
    paths: list[list[int]] = []
    keys = zip(*(table.column(c).to_pylist() for c in ("name_id", "checksum", "pc", "reason")), strict=True)
    leaf = np.zeros(len(table), np.int64)
    for row, key in enumerate(keys):
        if key not in leaves:
            leaves[key] = len(paths)
            path = _path(code, names[key[0]], mangled.get(key[0], ""), *key[1:])
            paths.append([numbers.setdefault(step, len(numbers)) for step in path])
        leaf[row] = leaves[key]
    wide = np.full((len(paths), max(map(len, paths), default=1)), -1, np.int64)
    for at, steps in enumerate(paths):
        wide[at, : len(steps)] = steps
    return leaf, wide, [text for _, text in numbers], [kind for kind, _ in numbers]


def _path(
    code: KeptCode, kernel: str, mangled: str, checksum: int, sampled: int, reason: str
) -> list[tuple[str, str]]:
    """(kind, name) of each step below the host stack."""
    pc = place_of(reason, sampled, lambda at: code.operation_at(checksum, mangled, at))
    origin = code.origin(checksum, mangled, pc)
    lines = [("source", frame_text(frame)) for frame in reversed(origin.frames)]
    return [("kernel", kernel), *lines, ("instruction", f"+{pc:#x} {origin.sass}"), ("stall", reason)]

"""Numbers that go up and down: memory in use and sampled counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from warpsight.analysis.base import words
from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.model.allocators import changes
from warpsight.model.selection import Rows

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


def memory(trace: StoredTrace, rows: Rows, by: str) -> Result:
    """Allocations by allocator (or, with `by` stack, by allocating stack), with the peak and bytes never freed."""
    where = rows.where(time="time")
    if by == "stack":
        return _by_stack(trace, where)
    table = trace.sql(
        f"""WITH levels AS (
          SELECT *, sum(change) OVER (PARTITION BY process, device, allocator ORDER BY time, change
                                      ROWS UNBOUNDED PRECEDING) AS level
          FROM ({changes(where)}))
        SELECT process, device, allocator,
          count(*) FILTER (operation = 'allocate') AS allocations, count(*) FILTER (operation = 'free') AS frees,
          coalesce(sum(bytes) FILTER (operation = 'allocate'), 0)::BIGINT AS total,
          greatest(max(level), 0)::BIGINT AS peak, sum(change)::BIGINT AS at_end,
          count(*) FILTER (operation = 'free' AND before IS DISTINCT FROM 'allocate') AS unknown_frees
        FROM levels GROUP BY ALL ORDER BY peak DESC, process, device, allocator"""
    ).to_arrow_table()
    unknown = sum(table["unknown_frees"].to_pylist())
    findings: tuple[Finding, ...] = ()
    if unknown:
        text = (
            f"{words.counted(unknown, 'free has', 'frees have')} no allocation in the trace: it was made before the "
            "recording, or freed twice"
        )
        findings = (Finding("note", text, {"frees": unknown}),)
    return Result({"memory": with_units(table, total="B", peak="B", at_end="B")}, findings)


def _by_stack(trace: StoredTrace, where: str) -> Result:
    found = trace.sql(
        f"""SELECT coalesce(stack, 0) AS stack, count(*) AS allocations, sum(bytes)::BIGINT AS total,
          coalesce(sum(bytes) FILTER (after IS NULL), 0)::BIGINT AS at_end
        FROM ({changes(where)}) WHERE operation = 'allocate' GROUP BY ALL ORDER BY total DESC, stack"""
    ).to_arrow_table()
    ids = found["stack"].to_pylist()
    frames = trace.stacks(i for i in ids if i)
    texts = [" ← ".join(frames.get(i, ())[::-1]) or "(none)" for i in ids]
    table = found.set_column(0, "stack", pa.array(texts, pa.string()))
    return Result({"memory": with_units(table, total="B", at_end="B")})


def counters(trace: StoredTrace, rows: Rows) -> Result:
    """Samples, minimum, mean and maximum of every counter.

    Samples that are not a number are counted apart (`nan`) and left out of everything else.
    """
    terms = Rows(rows.begin, rows.end, rows.devices, (), rows.processes).where(time="time", stream=False)
    named = "" if rows.name is None else " AND regexp_matches(name, $pattern)"
    parameters = {} if rows.name is None else {"pattern": rows.name}
    table = trace.sql(
        f"""
        SELECT device, name, unit, count(number) AS samples, min(number) AS min, avg(number) AS mean, max(number) AS max,
          arg_max(number, time) AS last, count(*) - count(number) AS nan
        FROM (SELECT *, CASE WHEN NOT isnan(value) THEN value END AS number FROM counter WHERE {terms}{named})
        GROUP BY ALL ORDER BY device, name""",
        **parameters,
    ).to_arrow_table()
    unknown = sum(table["nan"].to_pylist())
    findings: tuple[Finding, ...] = ()
    if unknown:
        text = words.counted(
            unknown,
            "sample of a counter is not a number: it is left out of minimum, mean, maximum and last value",
            "samples of counters are not a number: they are left out of minimum, mean, maximum and last value",
        )
        findings = (Finding("note", text, {"samples": unknown}),)
    return Result({"counters": table}, findings)

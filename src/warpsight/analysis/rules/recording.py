"""The recording itself: missing data, failures, and the cost of recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from warpsight.analysis.base import words
from warpsight.analysis.base.doubts import doubts
from warpsight.analysis.base.result import Finding
from warpsight.analysis.rules.base.facts import Facts
from warpsight.model.selection import Rows

#: The driver is shutting down, or has destroyed the context: after the last launch, a process (or its profiler) that ends.
_GONE = (4, 709)


def check(facts: Facts) -> Iterator[Finding]:
    """Findings about the recording."""
    yield from _lost(facts)
    yield from doubts(facts.work)
    yield from _failed(facts)


def _lost(facts: Facts) -> Iterator[Finding]:
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for source, cause, severity, count in facts.trace.rows("loss", "source", "cause", "severity", "count"):
        if severity is not None and severity != "note":
            counts[source, cause] += count
    rows = counts.most_common()
    if rows:
        (source, cause), count = rows[0]
        more = f" and {words.counted(len(rows) - 1, 'more cause', 'more causes')}" if len(rows) > 1 else ""
        text = f"the trace is incomplete: {count:,} lost in {source}: {cause}{more}; what follows is about the rest"
        yield Finding("loss", text, {"count": int(count)}, "recording/lost")


def _failed(facts: Facts) -> Iterator[Finding]:
    results = (facts.trace.columns(table, {"result": 0})[0]["result"] for table in ("launch", "api"))
    if not any(column.any() for column in results):
        return
    where = Rows(processes=facts.rows.processes).where(device=False, stream=False)
    rows = facts.trace.sql(
        f"""SELECT function, result, count(*) AS n, min(start), min_by(duration, start)
            FROM (SELECT function, result, start, duration, process FROM api WHERE {where} UNION ALL
            SELECT function, result, start, duration, process FROM launch_ids WHERE {where})
            LEFT JOIN (SELECT process, max(start) AS last FROM launch_ids WHERE coalesce(result, 0) = 0 GROUP BY process)
            USING (process) WHERE coalesce(result, 0) <> 0
            AND NOT (result = 600 AND function IN ('cudaEventQuery', 'cudaStreamQuery', 'cuEventQuery', 'cuStreamQuery'))
            AND NOT (result IN {_GONE} AND start >= coalesce(last, start))
            GROUP BY ALL ORDER BY n DESC, min(start), function, result LIMIT 3""").fetchall()  # fmt: skip
    for function, code, count, begin, length in rows:
        launched = "Launch" in function
        yield Finding("error" if launched else "warning", f"{function} returned error {code} {words.times(count)}",
                      {"function": function, "result": code, "count": count}, "recording/failed-calls", None, (),
                      "Check the return code of this call in the program; later results may be wrong.",
                      at=None if begin is None else (begin, begin + max(length or 0, 1)))  # fmt: skip

"""Questions for agents: each answer is plain data with bounded rows and characters, and says if it was cut."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from warpsight.errors import UsageError
from warpsight.model.sharing.secrets import shareable
from warpsight.ui.mcp.places import Places

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.base.result import Finding, Result
    from warpsight.analysis.rules.verdict import Verdict
    from warpsight.model import StoredTrace
    from warpsight.model.selection import Rows

#: Rows of a table, and characters of one text, that an answer holds at most.
MOST_ROWS, DEFAULT_ROWS, MOST_TEXT = 200, 20, 300
#: Bytes of the rows of one query, unless the agent asks for more.
MOST_BYTES = 8_000
#: Seconds that a statement may take.
_QUERY_S = 30.0
#: Seconds beyond which nanoseconds have no room in 64 bits.
_LATEST_S = 4e9


class Tools:
    """The tools over some places; every method is a tool, and its docstring is what agents read."""

    def __init__(self, places: Places, query_s: float = _QUERY_S) -> None:
        """Take the places whose traces may be read, and the seconds that one statement may take."""
        self._places = places
        self._query_s = query_s

    def all(self) -> list[Callable[..., dict[str, Any]]]:
        """The tools, in the order in which they are listed."""
        return [self.list_traces, self.info, self.analyze, self.stats, self.query, self.flame, self.diff]

    def list_traces(self) -> dict[str, Any]:
        """List the traces and profiler files that can be asked about, as paths for the other tools."""
        return {"roots": [str(root) for root in self._places.roots], "traces": self._places.listed()}

    def info(self, trace: str) -> dict[str, Any]:
        """What a trace holds: tables with row counts and columns, length, devices, processes, and what is missing."""
        from warpsight.analysis.stats.contents import contents
        from warpsight.model.schema import TABLES

        opened = self._places.open(trace)
        found = contents(opened)
        kept = ("trace", "duration", "tables", "devices", "loss", "known_faults")
        columns = {name: [c.name for c in TABLES[name].columns] for name in opened.tables}
        processes = [{k: p.get(k) for k in ("process", "rank", "exit")} for p in found["processes"]]
        return _bounded(
            {**{k: found[k] for k in kept if k in found}, "processes": processes, "columns": columns}
        )

    def analyze(
        self, trace: str, names: list[str] | None = None, begin_s: float | None = None, end_s: float | None = None,
        rows: int = DEFAULT_ROWS,
    ) -> dict[str, Any]:  # fmt: skip
        """Say where the GPUs' time went, why they were idle, and what to change first.

        `account` has every nanosecond of every device from its first to its last work, once, by class and name. `findings`
        have a `share_ns` of it, largest first, or what a change `saves_ns` at most, with evidence and advice.

        With `names` run these analyses instead (for example utilization, gaps, iterations, critical-path, memory; a wrong name
        is answered with the list of all). Times are ns. `begin_s` and `end_s` choose a part, in seconds since the start.
        """
        from warpsight.analysis.base.registry import analysis
        from warpsight.analysis.rules.verdict import verdict

        opened = self._places.open(trace)
        chosen = _window(opened, begin_s, end_s)
        if not names:
            return _verdict(verdict(opened, chosen), rows)
        asked = [(name, analysis(name)) for name in names]
        return {name: _result(one.run(opened, chosen), rows) for name, one in asked}

    def stats(
        self, trace: str, subject: str = "kernels", by: str = "name", rows: int = DEFAULT_ROWS
    ) -> dict[str, Any]:
        """Sum up one subject: kernels, copies, api, launches, nvtx, events, memory, counters, sync, ops, modules; longest first.

        Kernels can be grouped `by` name, shape, stack, device, stream or process. Times are ns.
        """
        from warpsight.analysis.stats.sums import stats

        return _result(stats(self._places.open(trace), subject, by=by, names="short"), rows)

    def query(self, trace: str, sql: str, rows: int = 50, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
        """Run one SELECT (DuckDB's SQL) on a trace's tables; `info` names tables and columns. Nothing else can be read.

        At most `rows` rows and `most_bytes` bytes are given; `more` says how to get the next ones.
        A statement that takes longer than half a minute is ended.
        """
        from warpsight.analysis.base import query

        limit = min(max(rows, 1), MOST_ROWS)
        opened = self._places.open(trace)
        with opened.within(self._query_s):
            found = query.arrow(opened, query.run(opened, sql).limit(limit + 1))
        given = _within([_bounded(row) for row in found.slice(0, limit).to_pylist()], most_bytes)
        answer: dict[str, Any] = {"columns": found.column_names, "rows": given}
        if len(given) < len(found):
            answer["more"] = (
                f"only the first {len(given)} rows are given: select fewer columns, aggregate, or add OFFSET {len(given)}"
            )
        return answer

    def flame(
        self, trace: str, weight: str = "time", rows: int = 40, begin_s: float | None = None, end_s: float | None = None
    ) -> dict[str, Any]:  # fmt: skip
        """The host code that launched the GPU's work: the heaviest stacks from the outermost frame to the kernel.

        `weight` is time (ns), launches, bytes, idle, allocated, or samples (of host threads: what the CPU did). The account
        says that nothing was lost on the way.
        """
        from warpsight.analysis.flame.graph import Shape, flame
        from warpsight.ui.render.flame.text import write_folded

        opened = self._places.open(trace)
        graph = flame(
            opened, _window(opened, begin_s, end_s), Shape(weight=weight, names="short", lines=False)
        )
        text = io.StringIO()
        write_folded(graph, text)
        lines = [line.rsplit(" ", 1) for line in text.getvalue().splitlines()]
        lines.sort(key=lambda one: -float(one[1]))
        limit = min(max(rows, 1), MOST_ROWS)
        return {
            "unit": graph.unit, "account": [a.to_json() for a in graph.accounts], "stacks": len(lines),
            "heaviest": [{"stack": _tail(stack), "weight": int(float(value))} for stack, value in lines[:limit]],
        }  # fmt: skip

    def diff(
        self, before: str | list[str], after: str | list[str], by: str | None = None, rows: int = DEFAULT_ROWS
    ) -> dict[str, Any]:
        """Compare runs of two versions per iteration: what changed, and whether it is more than run-to-run noise.

        Give several runs a side (four at least, better five, recorded in turn): noise is how runs of one side differ, and the
        verdict on single runs is `untested`. Verdicts of rows: slower, faster (their time), grew, shrank (beside the rest of the
        same run's device work), new, gone, not shown (no difference beyond noise). `ratio` is after / before, `low` and `high`
        its interval. `by` asks for one table: summary, kernel, role, stack, range, operator, tree (the common call tree),
        sequence or runs; without it come the measures, the kernels and the part of the tree that changed.
        """
        import pyarrow as pa

        from warpsight.analysis.diff import runs
        from warpsight.analysis.diff.compare import compare_runs
        from warpsight.analysis.diff.tables import changed_nodes

        sides = [[side] if isinstance(side, str) else side for side in (before, after)]
        if not all(sides):
            raise UsageError("a side of the comparison has no run")
        found = compare_runs(*([runs.read(self._places.open(path)) for path in side] for side in sides))
        tables = found.result.tables
        if by is not None and by not in tables:
            raise UsageError(f"there is no table {by!r}; there is: {', '.join(tables)}")
        wanted = (by,) if by is not None else ("summary", "role" if found.by_role else "kernel", "tree")
        kept = {name: tables[name] for name in wanted if name in tables}
        if by is None:
            nodes = [node["node"] for node in changed_nodes(tables["tree"].to_pylist())]
            kept["tree"] = tables["tree"].take(pa.array(nodes, pa.int64()))
        return {**_bounded(found.facts()), **_result(replace(found.result, tables=kept), rows)}


def _within(rows: list[dict[str, Any]], most_bytes: int) -> list[dict[str, Any]]:
    """The first rows that fit into some bytes as JSON, at least one."""
    sizes = accumulate(len(json.dumps(row, default=str)) + 2 for row in rows)
    return rows[: max(sum(size <= most_bytes for size in sizes), 1)]


def _verdict(found: Verdict, rows: int) -> dict[str, Any]:
    """A verdict with the first rows of the account."""
    limit = min(max(rows, 1), MOST_ROWS)
    answer = found.to_json() | {"judged_ns": found.length}
    account = answer["account"]
    if len(account) > limit:
        answer |= {"account": account[:limit], "account_rows_in_all": len(account)}
    return _bounded(answer)


def _window(trace: StoredTrace, begin_s: float | None, end_s: float | None) -> Rows:
    from warpsight.model.selection import Rows, begin_of

    if begin_s is None and end_s is None:
        return Rows()
    origin = begin_of(trace)
    for moment in (begin_s, end_s):
        if moment is not None and not abs(moment) < _LATEST_S:
            raise UsageError(f"{moment:g} is not a time in seconds")
    begin, end = (None if s is None else origin + round(s * 1e9) for s in (begin_s, end_s))
    return Rows(begin, end)


def _result(result: Result, rows: int) -> dict[str, Any]:
    """A result with the first rows of each table."""
    limit = min(max(rows, 1), MOST_ROWS)
    tables: dict[str, pa.Table] = {name: table.slice(0, limit) for name, table in result.tables.items()}
    findings: tuple[Finding, ...] = result.findings
    answer = replace(result, tables=tables, findings=findings).to_json()
    more = {name: len(table) for name, table in result.tables.items() if len(table) > limit}
    if more:
        answer["rows_in_all"] = more
    return _bounded(answer)


def _bounded(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer with its texts cut."""
    return {str(key): _plain(value) for key, value in answer.items()}


def _plain(value: object) -> object:
    """Plain data with texts cut; what JSON has no form for becomes text."""
    if isinstance(value, dict):
        return _bounded(value)
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, str):
        value = shareable(value)  # an agent's maker reads along
        return value if len(value) <= MOST_TEXT else f"{value[: MOST_TEXT - 1]}…"
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    from decimal import Decimal

    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return _plain(str(value))


def _tail(text: str) -> str:
    """The end of a stack: its innermost frames and the kernel."""
    text = shareable(text)
    return text if len(text) <= MOST_TEXT else f"…{text[1 - MOST_TEXT :]}"
